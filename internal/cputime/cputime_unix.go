//go:build unix

package cputime

import (
	"syscall"
	"time"
)

// Used is what the process has used, all of its threads together.
func Used() (user, system time.Duration) {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0, 0
	}
	return time.Duration(r.Utime.Nano()), time.Duration(r.Stime.Nano())
}
