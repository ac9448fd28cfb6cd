//go:build unix

package main

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// held tells whether a store has locked the file. It only looks: a backup may be where
// nothing can be written.
func held(lock string) bool {
	f, err := os.Open(lock)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}
