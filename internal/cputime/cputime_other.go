//go:build !unix

package cputime

import "time"

// Used is not known here.
func Used() (user, system time.Duration) { return 0, 0 }
