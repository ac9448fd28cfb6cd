package store

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The names in a store's directory.
const (
	formatName = "FORMAT"     // version and id; a directory without it is no store
	draftName  = "FORMAT.new" // FORMAT until it is synced and renamed
	unmadeName = "UNFINISHED" // creation began; gone soon after FORMAT is there
	backupName = "BACKUP"     // a backup to which nothing was committed yet: it needs no log
	lockName   = "LOCK"
	logDir     = "log"
	dataDir    = "data"
)

// directory is a locked directory that is a store, or is about to be one.
type directory struct {
	fs   *guard
	path string
	id   ID
	lock io.Closer
	// made means that FORMAT was there, restored that BACKUP was.
	made, restored bool
}

// Made tells whether there is a store in a directory of the operating system. One that cannot
// be looked at counts as one: whoever opens it is told why.
func Made(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, formatName))
	return !errors.Is(err, fs.ErrNotExist)
}

// openDirectory locks the directory and finds out what is in it. It creates it
// if there is none.
func openDirectory(fsys *guard, path string) (*directory, error) {
	if err := makeDir(fsys, path); err != nil {
		return nil, err
	}
	d := &directory{fs: fsys, path: path}
	if err := d.ours(); err != nil { // before anything is put there
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	lock, err := lockDirectory(fsys, d.join(lockName))
	if held := (*heldError)(nil); errors.As(err, &held) {
		return nil, fmt.Errorf("%w: %s is held %v: close the other one first", ErrLocked, path, held)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	d.lock = lock
	if err := d.inspect(); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), lock.Close())
	}
	return d, nil
}

// lockDirectory locks with the operating system's means if the files are its
// own, or with those of the file system handed in.
func lockDirectory(fsys vfs.FS, name string) (io.Closer, error) {
	if vfs.Root(fsys) == vfs.Default {
		return lockFile(name)
	}
	lock, err := fsys.Lock(name)
	if err != nil {
		return nil, &heldError{cause: err}
	}
	return lock, nil
}

// ours reports a directory that is someone else's.
func (d *directory) ours() error {
	names, err := d.fs.List(d.path)
	if err != nil || slices.Contains(names, formatName) || slices.Contains(names, unmadeName) {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return name == lockName || name == "lost+found"
	})
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("%w: there is no %s file, but %s: name a new or an empty directory (a backup without %s was not finished)",
		ErrForeign, formatName, strings.Join(names[:min(len(names), 3)], ", "), formatName)
}

// inspect finds out whether the directory is a store already, and if not begins
// to make it one.
func (d *directory) inspect() error {
	if err := d.ours(); err != nil {
		return err // someone was faster than the lock
	}
	names, err := d.fs.List(d.path)
	if err != nil {
		return err
	}
	if slices.Contains(names, formatName) {
		d.made, d.restored = true, slices.Contains(names, backupName)
		if err := d.identify(); err != nil || !d.restored || slices.Contains(names, logDir) {
			return err
		}
		// Copies of one backup become different stores: each draws its own id,
		// before there is a log that would carry the old one.
		_, err := rand.Read(d.id[:])
		return errors.Join(err, writeFormat(d.fs, d.path, d.id))
	}
	if slices.Contains(names, unmadeName) {
		// Creation did not come to its end, so no Open ever returned and
		// nothing was ever committed here: begin again.
		for _, name := range []string{logDir, dataDir, draftName} {
			if err := d.fs.RemoveAll(d.join(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	_, err = rand.Read(d.id[:])
	return errors.Join(err, writeDurable(d.fs, d.join(unmadeName), nil), syncDir(d.fs, d.path))
}

// identify reads FORMAT.
func (d *directory) identify() error {
	p, err := readFile(d.fs, d.join(formatName))
	if err != nil {
		return err
	}
	if d.id, err = decodeFormat(p); err != nil && !errors.Is(err, ErrFormat) {
		return &CorruptError{File: d.join(formatName), Err: err}
	}
	return err
}

// finish ends creation: from here on the directory is a store. BACKUP stays
// until the log has something, as long as it excuses that it has not.
func (d *directory) finish(logBegun bool) error {
	if !d.made {
		if err := writeFormat(d.fs, d.path, d.id); err != nil {
			return err
		}
		d.made = true
	}
	// The mark may also have outlived a crash right after FORMAT was written.
	marks := []string{unmadeName}
	if logBegun {
		marks = append(marks, backupName)
	}
	for _, mark := range marks {
		if err := d.fs.Remove(d.join(mark)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return syncDir(d.fs, d.path)
}

func (d *directory) join(name string) string { return d.fs.PathJoin(d.path, name) }

func (d *directory) close() error { return d.lock.Close() }

// writeFormat makes the directory a store by one rename.
func writeFormat(fsys vfs.FS, dir string, id ID) error {
	draft := fsys.PathJoin(dir, draftName)
	if err := writeDurable(fsys, draft, encodeFormat(id)); err != nil {
		return err
	}
	if err := fsys.Rename(draft, fsys.PathJoin(dir, formatName)); err != nil {
		return err
	}
	return syncDir(fsys, dir)
}
