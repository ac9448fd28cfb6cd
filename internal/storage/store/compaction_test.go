package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// What was deleted takes no room after Tidy, though nothing was written since, and
// nothing else is lost, while others write and after the store is opened again.
func TestTidyGivesBackTheRoomOfWhatWasDeleted(t *testing.T) {
	fsys := NewMemFS()
	o := Options{Dir: testDir, FS: fsys, Durability: wal.Never, SegmentBytes: 256 << 10, CacheBytes: 64 << 10, BlockCacheBytes: 64 << 10, RetainBytes: -1, Linger: time.Hour}
	s := mustOpen(t, o)
	chance := rand.NewChaCha8([32]byte{1})
	const rows, size = 200, 16 << 10
	key := func(i int) []byte { return fmt.Appendf(nil, "k%06d", i) }
	for i := range rows {
		value := make([]byte, size)
		_, _ = chance.Read(value)
		mustCommit(t, s, rowWrite{key(i), value})
	}
	if err := s.Compact(context.Background()); err != nil {
		t.Fatal(err)
	}
	if m := s.Metrics(); m.TableBytes < rows*size {
		t.Fatalf("the tables have %d bytes of %d", m.TableBytes, rows*size)
	}
	for i := range rows {
		if i != 7 {
			mustCommit(t, s, rowWrite{key(i), nil})
		}
	}
	var writers sync.WaitGroup
	writers.Go(func() {
		for i := range 500 {
			if err := commitWrites(s, rowWrite{fmt.Appendf(nil, "w%03d", i), []byte("v")}); err != nil {
				t.Error(err)
			}
		}
	})
	if err := s.Compact(context.Background()); err != nil {
		t.Fatal(err)
	}
	writers.Wait()
	if m := s.Metrics(); m.TableBytes > 4*size {
		t.Errorf("the tables have %d bytes, and one row is left", m.TableBytes)
	}
	mustClose(t, s)
	if err := s.Compact(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("a store that is closed: %v", err)
	}
	s = mustOpen(t, o)
	defer mustClose(t, s)
	if v, ok := mustGetRow(t, s, key(7)); !ok || len(v) != size {
		t.Errorf("what was left is %v, %d bytes", ok, len(v))
	}
	if _, ok := mustGetRow(t, s, key(8)); ok {
		t.Error("what was deleted is there again")
	}
	if v, _ := mustGetRow(t, s, []byte("w499")); !bytes.Equal(v, []byte("v")) {
		t.Errorf("what was written meanwhile is %q", v)
	}
}

// After TidySpan the tables have no deletions in the span, and what is elsewhere stays.
func TestTidySpan_LeavesNoDeletionsInTheSpan(t *testing.T) {
	s := mustOpen(t, Options{Dir: testDir, FS: NewMemFS(), Durability: wal.Never, SegmentBytes: 256 << 10, RetainBytes: -1, Linger: time.Hour})
	defer mustClose(t, s)
	const rows = 5000
	key := func(i int) []byte { return fmt.Appendf(nil, "h%06d", i) }
	tombstones := func() uint64 { return s.db.Metrics().Keys.TombstoneCount }
	mustCommit(t, s, rowWrite{[]byte("a"), []byte("before")})
	mustCommit(t, s, rowWrite{[]byte("z"), []byte("behind")})
	for i := range rows {
		mustCommit(t, s, rowWrite{key(i), []byte("v")})
	}
	if err := s.Compact(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i := range rows - 1 {
		mustCommit(t, s, rowWrite{key(i), nil})
	}
	if err := s.CompactRange(context.Background(), []byte("h"), []byte("i")); err != nil {
		t.Fatal(err)
	}
	// Pebble counts them in the background.
	eventually.Holds(t, "no deletions are left", func() bool { return tombstones() == 0 })
	for k, want := range map[string]string{"a": "before", "z": "behind", string(key(rows - 1)): "v"} {
		if v, ok := mustGetRow(t, s, []byte(k)); !ok || string(v) != want {
			t.Errorf("%s is %q, %v", k, v, ok)
		}
	}
	if _, ok := mustGetRow(t, s, key(0)); ok {
		t.Error("what was deleted is there")
	}
}

// The tables shrink by themselves after deletes, of each row or of a range, though nothing is written since.
func TestStore_ReclaimsTablesByItselfAfterDeletes(t *testing.T) {
	const rows, size = 96, 1 << 20
	key := func(i int) []byte { return fmt.Appendf(nil, "k%06d", i) }
	for name, remove := range map[string]func(*Store){
		"rows": func(s *Store) {
			for i := range rows {
				mustCommit(t, s, rowWrite{key(i), nil})
			}
		},
		"range": func(s *Store) {
			if err := s.DropRange(context.Background(), []byte("k"), []byte("l")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, Options{Dir: testDir, FS: NewMemFS(), Durability: wal.Never, SegmentBytes: 8 << 20, CacheBytes: 8 << 20, RetainBytes: -1})
			defer mustClose(t, s)
			mustCommit(t, s, rowWrite{[]byte("a"), []byte("stays")})
			chance := rand.NewChaCha8([32]byte{1})
			for i := range rows {
				value := make([]byte, size)
				_, _ = chance.Read(value)
				mustCommit(t, s, rowWrite{key(i), value})
			}
			if err := s.runUntilClose(s.flushAll); err != nil {
				t.Fatal(err)
			}
			if m := s.Metrics(); m.TableBytes < rows*size {
				t.Fatalf("the tables have %d bytes of %d", m.TableBytes, rows*size)
			}
			remove(s)
			eventually.Holds(t, "the tables are half as large", func() bool { return s.Metrics().TableBytes <= rows*size/2 })
			if v, ok := mustGetRow(t, s, []byte("a")); !ok || string(v) != "stays" {
				t.Errorf("what was not deleted is %q, %v", v, ok)
			}
		})
	}
}

// A store that is left alone applies what waits, though the segment is not full, and what is read and
// written after that is right.
func TestStore_LeftAlone_AppliesWhatWaits(t *testing.T) {
	fsys := NewMemFS()
	s := mustOpen(t, Options{Dir: testDir, FS: fsys, Durability: wal.EverySec, SegmentBytes: 1 << 20, CacheBytes: 8 << 20, BlockCacheBytes: 1 << 20})
	s.maybeReleaseMemory()
	const rows = 100
	write := func(value string) {
		for i := range rows {
			mustCommit(t, s, rowWrite{fmt.Appendf(nil, "k%03d", i), bytes.Repeat([]byte(value), 4096)})
		}
	}
	check := func(value string) {
		t.Helper()
		for i := range rows {
			if got, ok := mustGetRow(t, s, fmt.Appendf(nil, "k%03d", i)); !ok || !bytes.Equal(got, bytes.Repeat([]byte(value), 4096)) {
				t.Fatalf("row %d has %d bytes, present %v", i, len(got), ok)
			}
		}
	}
	for _, value := range []string{"a", "b"} {
		write(value)
		s.maybeReleaseMemory() // it was written to
		s.maybeReleaseMemory()
		check(value)
		eventually.Holds(t, "what was committed is applied", func() bool { return s.applier.appliedPosition() >= s.Position() })
	}
	write("c") // it waits in memory that was released
	s.log.ReleaseMemory()
	check("c")
	mustClose(t, s)
	s = mustOpen(t, Options{Dir: testDir, FS: fsys, Durability: wal.EverySec, SegmentBytes: 1 << 20, CacheBytes: 8 << 20, BlockCacheBytes: 1 << 20})
	check("c")
	mustClose(t, s)
}
