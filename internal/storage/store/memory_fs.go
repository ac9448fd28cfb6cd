package store

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/storage/pages"
)

// memoryFS is the file system of a store in memory. A file is a list of extents that are not on the Go
// heap: it neither leaves garbage as it grows, nor allows garbage in proportion, and its memory is free
// with its last name and handle. An extent of zeros takes no memory, as segments of the log begin.
type memoryFS struct {
	pool *extentPool

	mu    sync.Mutex
	files map[string]*memoryFile // by clean path
	// dirs has every directory but the root, which is ".".
	dirs  map[string]bool
	locks map[string]bool
}

// NewMemFS returns a file system for Options.FS that keeps everything in memory.
// A store on it is gone with the process.
func NewMemFS() FS {
	m := &memoryFS{pool: &extentPool{}, files: map[string]*memoryFile{}, dirs: map[string]bool{}, locks: map[string]bool{}}
	// Each handle keeps the file system: without it nothing reads an extent.
	runtime.AddCleanup(m, (*extentPool).unmap, m.pool)
	return m
}

// isMemoryFS reports whether files are in memory, of which zeros take none.
func isMemoryFS(fsys FS) bool {
	_, is := fsys.(*memoryFS)
	return is
}

// releaseMemory gives the memory of no file back to the operating system.
func (m *memoryFS) releaseMemory() { m.pool.release(0) }

const (
	// extentBytes is what files grow by: half of it is lost at the end of each. A store has about
	// a table for each 2 MiB.
	extentBytes = 64 << 10
	// extentPieceBytes is how much is taken from the operating system at a time.
	extentPieceBytes = 4 << 20
	// minFreeExtentBytes is how much memory of no file is kept for the next one, or a
	// freeExtentDivisor-th of what files take: to take a page again costs a fault.
	minFreeExtentBytes = 16 << 20
	freeExtentDivisor  = 4
)

// zeroExtent is what an extent without memory holds.
var zeroExtent [extentBytes]byte

// extentPool has the memory of all files.
type extentPool struct {
	mu     sync.Mutex
	pieces [][]byte
	// free were used before, and released have no pages.
	free, released [][]byte
	used           int // extents of files
}

// acquire returns an extent with any content.
func (p *extentPool) acquire() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 && len(p.released) == 0 {
		piece := pages.Map(extentPieceBytes)
		p.pieces = append(p.pieces, piece)
		for e := range slices.Chunk(piece, extentBytes) {
			p.released = append(p.released, e)
		}
	}
	from := &p.free
	if len(*from) == 0 {
		from = &p.released
	}
	last := len(*from) - 1
	e := (*from)[last]
	*from = (*from)[:last]
	p.used++
	return e
}

// recycle takes back what no file has any more.
func (p *extentPool) recycle(extents [][]byte) {
	p.mu.Lock()
	for _, e := range extents {
		if e != nil {
			p.free = append(p.free, e)
			p.used--
		}
	}
	keep := max(minFreeExtentBytes/extentBytes, p.used/freeExtentDivisor)
	p.mu.Unlock()
	p.release(keep)
}

// release gives the pages of free extents back to the operating system, but those of keep of them.
func (p *extentPool) release(keep int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.free) > keep {
		last := len(p.free) - 1
		if !pages.Release(p.free[last]) {
			return
		}
		p.released = append(p.released, p.free[last])
		p.free = p.free[:last]
	}
}

// unmap gives everything back. There is no file system any more.
func (p *extentPool) unmap() {
	for _, piece := range p.pieces {
		pages.Unmap(piece)
	}
}

// memoryFile is the content of a file.
type memoryFile struct {
	// links and handles are how many names and handles it has. memoryFS.mu is held.
	links, handles int

	mu       sync.RWMutex
	extents  [][]byte // nil for one of zeros
	size     int64
	modified time.Time
}

// dropIfUnused frees the memory of a file without names and handles. m.mu is held.
func (m *memoryFS) dropIfUnused(f *memoryFile) {
	if f.links > 0 || f.handles > 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	m.pool.recycle(f.extents)
	f.extents, f.size = nil, 0
}

