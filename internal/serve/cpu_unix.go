//go:build unix

package serve

import (
	"syscall"
	"time"
)

// processorTime is what the process has used.
func processorTime() (user, system time.Duration) {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0, 0
	}
	return time.Duration(r.Utime.Nano()), time.Duration(r.Stime.Nano())
}
