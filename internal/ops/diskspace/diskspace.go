// Package diskspace measures how full a file system is.
package diskspace

import "errors"

// ErrUnknown means that this platform does not say.
var ErrUnknown = errors.New("diskspace: not known on this platform")
