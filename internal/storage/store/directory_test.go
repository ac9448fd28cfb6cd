package store

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

func TestFormatFilesAreReadBackOrRefused(t *testing.T) {
	id := ID{1, 2, 3, 15: 255}
	for version := oldestFormatVersion; version <= formatVersion; version++ {
		if v, got, err := decodeFormat(encodeFormat(version, id)); err != nil || got != id || v != version {
			t.Fatalf("%d: %v %v %v", version, v, got, err)
		}
	}
	good := encodeFormat(formatVersion, id)
	for i := range good {
		for bit := range 8 {
			bad := append([]byte(nil), good...)
			bad[i] ^= 1 << bit
			if _, got, err := decodeFormat(bad); err == nil {
				t.Fatalf("bit %d of byte %d flipped: accepted as %v: %q", bit, i, got, bad)
			}
		}
		if _, _, err := decodeFormat(good[:i]); err == nil {
			t.Fatalf("accepted when cut off at %d", i)
		}
	}
	newer := []byte(strings.Replace(string(good), "format 3", "format 4", 1))
	if _, _, err := decodeFormat(newer); !errors.Is(err, ErrFormat) {
		t.Errorf("newer version: %v, want ErrFormat", err)
	}
}

func FuzzFormatFilesAreExactlyWhatWasWritten(f *testing.F) {
	f.Add(encodeFormat(formatVersion, ID{7}))
	f.Add([]byte("cleave store\nformat 2\n"))
	f.Fuzz(func(t *testing.T, p []byte) {
		if version, id, err := decodeFormat(p); err == nil && string(encodeFormat(version, id)) != string(p) {
			t.Errorf("%q was accepted as %v", p, id)
		}
	})
}

func TestOpenRefusesWhatIsNotItsOwn(t *testing.T) {
	fresh := func(t *testing.T) (vfs.FS, *Store) {
		fsys := vfs.NewMem()
		return fsys, mustOpen(t, tinyOptions(fsys))
	}
	closed := func(t *testing.T) vfs.FS {
		fsys, s := fresh(t)
		mustCommit(t, s, rowWrite{[]byte("k"), []byte("v")})
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
			s, err := Open(tinyOptions(disk))
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

// An empty store takes at most 4 MiB of disk, with default options, when it is open and after.
func TestStore_Empty_TakesLittleDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, Options{Dir: dir, CacheBytes: 1 << 30})
	mustCommit(t, s, rowWrite{[]byte("k"), []byte("v")})
	eventually.Holds(t, "all files are there", func() bool {
		return s.log.Metrics().Ready == 2 && s.reserveSize.Load() > 0
	})
	if n := sumFileBytes(t, dir); n > 4<<20 {
		t.Errorf("it takes %d bytes", n)
	}
	mustClose(t, s)
	if n := sumFileBytes(t, dir); n > 4<<20 {
		t.Errorf("it takes %d bytes when it is closed", n)
	}
}

// sumFileBytes returns how large the files in a directory are.
func sumFileBytes(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

func TestARealDirectoryIsTheOwnersAndHeldByOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	o := Options{Dir: dir, SegmentBytes: 64 << 10}
	s := mustOpen(t, o)
	mustCommit(t, s, rowWrite{[]byte("k"), []byte("v")})
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
	if v, ok := mustGetRow(t, s, []byte("k")); !ok || string(v) != "v" {
		t.Errorf("%q %v", v, ok)
	}
	mustClose(t, s)
	for name, err := range map[string]error{
		"Commit": commitWrites(s, rowWrite{[]byte("k"), nil}),
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

var writeGolden = flag.Bool("golden", false, "write the golden directory of this format version again")

// goldenDir holds a store as this format version writes it: rows in Pebble, and
// newer ones in a log that was not closed. It is never written again: a later
// version takes a directory of its own beside it, and opens both.
var goldenDir = filepath.Join("testdata", fmt.Sprintf("v%d", formatVersion))

// goldenWrites is what was committed: the first half is in Pebble.
func goldenWrites(half int) (commits [][]rowWrite) {
	for i := range 40 {
		key := effect.Rows.AppendKey(nil, fmt.Appendf(nil, "key%02d", i))
		w := rowWrite{key, fmt.Appendf(nil, "value %d of half %d", i, half)}
		if half == 1 && i%5 == 0 {
			w.value = nil
		}
		if half == 0 || i%2 == 0 {
			commits = append(commits, []rowWrite{w})
		}
	}
	return commits
}

func goldenModel() model {
	m := model{}
	for half := range 2 {
		for _, ws := range goldenWrites(half) {
			m.apply(ws...)
		}
	}
	return m
}

func TestTheGoldenDirectoryOpens(t *testing.T) {
	if *writeGolden {
		makeGolden(t)
	}
	names, err := filepath.Glob(filepath.Join("testdata", "v*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no golden directories: %v", err)
	}
	for _, name := range names {
		o := tinyOptions(vfs.Default)
		o.Dir = filepath.Join(t.TempDir(), "store")
		if err := os.CopyFS(o.Dir, os.DirFS(name)); err != nil {
			t.Fatal(err)
		}
		s := mustOpen(t, o)
		if err := goldenModel().compareRows(s, nil, nil, false); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s.Metrics().Log.Replayed == 0 || s.Metrics().TableBytes == 0 {
			t.Errorf("%s: the golden rows are not both in the log and in Pebble", name)
		}
		mustCommit(t, s, rowWrite{[]byte("k"), []byte("v")})
		mustClose(t, s)
		mustClose(t, mustOpen(t, o))
	}
}

// makeGolden writes the directory as a crash would leave it.
func makeGolden(t *testing.T) {
	disk := vfs.NewCrashableMem()
	s := mustOpen(t, tinyOptions(disk))
	for half := range 2 {
		for _, ws := range goldenWrites(half) {
			mustCommit(t, s, ws...)
		}
		if half == 0 {
			mustClose(t, s)
			s = mustOpen(t, tinyOptions(disk))
		}
	}
	crashed := disk.CrashClone(vfs.CrashCloneCfg{})
	mustClose(t, s)
	if err := os.RemoveAll(goldenDir); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{".", dataDir, logDir} {
		names, err := crashed.List(crashed.PathJoin(testDir, sub))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			p, err := readFile(crashed, crashed.PathJoin(testDir, sub, name))
			if err != nil {
				continue // a directory
			}
			file := filepath.Join(goldenDir, sub, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, p, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Open of a directory that takes no files returns, with the reason.
func TestOpenOfAReadOnlyDirectoryReturns(t *testing.T) {
	disk := vfs.NewMem()
	s := mustOpen(t, tinyOptions(disk))
	mustCommit(t, s, rowWrite{[]byte("key"), []byte("value")})
	mustClose(t, s)
	readOnly := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && path.Base(path.Dir(op.Path)) == dataDir {
			return &fs.PathError{Op: "create", Path: op.Path, Err: fs.ErrPermission}
		}
		return nil
	}))
	opened := make(chan error, 1)
	go func() {
		s, err := Open(tinyOptions(readOnly))
		if err == nil {
			_ = s.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		if !errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrCorrupt) {
			t.Errorf("Open: %v, want ErrPermission", err)
		}
	case <-time.After(eventually.Limit()):
		t.Fatal("Open hangs")
	}
	s = mustOpen(t, tinyOptions(disk))
	if _, ok, err := s.Get([]byte("key"), nil); !ok || err != nil {
		t.Errorf("Get after the directory is writable again: %v, %v", ok, err)
	}
	mustClose(t, s)
}
