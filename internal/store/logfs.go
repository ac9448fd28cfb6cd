package store

import (
	"errors"
	"math"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/wal"
)

// newLogFS returns the file system for the log in dir. The operating system's
// files are reached by the log's own and faster ways; any other file system, as
// in tests and in memory, through Pebble's interface.
func newLogFS(fsys vfs.FS, dir string) wal.FS {
	if fsys == vfs.Default {
		return wal.OS(dir)
	}
	return &logFS{fs: fsys, dir: dir}
}

type logFS struct {
	fs  vfs.FS
	dir string
}

func (l *logFS) path(name string) string { return l.fs.PathJoin(l.dir, name) }

func (l *logFS) Create(name string) (wal.File, error) {
	f, err := l.fs.Create(l.path(name), vfs.WriteCategoryUnspecified)
	return logFile{f}, noSpace(err)
}

func (l *logFS) Open(name string) (wal.File, error) {
	// OpenReadWrite would create it.
	if _, err := l.fs.Stat(l.path(name)); err != nil {
		return nil, err
	}
	f, err := l.fs.OpenReadWrite(l.path(name), vfs.WriteCategoryUnspecified)
	return logFile{f}, err
}

func (l *logFS) Remove(name string) error     { return l.fs.Remove(l.path(name)) }
func (l *logFS) Rename(from, to string) error { return l.fs.Rename(l.path(from), l.path(to)) }
func (l *logFS) List() ([]string, error)      { return l.fs.List(l.dir) }
func (l *logFS) SyncDir() error               { return syncDir(l.fs, l.dir) }

func (l *logFS) Free() (int64, error) {
	u, err := l.fs.GetDiskUsage(l.dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return math.MaxInt64, nil
	}
	return int64(min(u.AvailBytes, math.MaxInt64)), err
}

// logFile is a segment on a file system of Pebble's.
type logFile struct{ vfs.File }

func (f logFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	return n, noSpace(err)
}

func (f logFile) WriteDurable(p []byte, off int64) error {
	if _, err := f.WriteAt(p, off); err != nil {
		return err
	}
	return f.SyncData()
}

// Forget does nothing: such a file shows what it has.
func (f logFile) Forget() error { return nil }

func (f logFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// noSpace gives a full disk the log's word on every platform.
func noSpace(err error) error {
	if err != nil && vfs.IsNoSpaceError(err) {
		return errors.Join(wal.ErrDiskFull, err)
	}
	return err
}
