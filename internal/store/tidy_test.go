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

	"github.com/cleavekv/cleave/internal/wal"
)

// What was deleted takes no room after Tidy, though nothing was written since, and
// nothing else is lost, while others write and after the store is opened again.
func TestTidyGivesBackTheRoomOfWhatWasDeleted(t *testing.T) {
	fsys := Memory()
	o := Options{Dir: testDir, FS: fsys, Durability: wal.Never, SegmentBytes: 256 << 10, CacheBytes: 64 << 10, BlockCacheBytes: 64 << 10, RetainBytes: -1, Linger: time.Hour}
	s := mustOpen(t, o)
	chance := rand.NewChaCha8([32]byte{1})
	const rows, size = 200, 16 << 10
	key := func(i int) []byte { return fmt.Appendf(nil, "k%06d", i) }
	for i := range rows {
		value := make([]byte, size)
		_, _ = chance.Read(value)
		mustCommit(t, s, write{key(i), value})
	}
	if err := s.Tidy(context.Background()); err != nil {
		t.Fatal(err)
	}
	if m := s.Metrics(); m.TableBytes < rows*size {
		t.Fatalf("the tables have %d bytes of %d", m.TableBytes, rows*size)
	}
	for i := range rows {
		if i != 7 {
			mustCommit(t, s, write{key(i), nil})
		}
	}
	var writers sync.WaitGroup
	writers.Go(func() {
		for i := range 500 {
			if err := commit(s, write{fmt.Appendf(nil, "w%03d", i), []byte("v")}); err != nil {
				t.Error(err)
			}
		}
	})
	if err := s.Tidy(context.Background()); err != nil {
		t.Fatal(err)
	}
	writers.Wait()
	if m := s.Metrics(); m.TableBytes > 4*size {
		t.Errorf("the tables have %d bytes, and one row is left", m.TableBytes)
	}
	mustClose(t, s)
	if err := s.Tidy(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("a store that is closed: %v", err)
	}
	s = mustOpen(t, o)
	defer mustClose(t, s)
	if v, ok := mustGet(t, s, key(7)); !ok || len(v) != size {
		t.Errorf("what was left is %v, %d bytes", ok, len(v))
	}
	if _, ok := mustGet(t, s, key(8)); ok {
		t.Error("what was deleted is there again")
	}
	if v, _ := mustGet(t, s, []byte("w499")); !bytes.Equal(v, []byte("v")) {
		t.Errorf("what was written meanwhile is %q", v)
	}
}
