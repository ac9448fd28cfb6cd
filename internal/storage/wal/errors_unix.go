//go:build unix

package wal

import (
	"syscall"
)

// fullErrors are the system's words for want of space, and filesErrors for want of files that
// may be open.
var (
	fullErrors  = []error{syscall.ENOSPC, syscall.EDQUOT}
	filesErrors = []error{syscall.EMFILE, syscall.ENFILE}
)
