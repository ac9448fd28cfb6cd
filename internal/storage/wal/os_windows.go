package wal

import (
	"fmt"

	"golang.org/x/sys/windows"
)

// fullErrors are the system's words for want of space, and filesErrors for want of files that
// may be open.
var (
	fullErrors  = []error{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL}
	filesErrors = []error{windows.ERROR_TOO_MANY_OPEN_FILES}
)

// SyncDir has nothing to do: the file system journals names by itself and offers
// no handle to wait for it.
func (d directory) SyncDir() error { return nil }

func (d directory) Free() (int64, error) {
	path, err := windows.UTF16PtrFromString(string(d))
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(path, &free, nil, nil); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", string(d), err)
	}
	return int64(free), nil
}
