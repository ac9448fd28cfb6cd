package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Restore copies a backup that was never opened to o.Dir, which must not exist
// or be empty, and reads every row of the copy, so that damage is found now and
// not when it hurts. The backup stays as it is and can be restored again. It
// returns the digest of all rows. If it fails, the copy is removed.
//
// Opening a backup where it lies works as well: it becomes that store then.
func Restore(ctx context.Context, backup string, o Options) (Digest, error) {
	o, err := o.withDefaults()
	if err != nil {
		return Digest{}, err
	}
	names, err := o.FS.List(backup)
	if err != nil {
		return Digest{}, fmt.Errorf("restore %s: %w", backup, err)
	}
	if !slices.Contains(names, formatName) || !slices.Contains(names, backupName) {
		return Digest{}, fmt.Errorf("restore %s: %w: it has no %s and %s: name the directory of a backup that was never opened",
			backup, ErrForeign, formatName, backupName)
	}
	if names, err := o.FS.List(o.Dir); err == nil && len(names) > 0 {
		return Digest{}, fmt.Errorf("restore to %s: %w: name a new or an empty directory", o.Dir, fs.ErrExist)
	}
	d, err := restore(ctx, backup, o)
	if err != nil {
		err = errors.Join(fmt.Errorf("restore %s to %s: %w", backup, o.Dir, err), o.FS.RemoveAll(o.Dir))
	}
	return d, err
}

func restore(ctx context.Context, backup string, o Options) (Digest, error) {
	if err := copyTree(ctx, newGuard(o.FS, &health{wake: func() {}}, ""), backup, o.Dir); err != nil {
		return Digest{}, err
	}
	s, err := Open(o)
	if err != nil {
		return Digest{}, err
	}
	snap, err := s.Snapshot()
	if err != nil {
		return Digest{}, errors.Join(err, s.Close())
	}
	d, err := snap.Digest(nil, nil)
	return d, errors.Join(err, snap.Close(), s.Close())
}

// copyTree copies what a backup consists of, FORMAT last.
func copyTree(ctx context.Context, fsys vfs.FS, from, to string) error {
	if err := makeDir(fsys, fsys.PathJoin(to, dataDir)); err != nil {
		return err
	}
	files, err := fsys.List(fsys.PathJoin(from, dataDir))
	if err != nil {
		return err
	}
	for i := range files {
		files[i] = fsys.PathJoin(dataDir, files[i])
	}
	for _, name := range append(files, backupName, formatName) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if name == formatName {
			// All else has to be durable before the directory counts as a store.
			if err := errors.Join(syncDir(fsys, fsys.PathJoin(to, dataDir)), syncDir(fsys, to)); err != nil {
				return err
			}
		}
		if err := vfs.Copy(fsys, fsys.PathJoin(from, name), fsys.PathJoin(to, name)); err != nil {
			return err
		}
	}
	return syncDir(fsys, to)
}
