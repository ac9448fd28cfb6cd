package main

import (
	"os"
	"syscall"
)

// maxMemory returns the most memory that a process had at one time.
func maxMemory(state *os.ProcessState) int64 {
	if u, ok := state.SysUsage().(*syscall.Rusage); ok {
		return u.Maxrss << 10
	}
	return 0
}
