package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/throttle"
)

// guardedFS is the file system that Pebble gets. It keeps six rules: nothing is
// written after the store died, files are the owner's alone, a full disk is not
// hammered, a manifest is durable by name before a marker names it, writers
// of tables give way to clients, and few wait for a table at once.
type guardedFS struct {
	vfs.FS
	health         *health
	data           string        // Pebble's directory
	checkpointErrs sync.Map      // of checkpoints, elsewhere: why a directory could not be synced
	isOS           bool          // the files are the operating system's
	readSlots      chan struct{} // held by reads of tables, maxTableReads at most
	// space is that of the disk, and leave how much of it tables leave. Nil if nothing is left.
	space   *diskSpace
	minFree func(vfs.DiskWriteCategory) int64
}

// maxTableReads is how many read tables at once: each that waits for the disk takes a thread, of
// which there are not as many as there may be clients.
const maxTableReads = 128

func newGuardedFS(fsys vfs.FS, h *health, data string) *guardedFS {
	return &guardedFS{FS: fsys, health: h, data: data, isOS: vfs.Root(fsys) == vfs.Default, readSlots: make(chan struct{}, maxTableReads)}
}

// newGuardedFS is that of a store's own files.
func (s *Store) newGuardedFS() *guardedFS {
	g := newGuardedFS(s.opts.FS, &s.health, s.opts.FS.PathJoin(s.opts.Dir, dataDir))
	g.space, g.minFree = &s.space, s.minFreeBytes
	return g
}

// isTableName reports whether a file is one of Pebble's tables.
func isTableName(name string) bool { return strings.HasSuffix(name, ".sst") }

func (g *guardedFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := g.FS.Open(name, opts...)
	if err != nil || !isTableName(name) {
		return f, err
	}
	return &limitedReadFile{File: f, readSlots: g.readSlots}, nil
}

// limitedReadFile is a table that many read.
type limitedReadFile struct {
	vfs.File
	readSlots chan struct{}
}

func (f *limitedReadFile) ReadAt(p []byte, off int64) (int, error) {
	f.readSlots <- struct{}{}
	defer func() { <-f.readSlots }()
	return f.File.ReadAt(p, off)
}

// retryPause is how long a new table waits on a full disk, or for its refusal
// after death. Pebble tries a failed flush again at once, which would keep a core
// busy until there is space, or until Close.
const retryPause = 20 * time.Millisecond

// wrapWritable finishes the opening of a file for writing.
func (g *guardedFS) wrapWritable(f vfs.File, name string, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	if g.isOS {
		if err := os.Chmod(name, fileMode); err != nil {
			f.Close()
			return nil, err
		}
	}
	return &guardedFile{File: f, health: g.health}, nil
}

func (g *guardedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if g.health.isImpaired() {
		time.Sleep(retryPause)
	}
	if err := g.health.err(); err != nil {
		return nil, err
	}
	f, err := g.FS.Create(name, c)
	f, err = g.wrapWritable(f, name, err)
	switch base := g.PathBase(name); {
	case err != nil:
	case isTableName(base):
		if g.space != nil {
			f = &spaceCheckedFile{File: f, space: g.space, minFree: func() int64 { return g.minFree(c) }}
		}
		f = &yieldingFile{File: f}
	case strings.HasPrefix(base, "MANIFEST"):
		// Pebble syncs the manifest, creates the marker that names it, and only
		// then syncs the directory with both. A file system that does not keep
		// names in order may keep the marker and lose the manifest.
		f = &nameSyncedFile{File: f, syncName: func() error { return syncDir(g.FS, g.PathDir(name)) }}
	}
	return f, err
}

// nameSyncedFile is a file whose first Sync makes its name durable as well.
type nameSyncedFile struct {
	vfs.File
	syncName   func() error
	nameSynced bool
}

func (f *nameSyncedFile) Sync() error {
	if err := f.File.Sync(); err != nil || f.nameSynced {
		return err
	}
	f.nameSynced = true
	return f.syncName()
}

func (g *guardedFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := g.health.err(); err != nil {
		return nil, err
	}
	f, err := g.FS.OpenReadWrite(name, c, opts...)
	return g.wrapWritable(f, name, err)
}