// readAt is that of [io.ReaderAt].
func (f *memoryFile) readAt(p []byte, off int64) (n int, err error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if off < 0 {
		return 0, fs.ErrInvalid
	}
	for n < len(p) && off < f.size {
		e, at := f.extents[off/extentBytes], off%extentBytes
		if e == nil {
			e = zeroExtent[:]
		}
		k := copy(p[n:], e[at:min(extentBytes, at+f.size-off)])
		n, off = n+k, off+int64(k)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// writeAt writes all of p. What was never written before is zeros.
func (f *memoryFile) writeAt(pool *extentPool, p []byte, off int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.modified = time.Now()
	f.size = max(f.size, off+int64(len(p)))
	for need := int((f.size + extentBytes - 1) / extentBytes); len(f.extents) < need; {
		f.extents = append(f.extents, nil)
	}
	for len(p) > 0 {
		i, at := off/extentBytes, off%extentBytes
		piece := p[:min(int64(len(p)), extentBytes-at)]
		if f.extents[i] == nil && !bytes.Equal(piece, zeroExtent[:len(piece)]) {
			e := pool.acquire()
			clear(e[:at])
			clear(e[at+int64(len(piece)):])
			f.extents[i] = e
		}
		if e := f.extents[i]; e != nil {
			copy(e[at:], piece)
		}
		p, off = p[len(piece):], off+int64(len(piece))
	}
}

// memoryHandle is an open file, or directory, which has no file.
type memoryHandle struct {
	fs   *memoryFS
	file *memoryFile
	name string
	pos  int64

	mu       sync.RWMutex // held for writing by Close
	isClosed bool
}

// cleanPath returns the path under which a name is kept.
func cleanPath(name string) string { return path.Clean(strings.TrimLeft(name, "/")) }

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// hasDir reports whether there is a directory. m.mu is held.
func (m *memoryFS) hasDir(name string) bool { return name == "." || m.dirs[name] }

// openHandle returns a handle of a file. m.mu is held.
func (m *memoryFS) openHandle(f *memoryFile, name string) *memoryHandle {
	f.handles++
	return &memoryHandle{fs: m, file: f, name: path.Base(name)}
}

// setName gives a file a name that another file may have. m.mu is held.
func (m *memoryFS) setName(f *memoryFile, name string) {
	if old := m.files[name]; old != nil {
		m.dropName(old, name)
	}
	f.links++
	m.files[name] = f
}

// dropName takes a name from a file. m.mu is held.
func (m *memoryFS) dropName(f *memoryFile, name string) {
	delete(m.files, name)
	f.links--
	m.dropIfUnused(f)
}

// Create makes an empty file, which takes the name of any that has it.
func (m *memoryFS) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clean := cleanPath(name)
	if !m.hasDir(path.Dir(clean)) || m.hasDir(clean) {
		return nil, pathError("create", name, fs.ErrNotExist)
	}
	f := &memoryFile{modified: time.Now()}
	m.setName(f, clean)
	return m.openHandle(f, clean), nil
}

// Link gives a file a second name.
func (m *memoryFS) Link(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.files[cleanPath(from)]
	switch {
	case f == nil || !m.hasDir(path.Dir(cleanPath(to))):
		return pathError("link", from, fs.ErrNotExist)
	case m.files[cleanPath(to)] != nil:
		return pathError("link", to, fs.ErrExist)
	}
	m.setName(f, cleanPath(to))
	return nil
}

// Open opens a file or a directory.
func (m *memoryFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clean := cleanPath(name)
	f := m.files[clean]
	var h *memoryHandle
	switch {
	case f != nil:
		h = m.openHandle(f, clean)
	case m.hasDir(clean):
		h = &memoryHandle{fs: m, name: path.Base(clean)}
	default:
		return nil, pathError("open", name, fs.ErrNotExist)
	}
	for _, o := range opts {
		o.Apply(h)
	}
	return h, nil
}

// OpenReadWrite opens a file, or makes one.
func (m *memoryFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := m.Open(name, opts...)
	if err != nil {
		return m.Create(name, c)
	}
	return f, nil
}

// OpenDir opens a directory.
func (m *memoryFS) OpenDir(name string) (vfs.File, error) { return m.Open(name) }

// Remove removes a file, or a directory in which nothing is. Those that have it open go on.
func (m *memoryFS) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	clean := cleanPath(name)
	if f := m.files[clean]; f != nil {
		m.dropName(f, clean)
		return nil
	}
	switch {
	case !m.dirs[clean]:
		return pathError("remove", name, fs.ErrNotExist)
	case len(m.listDir(clean)) > 0:
		return pathError("remove", name, fs.ErrExist)
	}
	delete(m.dirs, clean)
	return nil
}

