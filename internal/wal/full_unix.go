//go:build unix

package wal

import "syscall"

// fullErrors are the system's words for want of space.
var fullErrors = []error{syscall.ENOSPC, syscall.EDQUOT}
