//go:build !unix && !windows

package wal

import (
	"syscall"
)

// fullErrors are the system's words for want of space, and filesErrors for want of files that
// may be open.
var (
	fullErrors  = []error{syscall.ENOSPC}
	filesErrors = []error{syscall.EMFILE}
)
