package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

var errMemory = fmt.Errorf("%w: a store in memory cannot be backed up: scan it instead", ErrOptions)

// Backup writes a copy of every store to dir. The file that makes it a node's
// directory comes last: a backup that was cut short does not open.
func (n *Node) Backup(ctx context.Context, dir string) error {
	if n.opts.Dir == "" {
		return errMemory
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("backup to %s: %w: name a new or an empty directory", dir, fs.ErrExist)
	}
	if err := makeDir(dir); err != nil {
		return err
	}
	if err := n.backup(ctx, dir); err != nil {
		return errors.Join(err, clearBackup(dir, len(n.parts)))
	}
	return writeStores(dir, len(n.parts))
}

// backup copies the stores, the one with the catalog last: so the catalog knows
// every keyspace whose keys are in the others.
func (n *Node) backup(ctx context.Context, dir string) error {
	for i := len(n.parts) - 1; i >= 0; i-- {
		if _, err := n.parts[i].Store.Backup(ctx, filepath.Join(dir, strconv.Itoa(i))); err != nil {
			return err
		}
	}
	return nil
}

// clearBackup removes what a backup that failed has written, so that it can be
// tried again.
func clearBackup(dir string, stores int) error {
	var errs []error
	for i := range stores {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, strconv.Itoa(i))))
	}
	return errors.Join(errs...)
}