// RemoveAll removes whatever has a name and what is below it.
func (m *memoryFS) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	clean := cleanPath(name)
	isWithin := func(p string) bool { return clean == "." || p == clean || strings.HasPrefix(p, clean+"/") }
	for p, f := range m.files {
		if isWithin(p) {
			m.dropName(f, p)
		}
	}
	for p := range m.dirs {
		if isWithin(p) {
			delete(m.dirs, p)
		}
	}
	return nil
}

// Rename gives a file, or a directory with what is below it, another name.
func (m *memoryFS) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, to = cleanPath(from), cleanPath(to)
	f := m.files[from]
	switch {
	case f == nil && !m.dirs[from] || !m.hasDir(path.Dir(to)):
		return pathError("rename", from, fs.ErrNotExist)
	case from == to:
		return nil
	case f != nil:
		m.setName(f, to)
		m.dropName(f, from)
		return nil
	}
	for p, f := range m.files {
		if below, ok := strings.CutPrefix(p, from+"/"); ok {
			m.setName(f, to+"/"+below)
			m.dropName(f, p)
		}
	}
	for p := range m.dirs {
		if below, ok := strings.CutPrefix(p+"/", from+"/"); ok {
			delete(m.dirs, p)
			m.dirs[path.Clean(to+"/"+below)] = true
		}
	}
	return nil
}

// ReuseForWrite renames a file and opens it.
func (m *memoryFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := m.Rename(from, to); err != nil {
		return nil, err
	}
	return m.OpenReadWrite(to, c)
}

// MkdirAll makes a directory and those above it.
func (m *memoryFS) MkdirAll(name string, _ os.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p := cleanPath(name); p != "."; p = path.Dir(p) {
		if m.files[p] != nil {
			return pathError("mkdir", name, fs.ErrExist)
		}
		m.dirs[p] = true
	}
	return nil
}

// Lock makes a file, and takes a lock that nobody else has.
func (m *memoryFS) Lock(name string) (io.Closer, error) {
	f, err := m.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	_ = f.Close() // of a file in memory: it does not fail
	m.mu.Lock()
	defer m.mu.Unlock()
	clean := cleanPath(name)
	if m.locks[clean] {
		return nil, pathError("lock", name, fs.ErrExist)
	}
	m.locks[clean] = true
	return &memoryLock{m, clean}, nil
}

// memoryLock is a lock that was taken.
type memoryLock struct {
	fs   *memoryFS
	name string
}

// Close releases the lock.
func (l *memoryLock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	delete(l.fs.locks, l.name)
	return nil
}

// List returns the names of what is in a directory.
func (m *memoryFS) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.hasDir(cleanPath(dir)) {
		return nil, pathError("list", dir, fs.ErrNotExist)
	}
	return m.listDir(cleanPath(dir)), nil
}

// listDir is List of a directory that there is. m.mu is held.
func (m *memoryFS) listDir(dir string) (names []string) {
	for p := range m.files {
		if path.Dir(p) == dir {
			names = append(names, path.Base(p))
		}
	}
	for p := range m.dirs {
		if path.Dir(p) == dir {
			names = append(names, path.Base(p))
		}
	}
	slices.Sort(names)
	return names
}

// Stat describes a file or a directory.
func (m *memoryFS) Stat(name string) (vfs.FileInfo, error) {
	f, err := m.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}

// PathBase, PathJoin and PathDir have names with slashes.
func (*memoryFS) PathBase(p string) string { return path.Base(p) }

