package wal

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// listTestDirs returns real ones, also one in memory where there is, which refuses
// direct I/O.
func listTestDirs(t *testing.T) map[string]string {
	dirs := map[string]string{"temporary": t.TempDir()}
	if mem, err := os.MkdirTemp("/dev/shm", "wal-*"); err == nil {
		t.Cleanup(func() { os.RemoveAll(mem) })
		dirs["memory"] = mem
	}
	return dirs
}

func TestFilesKeepWhatIsWrittenAndSynced(t *testing.T) {
	for name, dir := range listTestDirs(t) {
		fs := OS(dir)
		f, err := fs.Create("a")
		if err != nil {
			t.Fatal(name, err)
		}
		want := make([]byte, 8*blockBytes)
		if _, err := f.WriteAt(want, 0); err != nil {
			t.Fatal(name, err)
		}
		// Aligned memory takes the direct way where there is one; the others must work
		// too, also beside each other.
		for i, p := range [][]byte{newAlignedBuffer(2 * blockBytes), make([]byte, 2*blockBytes+1)[1:], make([]byte, 100)} {
			for j := range p {
				p[j] = byte(i + 1)
			}
			if err := f.WriteDurable(p, int64(2*i*blockBytes)); err != nil {
				t.Fatal(name, i, err)
			}
			copy(want[2*i*blockBytes:], p)
		}
		if err := f.Sync(); err != nil {
			t.Error(name, err)
		}
		if err := f.DropCache(); err != nil {
			t.Error(name, err)
		}
		if err := f.Close(); err != nil {
			t.Error(name, err)
		}
		if err := fs.Rename("a", "b"); err != nil {
			t.Error(name, err)
		}
		if err := fs.SyncDir(); err != nil {
			t.Error(name, err)
		}
		if f, err = fs.Open("b"); err != nil {
			t.Fatal(name, err)
		}
		got := make([]byte, len(want)+1)
		if n, err := f.ReadAt(got, 0); n != len(want) || err != io.EOF || !bytes.Equal(got[:n], want) {
			t.Errorf("%s: read %d bytes, %v", name, n, err)
		}
		if size, err := f.Size(); size != int64(len(want)) || err != nil {
			t.Error(name, size, err)
		}
		if err := f.Close(); err != nil {
			t.Error(name, err)
		}
		if names, err := fs.List(); len(names) != 1 || names[0] != "b" || err != nil {
			t.Error(name, names, err)
		}
		if free, err := fs.Free(); free <= 0 || err != nil {
			t.Error(name, free, err)
		}
		if err := fs.Remove("b"); err != nil {
			t.Error(name, err)
		}
		if _, err := fs.Open("b"); !os.IsNotExist(err) {
			t.Error(name, err)
		}
	}
}

func TestSegmentsBelongToTheirOwner(t *testing.T) {
	dir := t.TempDir()
	f, err := OS(dir).Create("x")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := os.Stat(filepath.Join(dir, "x"))
	if err != nil || info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		t.Error(info.Mode(), err)
	}
}

func TestALogWorksOnEveryFileSystemHere(t *testing.T) {
	for name, dir := range listTestDirs(t) {
		for _, class := range []Durability{Always, EverySec, Never} {
			var r recorder
			o := r.newOptions(OS(dir))
			o.Durability = class
			l := r.openLog(t, o, 0)
			before := len(r.replayed)
			for range 20 {
				mustAppend(t, l, "x")
			}
			mustClose(t, l)
			var again recorder
			mustClose(t, again.openLog(t, again.newOptions(OS(dir)), 0))
			if len(again.replayed) != before+20 {
				t.Errorf("%s, %s: replayed %d entries, want %d", name, class, len(again.replayed), before+20)
			}
		}
	}
}
