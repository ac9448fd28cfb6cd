package store

import (
	"errors"
	"math"
	"math/rand/v2"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/storage/wal"
)

// FS is the file system under a store.
type FS = vfs.FS

// CrashableFS is a file system in memory that can lose what was not synced, for
// simulations and tests of crashes.
type CrashableFS struct{ mem *vfs.MemFS }

// NewCrashableFS returns an empty one.
func NewCrashableFS() *CrashableFS { return &CrashableFS{vfs.NewCrashableMem()} }

// FS is where a store puts its files.
func (c *CrashableFS) FS() FS { return c.mem }

// Crash returns what a machine would find after a crash at this moment: all
// that was synced, and of the rest each block and each name with a chance of
// percent in a hundred. The old file system goes on, cut off from the new.
func (c *CrashableFS) Crash(percent int, rng *rand.Rand) *CrashableFS {
	return &CrashableFS{c.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})}
}

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

func (l *logFS) pathOf(name string) string { return l.fs.PathJoin(l.dir, name) }

func (l *logFS) Create(name string) (wal.File, error) {
	f, err := l.fs.Create(l.pathOf(name), vfs.WriteCategoryUnspecified)
	return logFile{f}, asDiskFull(err)
}

func (l *logFS) Open(name string) (wal.File, error) {
	// OpenReadWrite would create it.
	if _, err := l.fs.Stat(l.pathOf(name)); err != nil {
		return nil, err
	}
	f, err := l.fs.OpenReadWrite(l.pathOf(name), vfs.WriteCategoryUnspecified)
	return logFile{f}, err
}

func (l *logFS) Remove(name string) error     { return l.fs.Remove(l.pathOf(name)) }
func (l *logFS) Rename(from, to string) error { return l.fs.Rename(l.pathOf(from), l.pathOf(to)) }
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
	return n, asDiskFull(err)
}

func (f logFile) WriteDurable(p []byte, off int64) error {
	if _, err := f.WriteAt(p, off); err != nil {
		return err
	}
	return f.SyncData()
}

// DropCache does nothing: such a file shows what it has.
func (f logFile) DropCache() error { return nil }

func (f logFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// asDiskFull gives a full disk the log's word on every platform.
func asDiskFull(err error) error {
	if err != nil && vfs.IsNoSpaceError(err) {
		return errors.Join(wal.ErrDiskFull, err)
	}
	return err
}
