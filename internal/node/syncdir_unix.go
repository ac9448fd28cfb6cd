//go:build unix

package node

import (
	"errors"
	"os"
	"syscall"
)

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// unsyncable tells whether an error of SyncDir says that there is nothing to be synced: the file
// system has no sync of directories, or takes no changes.
func unsyncable(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EROFS)
}
