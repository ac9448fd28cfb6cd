package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/plant"
)

// guard is the file system that Pebble gets. It keeps six rules: nothing is
// written after the store died, files are the owner's alone, a full disk is not
// hammered, a manifest is durable by name before a marker names it, whoever
// writes tables gives way to clients, and few wait for a table at once.
type guard struct {
	vfs.FS
	health  *health
	data    string        // Pebble's directory
	aside   sync.Map      // of checkpoints, elsewhere: why a directory could not be synced
	osFile  bool          // the files are the operating system's
	reading chan struct{} // who reads a table, mostReading at most
}

// mostReading is how many read tables at once: each that waits for the disk takes a thread, of
// which there are not as many as there may be clients.
const mostReading = 128

func newGuard(fsys vfs.FS, h *health, data string) *guard {
	return &guard{FS: fsys, health: h, data: data, osFile: vfs.Root(fsys) == vfs.Default, reading: make(chan struct{}, mostReading)}
}

// namesTable tells whether a file is one of Pebble's tables.
func namesTable(name string) bool { return strings.HasSuffix(name, ".sst") }

func (g *guard) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := g.FS.Open(name, opts...)
	if err != nil || !namesTable(name) || plant.Bug("store-all-wait-for-the-disk") {
		return f, err
	}
	return &sharedFile{File: f, reading: g.reading}, nil
}

// sharedFile is a table that many read.
type sharedFile struct {
	vfs.File
	reading chan struct{}
}

func (f *sharedFile) ReadAt(p []byte, off int64) (int, error) {
	f.reading <- struct{}{}
	defer func() { <-f.reading }()
	return f.File.ReadAt(p, off)
}

// retryPause is how long a new table waits on a full disk, or for its refusal
// after death. Pebble tries a failed flush again at once, which would keep a core
// busy until there is space, or until Close.
const retryPause = 20 * time.Millisecond

// seal finishes the opening of a file for writing.
func (g *guard) seal(f vfs.File, name string, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	if g.osFile {
		if err := os.Chmod(name, fileMode); err != nil {
			f.Close()
			return nil, err
		}
	}
	return &guardedFile{File: f, health: g.health}, nil
}

func (g *guard) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if g.health.impaired() {
		time.Sleep(retryPause)
	}
	if err := g.health.err(); err != nil {
		return nil, err
	}
	f, err := g.FS.Create(name, c)
	f, err = g.seal(f, name, err)
	switch base := g.PathBase(name); {
	case err != nil:
	case namesTable(base):
		f = &politeFile{File: f}
	case strings.HasPrefix(base, "MANIFEST"):
		// Pebble syncs the manifest, creates the marker that names it, and only
		// then syncs the directory with both. A file system that does not keep
		// names in order may keep the marker and lose the manifest.
		f = &namedFile{File: f, sync: func() error { return syncDir(g.FS, g.PathDir(name)) }}
	}
	return f, err
}

// namedFile is a file whose first Sync makes its name durable as well.
type namedFile struct {
	vfs.File
	sync func() error
	done bool
}

func (f *namedFile) Sync() error {
	if err := f.File.Sync(); err != nil || f.done {
		return err
	}
	f.done = true
	return f.sync()
}

func (g *guard) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := g.health.err(); err != nil {
		return nil, err
	}
	f, err := g.FS.OpenReadWrite(name, c, opts...)
	return g.seal(f, name, err)
}

func (g *guard) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := g.health.err(); err != nil {
		return nil, err
	}
	f, err := g.FS.ReuseForWrite(oldname, newname, c)
	return g.seal(f, newname, err)
}

func (g *guard) Link(oldname, newname string) error {
	if err := g.health.err(); err != nil {
		return err
	}
	return g.FS.Link(oldname, newname)
}

func (g *guard) Rename(oldname, newname string) error {
	if err := g.health.err(); err != nil {
		return err
	}
	return g.FS.Rename(oldname, newname)
}

func (g *guard) Remove(name string) error {
	if err := g.health.err(); err != nil {
		return err
	}
	return g.FS.Remove(name)
}

func (g *guard) RemoveAll(name string) error {
	if err := g.health.err(); err != nil {
		return err
	}
	return g.FS.RemoveAll(name)
}

func (g *guard) MkdirAll(dir string, _ os.FileMode) error {
	if err := g.health.err(); err != nil {
		return err
	}
	return g.FS.MkdirAll(dir, dirMode)
}

func (g *guard) Lock(name string) (io.Closer, error) {
	lock, err := g.FS.Lock(name)
	if err == nil && g.osFile {
		err = os.Chmod(name, fileMode)
	}
	return lock, err
}

// OpenDir opens a directory to be synced. Pebble panics if that fails; here the
// store dies instead, and Pebble goes on with a disk that takes nothing more. A checkpoint
// may be on another disk, which is no reason to die: whoever makes it asks failedAside.
func (g *guard) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	if name != g.data && name != g.PathDir(g.data) {
		return &asideDir{File: f, name: name, failed: &g.aside}, nil
	}
	return &guardedDir{File: f, health: g.health}, nil
}

// asideDir is a directory that is not the store's own.
type asideDir struct {
	vfs.File
	name   string
	failed *sync.Map
}

func (d *asideDir) Sync() error {
	if err := d.File.Sync(); err != nil {
		d.failed.Store(d.name, fmt.Errorf("sync of %s: %w", d.name, err))
	}
	return nil
}

// failedAside returns why directories of a checkpoint could not be synced, once.
func (g *guard) failedAside(dirs ...string) (err error) {
	for _, dir := range dirs {
		if failed, ok := g.aside.LoadAndDelete(dir); ok {
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
		d.health.die(fmt.Errorf("sync of a directory: %w", err))
	}
	return nil
}

// GetDiskUsage hides an error: Pebble takes one for a failed compaction, and
// what it asks this for is only the pace of deletions.
func (g *guard) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	u, err := g.FS.GetDiskUsage(path)
	if err != nil {
		return u, vfs.ErrUnsupported
	}
	return u, nil
}

func (g *guard) Unwrap() vfs.FS { return g.FS }

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
