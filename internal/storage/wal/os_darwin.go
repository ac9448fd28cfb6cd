package wal

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func (d directory) Free() (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(string(d), &s); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", string(d), err)
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
