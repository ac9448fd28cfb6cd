package store

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestFormatFilesAreReadBackOrRefused(t *testing.T) {
	id := ID{1, 2, 3, 15: 255}
	good := encodeFormat(id)
	if got, err := decodeFormat(good); err != nil || got != id {
		t.Fatalf("%v %v", got, err)
	}
	for i := range good {
		for bit := range 8 {
			bad := append([]byte(nil), good...)
			bad[i] ^= 1 << bit
			if got, err := decodeFormat(bad); err == nil {
				t.Fatalf("bit %d of byte %d flipped: accepted as %v: %q", bit, i, got, bad)
			}
		}
		if _, err := decodeFormat(good[:i]); err == nil {
			t.Fatalf("accepted when cut off at %d", i)
		}
	}
	newer := []byte(strings.Replace(string(good), "format 2", "format 3", 1))
	if _, err := decodeFormat(newer); !errors.Is(err, ErrFormat) {
		t.Errorf("newer version: %v, want ErrFormat", err)
	}
}

func FuzzFormatFilesAreExactlyWhatWasWritten(f *testing.F) {
	f.Add(encodeFormat(ID{7}))
	f.Add([]byte("cleave store\nformat 2\n"))
	f.Fuzz(func(t *testing.T, p []byte) {
		if id, err := decodeFormat(p); err == nil && string(encodeFormat(id)) != string(p) {
			t.Errorf("%q was accepted as %v", p, id)
		}
	})
}

func TestOpenRefusesWhatIsNotItsOwn(t *testing.T) {
	fresh := func(t *testing.T) (vfs.FS, *Store) {
		fsys := vfs.NewMem()
		return fsys, mustOpen(t, tiny(fsys))
	}
	closed := func(t *testing.T) vfs.FS {
		fsys, s := fresh(t)
		mustCommit(t, s, write{[]byte("k"), []byte("v")})
		mustClose(t, s)
		return fsys
	}
	put := func(fsys vfs.FS, name, content string) {
		if err := errors.Join(fsys.MkdirAll(testDir, 0o700), writeDurable(fsys, testDir+"/"+name, []byte(content))); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name  string
		disk  func(*testing.T) vfs.FS
		want  error
		words string
	}{
		{"open already", func(t *testing.T) vfs.FS {
			fsys, s := fresh(t)
			t.Cleanup(func() { mustClose(t, s) })
			return fsys
		}, ErrLocked, "close the other one"},
		{"newer", func(t *testing.T) vfs.FS {
			fsys := closed(t)
			put(fsys, formatName, "cleave store\nformat 99\nwhatever comes then\n")
			return fsys
		}, ErrFormat, "99"},
		{"damaged FORMAT", func(t *testing.T) vfs.FS {
			fsys := closed(t)
			put(fsys, formatName, "cleave store\nformat 2\nid 00\n")
			return fsys
		}, ErrCorrupt, formatName},
		{"foreign", func(t *testing.T) vfs.FS {
			fsys := vfs.NewMem()
			put(fsys, "letters.txt", "dear all")
			return fsys
		}, ErrForeign, "letters.txt"},
		{"FORMAT is gone", func(t *testing.T) vfs.FS {
			fsys := closed(t)
			if err := fsys.Remove(testDir + "/" + formatName); err != nil {
				t.Fatal(err)
			}
			return fsys
		}, ErrForeign, "backup"},
		{"data is gone", func(t *testing.T) vfs.FS {
			fsys := closed(t)
			if err := fsys.RemoveAll(testDir + "/" + dataDir); err != nil {
				t.Fatal(err)
			}
			return fsys
		}, ErrCorrupt, dataDir},
		{"log is gone", func(t *testing.T) vfs.FS {
			fsys := closed(t)
			if err := fsys.RemoveAll(testDir + "/" + logDir); err != nil {
				t.Fatal(err)
			}
			return fsys
		}, ErrCorrupt, logDir},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := c.disk(t)
			before, _ := disk.List(testDir)
			s, err := Open(tiny(disk))
			if after, _ := disk.List(testDir); len(after) != len(before) && errors.Is(err, ErrForeign) {
				t.Errorf("%q became %q", before, after)
			}
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("%v, want %v with %q", err, c.want, c.words)
			}
			if err == nil {
				mustClose(t, s)
			}
		})
	}
}

func TestOptionsAreCheckedTogether(t *testing.T) {
	_, err := Open(Options{CacheBytes: 1, BlockCacheBytes: 1, SegmentBytes: 5000, Chunks: 1, FlushBytes: 1})
	for _, word := range []string{"Dir", "CacheBytes", "BlockCacheBytes", "SegmentBytes", "Chunks", "FlushBytes"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not name %s", err, word)
		}
	}
}

func TestARealDirectoryIsTheOwnersAndHeldByOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	o := Options{Dir: dir, SegmentBytes: 64 << 10}
	s := mustOpen(t, o)
	mustCommit(t, s, write{[]byte("k"), []byte("v")})
	o.Dir = dir + string(filepath.Separator) + "."
	_, err := Open(o)
	if !errors.Is(err, ErrLocked) || runtime.GOOS != "windows" && !strings.Contains(err.Error(), "held by this process: ") {
		t.Errorf("second Open: %v, want ErrLocked", err)
	}
	if _, err := s.Backup(t.Context(), filepath.Join(dir, "..", "backup")); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	if runtime.GOOS != "windows" {
		err := filepath.WalkDir(filepath.Dir(dir), func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s is %v: others may use it", path, info.Mode())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	s = mustOpen(t, o)
	if v, ok := mustGet(t, s, []byte("k")); !ok || string(v) != "v" {
		t.Errorf("%q %v", v, ok)
	}
	mustClose(t, s)
	for name, err := range map[string]error{
		"Commit": commit(s, write{[]byte("k"), nil}),
		"Scan":   s.Scan(nil, nil, false, func(_, _ []byte) bool { return true }),
		"Close":  s.Close(),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close: %v, want ErrClosed", name, err)
		}
	}
	if _, _, err := s.Get([]byte("k"), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Get after Close: %v, want ErrClosed", err)
	}
}