// PathJoin joins names.
func (*memoryFS) PathJoin(elem ...string) string { return path.Join(elem...) }

// PathDir returns the directory of a name.
func (*memoryFS) PathDir(p string) string { return path.Dir(p) }

// GetDiskUsage is not known: memory is limited elsewhere.
func (*memoryFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{}, vfs.ErrUnsupported
}

// Unwrap returns nothing: there is no file system below it.
func (*memoryFS) Unwrap() vfs.FS { return nil }

// beginUse returns the file, which stays until the returned function is called.
func (h *memoryHandle) beginUse(op string) (*memoryFile, func(), error) {
	h.mu.RLock()
	switch {
	case h.isClosed:
		h.mu.RUnlock()
		return nil, nil, pathError(op, h.name, fs.ErrClosed)
	case h.file == nil:
		h.mu.RUnlock()
		return nil, nil, pathError(op, h.name, fmt.Errorf("is a directory: %w", fs.ErrInvalid))
	}
	return h.file, h.mu.RUnlock, nil
}

// Close ends the use of the handle.
func (h *memoryHandle) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isClosed {
		return pathError("close", h.name, fs.ErrClosed)
	}
	h.isClosed = true
	if h.file != nil {
		h.fs.mu.Lock()
		defer h.fs.mu.Unlock()
		h.file.handles--
		h.fs.dropIfUnused(h.file)
	}
	return nil
}

// Read reads on.
func (h *memoryHandle) Read(p []byte) (int, error) {
	n, err := h.ReadAt(p, h.pos)
	h.pos += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// ReadAt is that of [io.ReaderAt].
func (h *memoryHandle) ReadAt(p []byte, off int64) (int, error) {
	f, done, err := h.beginUse("read")
	if err != nil {
		return 0, err
	}
	defer done()
	return f.readAt(p, off)
}

// Write writes on.
func (h *memoryHandle) Write(p []byte) (int, error) {
	n, err := h.WriteAt(p, h.pos)
	h.pos += int64(n)
	return n, err
}

// WriteAt writes all of p.
func (h *memoryHandle) WriteAt(p []byte, off int64) (int, error) {
	f, done, err := h.beginUse("write")
	if err != nil {
		return 0, err
	}
	defer done()
	f.writeAt(h.fs.pool, p, off)
	return len(p), nil
}

// Stat describes what is open.
func (h *memoryHandle) Stat() (vfs.FileInfo, error) {
	i := memoryFileInfo{name: h.name}
	if h.file != nil {
		h.file.mu.RLock()
		defer h.file.mu.RUnlock()
		i.isFile, i.size, i.modified = true, h.file.size, h.file.modified
	}
	return i, nil
}

// Preallocate does nothing: memory comes with what is written.
func (*memoryHandle) Preallocate(int64, int64) error { return nil }

// Sync does nothing: memory is as safe as it gets.
func (*memoryHandle) Sync() error { return nil }

// SyncTo does nothing.
func (*memoryHandle) SyncTo(int64) (fullSync bool, err error) { return true, nil }

// SyncData does nothing.
func (*memoryHandle) SyncData() error { return nil }

// Prefetch does nothing.
func (*memoryHandle) Prefetch(int64, int64) error { return nil }

// Fd returns that there is none.
func (*memoryHandle) Fd() uintptr { return vfs.InvalidFd }

// memoryFileInfo describes a file or a directory.
type memoryFileInfo struct {
	name     string
	size     int64
	isFile   bool
	modified time.Time
}

func (i memoryFileInfo) Name() string       { return i.name }
func (i memoryFileInfo) Size() int64        { return i.size }
func (i memoryFileInfo) ModTime() time.Time { return i.modified }
func (i memoryFileInfo) IsDir() bool        { return !i.isFile }

// Sys returns nothing.
func (memoryFileInfo) Sys() any { return nil }

// DeviceID returns that of no device.
func (memoryFileInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }

// Mode returns that the owner may read and write it.
func (i memoryFileInfo) Mode() os.FileMode {
	if i.isFile {
		return fileMode
	}
	return os.ModeDir | 0o700
}
