package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/storage/pages"
	"github.com/cleavekv/cleave/internal/storage/wal"
)

// filePair is a file of ours, and one of Pebble's file system in memory with the same content.
type filePair struct{ ours, theirs vfs.File }

// Pebble's own file system in memory is the model. Pieces are of all sizes around that of an extent, and often zeros.
func TestMemoryFS_IsAFileSystem(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	ours, theirs := NewMemFS().(*memoryFS), vfs.NewMem()
	for _, f := range []FS{ours, theirs} {
		if err := f.MkdirAll("/a/b", 0o700); err != nil {
			t.Fatal(err)
		}
	}
	name := func() string { return []string{"/a/", "/a/b/"}[rng.IntN(2)] + fmt.Sprint(rng.IntN(5)) }
	var open []filePair
	both := func(step string, do func(FS) error) {
		t.Helper()
		a, b := do(ours), do(theirs)
		if (a == nil) != (b == nil) || errors.Is(a, os.ErrNotExist) != errors.Is(b, os.ErrNotExist) {
			t.Fatalf("%s: %v, want %v", step, a, b)
		}
	}
	opened := func(step string, do func(FS) (vfs.File, error)) {
		t.Helper()
		var p filePair
		both(step, func(f FS) (err error) {
			to := &p.ours
			if f == FS(theirs) {
				to = &p.theirs
			}
			*to, err = do(f)
			return err
		})
		if p.ours != nil && p.theirs != nil {
			open = append(open, p)
		}
	}
	piece := func() []byte {
		p := make([]byte, rng.IntN(3*extentBytes))
		if rng.IntN(3) > 0 {
			for i := range p {
				p[i] = byte(rng.Uint32())
			}
		}
		return p
	}
	for range 4000 {
		a, b := name(), name()
		switch k := rng.IntN(10); {
		case k == 0:
			opened("create "+a, func(f FS) (vfs.File, error) { return f.Create(a, vfs.WriteCategoryUnspecified) })
		case k == 1:
			opened("open "+a, func(f FS) (vfs.File, error) { return f.OpenReadWrite(a, vfs.WriteCategoryUnspecified) })
		case k == 2:
			both("link", func(f FS) error { return f.Link(a, b) })
		case k == 3 && a != b:
			both("rename "+a+" to "+b, func(f FS) error { return f.Rename(a, b) })
		case k == 4:
			both("remove "+a, func(f FS) error { return f.Remove(a) })
		case k == 5 && len(open) > 3:
			both("close", func(f FS) error {
				if f == FS(ours) {
					return open[0].ours.Close()
				}
				return open[0].theirs.Close()
			})
			open = open[1:]
		case len(open) > 0:
			p, content, off := open[rng.IntN(len(open))], piece(), int64(rng.IntN(8*extentBytes))
			if info, _ := p.theirs.Stat(); off > info.Size() {
				off = info.Size()
			}
			for _, f := range []vfs.File{p.ours, p.theirs} {
				if n, err := f.WriteAt(bytes.Clone(content), off); n != len(content) || err != nil {
					t.Fatal(n, err)
				}
			}
			p.expectSame(t)
		}
	}
	for _, dir := range []string{"/a", "/a/b"} {
		a, err := ours.List(dir)
		b, _ := theirs.List(dir)
		if slices.Sort(b); !slices.Equal(a, b) || err != nil {
			t.Errorf("%s has %q, want %q", dir, a, b)
		}
	}
	for _, p := range open {
		p.expectSame(t)
		if err := p.ours.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := ours.RemoveAll("/a"); err != nil {
		t.Error(err)
	}
	if ours.pool.used != 0 {
		t.Errorf("%d extents are used by no file", ours.pool.used)
	}
}

func (p filePair) expectSame(t *testing.T) {
	t.Helper()
	var all [2][]byte
	for i, f := range []vfs.File{p.ours, p.theirs} {
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		all[i] = make([]byte, info.Size()+1)
		n, err := f.ReadAt(all[i], 0)
		if int64(n) != info.Size() || err != io.EOF {
			t.Fatalf("%d bytes of %d: %v", n, info.Size(), err)
		}
	}
	if !bytes.Equal(all[0], all[1]) {
		t.Fatal("the contents differ")
	}
}

func TestMemoryFS_ZerosTakeNoMemoryAndFilesGiveTheirsBack(t *testing.T) {
	m := NewMemFS().(*memoryFS)
	const size = minFreeExtentBytes + 8<<20
	f, err := m.Create("f", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	write := func(b byte) {
		t.Helper()
		p := bytes.Repeat([]byte{b}, size)
		if _, err := f.WriteAt(p, 0); err != nil {
			t.Fatal(err)
		}
	}
	if write(0); m.pool.used != 0 {
		t.Errorf("zeros take %d extents", m.pool.used)
	}
	if write(1); m.pool.used != size/extentBytes {
		t.Errorf("%d bytes take %d extents", size, m.pool.used)
	}
	if err := m.Remove("f"); err != nil {
		t.Fatal(err)
	}
	if one := make([]byte, 1); m.pool.used != size/extentBytes {
		t.Error("a file that is open lost its memory")
	} else if _, err := f.ReadAt(one, size-1); one[0] != 1 || err != nil {
		t.Errorf("it reads %d, %v", one[0], err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed file is read: %v", err)
	}
	if m.pool.used != 0 {
		t.Errorf("a file that is gone has %d extents", m.pool.used)
	}
	if runtime.GOOS != "linux" {
		return // nothing gives pages back
	}
	if n := len(m.pool.free) * extentBytes; n > minFreeExtentBytes {
		t.Errorf("%d bytes are kept for other files", n)
	}
	if m.releaseMemory(); len(m.pool.free) != 0 {
		t.Errorf("%d extents have pages after all were to be released", len(m.pool.free))
	}
	before := pages.MappedBytes()
	g, _ := m.Create("g", vfs.WriteCategoryUnspecified)
	if _, err := g.Write(bytes.Repeat([]byte{2}, size)); err != nil || pages.MappedBytes() != before {
		t.Errorf("what was released is not used again: %v", err)
	}
}

func TestMemoryFS_TwoDoNotHaveOneLock(t *testing.T) {
	m := NewMemFS()
	l, err := m.Lock("LOCK")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Lock("LOCK"); err == nil {
		t.Error("it was locked twice")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = m.Lock("LOCK"); err != nil || l.Close() != nil {
		t.Errorf("it cannot be locked again: %v", err)
	}
}

// A busy log in memory gives back what it has written, and what waits to be written is zeros.
func TestMemoryFS_TheLogTakesWhatItHolds(t *testing.T) {
	m := NewMemFS().(*memoryFS)
	s := mustOpen(t, Options{Dir: testDir, FS: m, Durability: wal.Never, SegmentBytes: 1 << 20, CacheBytes: 4 << 20, RetainBytes: -1})
	defer s.Close()
	for i := range 3000 {
		if err := commitWrites(s, rowWrite{fmt.Appendf(nil, "k%d", i%10), bytes.Repeat([]byte{byte(i), 1}, 5000)}); err != nil {
			t.Fatal(err)
		}
	}
	s.maybeReleaseMemory() // it was written to
	s.maybeReleaseMemory()
	// Few segments are kept, and only one is in use: reused ones would take all they can hold.
	m.mu.Lock() // the log makes its next segment ready while this looks
	defer m.mu.Unlock()
	names, took := m.listDir(cleanPath(testDir+"/log")), int64(0)
	for _, name := range names {
		f := m.files[cleanPath(testDir+"/log/"+name)]
		f.mu.RLock()
		for _, e := range f.extents {
			if e != nil {
				took += extentBytes
			}
		}
		f.mu.RUnlock()
	}
	if took > 4<<20 {
		t.Errorf("files of the log %q take %d bytes after all of it was applied", names, took)
	}
}
