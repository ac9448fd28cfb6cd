package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/wal"
)

func putRows(t *testing.T, s *Store, prefix string, from, to, size int) {
	t.Helper()
	for i := from; i < to; {
		var b effect.Builder
		for ; i < to && b.Size() < 32<<10; i++ {
			b.Put(fmt.Appendf(nil, "%s%06d", prefix, i), make([]byte, size))
		}
		if _, err := s.Commit(false, wal.Entry{Group: 1, Payload: b.Bytes()}); err != nil {
			t.Fatal(err)
		}
	}
}

// A range with few rows is counted; of one with many the order of magnitude is
// known, wherever its rows are.
func TestAnEstimateIsOfTheRightOrder(t *testing.T) {
	s, err := Open(Options{Dir: "s", FS: Memory(), Durability: wal.Never, SegmentBytes: 256 << 10, CacheBytes: 64 << 10, BlockCacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if e, err := s.Estimate([]byte("a"), []byte("b")); err != nil || e != (Estimate{}) {
		t.Errorf("nothing is %+v, %v", e, err)
	}
	putRows(t, s, "a", 0, 500, 93)
	if e, err := s.Estimate([]byte("a"), []byte("b")); err != nil || e != (Estimate{Rows: 500, Bytes: 50000}) {
		t.Errorf("500 rows of 100 bytes are %+v, %v", e, err)
	}
	const many = 6000
	putRows(t, s, "m", 0, many, 93)
	e, err := s.Estimate([]byte("m"), []byte("n"))
	if err != nil || e.Rows < many/10 || e.Rows > 10*many || e.Bytes < 100*many/10 || e.Bytes > 10*100*many {
		t.Errorf("%d rows of 100 bytes are %+v, %v", many, e, err)
	}
	if e, err := s.Estimate([]byte("b"), []byte("m")); err != nil || e != (Estimate{}) {
		t.Errorf("nothing in between is %+v, %v", e, err)
	}
}

// Rows that were synced one by one take a block of the log each, and count as what they are.
func TestAnEstimateDoesNotCountTheRoomInTheLog(t *testing.T) {
	s, err := Open(Options{Dir: "s", FS: Memory(), Durability: wal.Always, SegmentBytes: 256 << 10, CacheBytes: 64 << 10, BlockCacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const many = 6000
	value := make([]byte, 93)
	random := rand.NewChaCha8([32]byte{}) // what is compressed looks like less
	for i := range many {
		if i == many/2 {
			if err := s.db.Flush(); err != nil { // then the range is not counted row by row
				t.Fatal(err)
			}
		}
		_, _ = random.Read(value)
		var b effect.Builder
		b.Put(fmt.Appendf(nil, "m%06d", i), value)
		if _, err := s.Commit(false, wal.Entry{Group: 1, Payload: b.Bytes()}); err != nil {
			t.Fatal(err)
		}
	}
	e, err := s.Estimate([]byte("m"), []byte("n"))
	if err != nil || e.Rows < many/2 || e.Rows > 2*many {
		t.Errorf("%d rows of 100 bytes are %+v, %v", many, e, err)
	}
}

// Rows that are compressed to a third count as what they are.
func TestAnEstimateKnowsThatTablesAreCompressed(t *testing.T) {
	s, err := Open(Options{Dir: "s", FS: Memory(), Durability: wal.Never, SegmentBytes: 256 << 10, CacheBytes: 64 << 10, BlockCacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const many = 50_000
	random := rand.NewChaCha8([32]byte{})
	for i := 0; i < many; {
		var b effect.Builder
		for ; i < many && b.Size() < 32<<10; i++ {
			value := make([]byte, 93)
			_, _ = random.Read(value[:20])
			b.Put(fmt.Appendf(nil, "m%06d", i), value)
		}
		if _, err := s.Commit(false, wal.Entry{Group: 1, Payload: b.Bytes()}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Tidy(context.Background()); err != nil { // all of it is in tables
		t.Fatal(err)
	}
	e, err := s.Estimate([]byte("m"), []byte("n"))
	if err != nil || e.Rows < many*2/3 || e.Rows > many*3/2 {
		t.Errorf("%d rows of 100 bytes are %+v, %v", many, e, err)
	}
}

// The log is there as long as somebody keeps it, however much comes.
func TestTheLogIsKeptForWhoeverAsks(t *testing.T) {
	o := Options{Dir: "s", FS: Memory(), Durability: wal.Never, SegmentBytes: 64 << 10, CacheBytes: 64 << 10, BlockCacheBytes: 64 << 10, RetainBytes: -1, FlushBytes: 64 << 10}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	putRows(t, s, "a", 0, 10, 100)
	for _, keep := range []bool{true, false} {
		release := func() {}
		if keep {
			release = s.KeepLog()
		}
		from := s.Position()
		for i := 0; i < 20 && (keep || !gone(s, from)); i++ {
			putRows(t, s, "a", 0, 1000, 100)
			if n := s.Behind(from); n < int64(i+1)*100000 {
				t.Fatalf("%d rounds are %d bytes of log", i+1, n)
			}
		}
		if gone(s, from) == keep {
			t.Errorf("kept: %v, gone: %v", keep, !keep)
		}
		release()
		release() // does nothing
	}
}

func gone(s *Store, from wal.Position) bool {
	_, err := s.Feed(from, func(Committed) error { return nil })
	return err != nil
}
