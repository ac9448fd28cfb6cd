//go:build unix && !linux

package wal

import (
	"errors"
	"os"
)

func (d directory) SyncDir() error {
	f, err := os.Open(string(d))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
