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

// ErrMemory means that a node in memory has no files to back up.
var ErrMemory = errors.New("node: a store in memory cannot be backed up: scan it instead")

// Backup writes a copy of every store to dir. The file that makes it a node's
// directory comes last: a backup that was cut short does not open.
func (n *Node) Backup(ctx context.Context, dir string) error {
	if n.opts.Dir == "" {
		return ErrMemory
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("backup to %s: %w: name a new or an empty directory", dir, fs.ErrExist)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for i, p := range n.parts {
		if _, err := p.Store.Backup(ctx, filepath.Join(dir, strconv.Itoa(i))); err != nil {
			return err
		}
	}
	return writeStores(dir, len(n.parts))
}