func (g *guardedFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := g.health.err(); err != nil {
		return nil, err
	}
	f, err := g.FS.ReuseForWrite(oldname, newname, c)
	return g.wrapWritable(f, newname, err)
}

func (g *guardedFS) Link(oldname, newname string) error {
	if err := g.health.err(); err != nil {
		return err
	}
	return g.FS.Link(oldname, newname)
}

func (g *guardedFS) Rename(oldname, newname string) error {
	if err := g.health.err(); err != nil {
		return err
	}
	return g.FS.Rename(oldname, newname)
}

func (g *guardedFS) Remove(name string) error {
	if err := g.health.err(); err != nil {
		return err
	}
	return g.FS.Remove(name)
}

func (g *guardedFS) RemoveAll(name string) error {
	if err := g.health.err(); err != nil {
		return err
	}
	return g.FS.RemoveAll(name)
}

func (g *guardedFS) MkdirAll(dir string, _ os.FileMode) error {
	if err := g.health.err(); err != nil {
		return err
	}
	return g.FS.MkdirAll(dir, dirMode)
}

func (g *guardedFS) Lock(name string) (io.Closer, error) {
	lock, err := g.FS.Lock(name)
	if err == nil && g.isOS {
		err = os.Chmod(name, fileMode)
	}
	return lock, err
}

// OpenDir opens a directory to be synced. Pebble panics if that fails; here the
// store dies instead, and Pebble goes on with a disk that takes nothing more. A checkpoint
// may be on another disk, which is no reason to die: its maker calls takeCheckpointError.
func (g *guardedFS) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	if name != g.data && name != g.PathDir(g.data) {
		return &checkpointDir{File: f, name: name, errs: &g.checkpointErrs}, nil
	}
	return &guardedDir{File: f, health: g.health}, nil
}

// checkpointDir is a directory that is not the store's own.
type checkpointDir struct {
	vfs.File
	name string
	errs *sync.Map
}

func (d *checkpointDir) Sync() error {
	if err := d.File.Sync(); err != nil {
		d.errs.Store(d.name, fmt.Errorf("sync of %s: %w", d.name, err))
	}
	return nil
}

// takeCheckpointError returns why directories of a checkpoint could not be synced, once.
func (g *guardedFS) takeCheckpointError(dirs ...string) (err error) {
	for _, dir := range dirs {
		if failed, ok := g.checkpointErrs.LoadAndDelete(dir); ok {
			err = errors.Join(err, failed.(error))
		}
	}
	return err
}

type guardedDir struct {
	vfs.File
	health *health
}

func (d *guardedDir) Sync() error {
	if d.health.err() != nil {
		return nil
	}
	if err := d.File.Sync(); err != nil {
		d.health.fail(fmt.Errorf("sync of a directory: %w", err))
	}
	return nil
}

// GetDiskUsage hides an error: Pebble takes one for a failed compaction, and
// what it asks this for is only the pace of deletions.
func (g *guardedFS) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	u, err := g.FS.GetDiskUsage(path)
	if err != nil {
		return u, vfs.ErrUnsupported
	}
	return u, nil
}

func (g *guardedFS) Unwrap() vfs.FS { return g.FS }

// guardedFile is a file open for writing.
type guardedFile struct {
	vfs.File
	health *health
}

func (f *guardedFile) Write(p []byte) (int, error) {
	if err := f.health.err(); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f *guardedFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.health.err(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f *guardedFile) Sync() error {
	if err := f.health.err(); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *guardedFile) SyncData() error {
	if err := f.health.err(); err != nil {
		return err
	}
	return f.File.SyncData()
}

func (f *guardedFile) SyncTo(length int64) (bool, error) {
	if err := f.health.err(); err != nil {
		return false, err
	}
	return f.File.SyncTo(length)
}

// cpuYielder lets a goroutine that works in the background give way.
type cpuYielder struct{ throttle.Yielder }

// maybeYield lets others have the processor if it is time for that.
func (y *cpuYielder) maybeYield() {
	now := time.Now()
	if !y.IsDue(now) {
		return
	}
	runtime.Gosched()
	y.Resume(now, time.Now())
}

// yieldingFile is a table that Pebble writes in the background.
type yieldingFile struct {
	vfs.File
	cpuYielder
}

func (f *yieldingFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.maybeYield()
	return n, err
}
