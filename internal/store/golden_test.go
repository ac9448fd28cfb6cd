package store

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/effect"
)

var writeGolden = flag.Bool("golden", false, "write the golden directory of this format version again")

// goldenDir holds a store as this format version writes it: rows in Pebble, and
// newer ones in a log that was not closed. It is never written again: a later
// version takes a directory of its own beside it, and opens both.
var goldenDir = filepath.Join("testdata", fmt.Sprintf("v%d", formatVersion))

// goldenWrites is what was committed: the first half is in Pebble.
func goldenWrites(half int) (commits [][]write) {
	for i := range 40 {
		key := effect.Rows.AppendKey(nil, fmt.Appendf(nil, "key%02d", i))
		w := write{key, fmt.Appendf(nil, "value %d of half %d", i, half)}
		if half == 1 && i%5 == 0 {
			w.value = nil
		}
		if half == 0 || i%2 == 0 {
			commits = append(commits, []write{w})
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
		o := tiny(vfs.Default)
		o.Dir = filepath.Join(t.TempDir(), "store")
		if err := os.CopyFS(o.Dir, os.DirFS(name)); err != nil {
			t.Fatal(err)
		}
		s := mustOpen(t, o)
		if err := goldenModel().compare(s, nil, nil, false); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s.Metrics().Log.Replayed == 0 || s.Metrics().TableBytes == 0 {
			t.Errorf("%s: the golden rows are not both in the log and in Pebble", name)
		}
		mustCommit(t, s, write{[]byte("k"), []byte("v")})
		mustClose(t, s)
		mustClose(t, mustOpen(t, o))
	}
}

// makeGolden writes the directory as a crash would leave it.
func makeGolden(t *testing.T) {
	disk := vfs.NewCrashableMem()
	s := mustOpen(t, tiny(disk))
	for half := range 2 {
		for _, ws := range goldenWrites(half) {
			mustCommit(t, s, ws...)
		}
		if half == 0 {
			mustClose(t, s)
			s = mustOpen(t, tiny(disk))
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
			if err != nil || sub == logDir && len(bytes.Trim(p, "\x00")) == 0 {
				continue // a directory, or a segment that was made ahead of need
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
