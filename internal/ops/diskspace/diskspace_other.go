//go:build !linux && !darwin

package diskspace

// Measure is not known here.
func Measure(string) (free, size int64, err error) { return 0, 0, ErrUnknown }
