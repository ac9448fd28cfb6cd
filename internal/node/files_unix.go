//go:build unix

package node

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// isLocked reports whether a store has locked the file. It only looks: a backup may be where
// nothing can be written.
func isLocked(lock string) bool {
	f, err := os.Open(lock)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// isUnsyncable reports whether an error of SyncDir means that there is nothing to be synced: the file
// system has no sync of directories, or takes no changes.
func isUnsyncable(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EROFS)
}
