package store

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// otherDirOptions returns options for a store in another directory of the same disk.
func otherDirOptions(o Options, dir string) Options {
	o.Dir = dir
	return o
}

func digestOf(t testing.TB, s *Store) Digest {
	t.Helper()
	snap, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	d, err := snap.Digest(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, snap)
	return d
}

func TestABackupTakenUnderLoadIsOneMomentAndOpens(t *testing.T) {
	var did testCounts
	rng := newRNG(t, testSeeds(t, 1)[0])
	o := tinyOptions(vfs.NewMem())
	s := mustOpen(t, o)
	l := newCounterLoad(4)
	stop := make(chan struct{})
	wait := l.run(s, rng.Uint64(), stop, &did)
	dirs := []string{"/backup/1", "/backup/2", "/backup/3"}
	known := make([][]uint64, len(dirs))
	for i, dir := range dirs {
		for target := l.sumAcknowledged() + 300/slowdown; l.sumAcknowledged() < target; {
			if err := l.readCount(s, 0); err != nil {
				t.Fatal(err)
			}
		}
		known[i] = l.knownCounts()
		if _, err := s.Backup(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		did.add("backups", 1)
	}
	close(stop)
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	ids := map[ID]bool{s.dir.id: true}
	for i, dir := range dirs {
		copied := otherDirOptions(o, dir+"-restored")
		want, err := Restore(t.Context(), dir, copied)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []Options{copied, otherDirOptions(o, dir)} {
			s := mustOpen(t, o)
			if err := l.checkCounts(s, known[i]); err != nil {
				t.Errorf("%s: %v", o.Dir, err)
			}
			if got := digestOf(t, s); got != want {
				t.Errorf("%s: %+v, want %+v", o.Dir, got, want)
			}
			if ids[s.dir.id] {
				t.Errorf("%s has the id of another store", o.Dir)
			}
			ids[s.dir.id] = true
			// It is a store like any other from here on.
			mustCommit(t, s, rowWrite{[]byte("new"), []byte("v")})
			mustClose(t, s)
			s = mustOpen(t, o)
			if _, ok := mustGetRow(t, s, []byte("new")); !ok {
				t.Errorf("%s lost a commit", o.Dir)
			}
			mustClose(t, s)
		}
	}
	did.logAll(t)
}

func TestABackupHasEverythingCommittedBeforeItBegan(t *testing.T) {
	o := tinyOptions(vfs.NewMem())
	rng := newRNG(t, 5)
	s := mustOpen(t, o)
	m := model{}
	for range 300 {
		ws := testWrites(rng, 100)
		mustCommit(t, s, ws...)
		m.apply(ws...)
	}
	pos, err := s.Backup(t.Context(), "/b")
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, rowWrite{[]byte("later"), []byte("v")})
	mustClose(t, s)
	s = mustOpen(t, otherDirOptions(o, "/b"))
	if err := m.compareRows(s, nil, nil, false); err != nil {
		t.Error(err)
	}
	if got := s.Metrics().Published; got != pos {
		t.Errorf("the copy is at %v, Backup said %v", got, pos)
	}
	mustClose(t, s)
}

func TestABadBackupIsRefusedOrRemoved(t *testing.T) {
	o := tinyOptions(vfs.NewMem())
	s := mustOpen(t, o)
	mustCommit(t, s, rowWrite{[]byte("k"), []byte("v")})
	if _, err := s.Backup(t.Context(), o.Dir); !errors.Is(err, fs.ErrExist) {
		t.Errorf("backup over a store: %v, want ErrExist", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Backup(ctx, "/cancelled"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled backup: %v", err)
	}
	if _, err := o.FS.Stat("/cancelled"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cancelled backup left something: %v", err)
	}
	if _, err := s.Backup(t.Context(), "/good"); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	if _, err := Restore(t.Context(), o.Dir, otherDirOptions(o, "/r")); !errors.Is(err, ErrForeign) {
		t.Errorf("restore of a store that is no backup: %v, want ErrForeign", err)
	}
	if _, err := Restore(t.Context(), "/good", o); !errors.Is(err, fs.ErrExist) {
		t.Errorf("restore over a store: %v, want ErrExist", err)
	}
	// A backup whose FORMAT was not written is not finished.
	if err := o.FS.Remove("/good/" + formatName); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(otherDirOptions(o, "/good")); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "backup") {
		t.Errorf("an unfinished backup: %v, want ErrForeign", err)
	}
}

func TestRestoreFindsDamage(t *testing.T) {
	disk := vfs.NewMem()
	o := tinyOptions(disk)
	rng := newRNG(t, 9)
	s := mustOpen(t, o)
	for range 100 {
		mustCommit(t, s, testWrites(rng, 50)...)
	}
	if _, err := s.Backup(t.Context(), "/b"); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	names, err := disk.List("/b/" + dataDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasSuffix(n, ".sst") {
			p, err := disk.UnsafeGetFileDataBuffer("/b/" + dataDir + "/" + n)
			if err != nil {
				t.Fatal(err)
			}
			p[len(p)/3] ^= 1
		}
	}
	if _, err := Restore(t.Context(), "/b", otherDirOptions(o, "/r")); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%v, want ErrCorrupt", err)
	}
	if _, err := disk.Stat("/r"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a failed restore left something: %v", err)
	}
}
