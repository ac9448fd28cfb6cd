package store

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/storage/wal"
)

func commitRows(t *testing.T, s *Store, prefix string, from, to, size int) {
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
	s, err := Open(Options{Dir: "s", FS: NewMemFS(), Durability: wal.Never, SegmentBytes: 256 << 10, CacheBytes: 64 << 10, BlockCacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if e, err := s.Estimate([]byte("a"), []byte("b")); err != nil || e != (Estimate{}) {
		t.Errorf("nothing is %+v, %v", e, err)
	}
	commitRows(t, s, "a", 0, 500, 93)
	if e, err := s.Estimate([]byte("a"), []byte("b")); err != nil || e != (Estimate{Rows: 500, Bytes: 50000}) {
		t.Errorf("500 rows of 100 bytes are %+v, %v", e, err)
	}
	const many = 6000
	commitRows(t, s, "m", 0, many, 93)
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
	s, err := Open(Options{Dir: "s", FS: NewMemFS(), Durability: wal.Always, SegmentBytes: 256 << 10, CacheBytes: 64 << 10, BlockCacheBytes: 1 << 20})
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
	s, err := Open(Options{Dir: "s", FS: NewMemFS(), Durability: wal.Never, SegmentBytes: 256 << 10, CacheBytes: 64 << 10, BlockCacheBytes: 1 << 20})
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
	if err := s.Compact(context.Background()); err != nil { // all of it is in tables
		t.Fatal(err)
	}
	e, err := s.Estimate([]byte("m"), []byte("n"))
	if err != nil || e.Rows < many*2/3 || e.Rows > many*3/2 {
		t.Errorf("%d rows of 100 bytes are %+v, %v", many, e, err)
	}
}

// The log is there as long as a reader keeps it, however much comes.
func TestTheLogIsKeptForWhoeverAsks(t *testing.T) {
	o := Options{Dir: "s", FS: NewMemFS(), Durability: wal.Never, SegmentBytes: 64 << 10, CacheBytes: 64 << 10, BlockCacheBytes: 64 << 10, RetainBytes: -1, FlushBytes: 64 << 10}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	commitRows(t, s, "a", 0, 10, 100)
	for _, keep := range []bool{true, false} {
		release := func() {}
		if keep {
			release = s.RetainLog()
		}
		from := s.Position()
		for i := 0; i < 20 && (keep || !isGone(s, from)); i++ {
			commitRows(t, s, "a", 0, 1000, 100)
			if n := s.LogBytesAfter(from); keep && n < int64(i+1)*100000 {
				t.Fatalf("%d rounds are %d bytes of log", i+1, n)
			}
		}
		if isGone(s, from) == keep {
			t.Errorf("kept: %v, gone: %v", keep, !keep)
		}
		release()
		release() // does nothing
	}
}

func isGone(s *Store, from wal.Position) bool {
	_, err := s.Feed(from, func(FeedEntry) error { return nil })
	return err != nil
}

// The middle of few rows is exact, and of many it is not far from that, wherever they
// are and whatever their keys have in common.
func TestTheMiddleHasHalfOfTheBytesBeforeIt(t *testing.T) {
	s, err := Open(Options{
		Dir: "s", FS: NewMemFS(), Durability: wal.Never, SegmentBytes: 64 << 10, CacheBytes: 64 << 10, BlockCacheBytes: 1 << 20,
		FlushBytes: 128 << 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 2 {
		if at, err := s.FindSplitKey([]byte("a"), []byte("c")); at != nil || err != nil {
			t.Errorf("the middle of %d rows is %q, %v", i, at, err)
		}
		commitRows(t, s, "b", 0, 1, 10)
	}
	commitRows(t, s, "b", 1, 2, 10_000) // the second of two
	if at, err := s.FindSplitKey([]byte("a"), []byte("c")); string(at) != "b000001" || err != nil {
		t.Errorf("the middle of two rows is %q, %v", at, err)
	}
	commitRows(t, s, "few", 0, 100, 93)
	if at, err := s.FindSplitKey([]byte("few"), []byte("fex")); string(at) != "few000050" || err != nil {
		t.Errorf("the middle of a hundred rows is %q, %v", at, err)
	}
	// A quarter of the rows has three quarters of the bytes.
	const many = 6000
	prefix := "m/with a prefix that is longer than a number/"
	commitRows(t, s, prefix, 0, 3*many/4, 40)
	commitRows(t, s, prefix, 3*many/4, many, 360)
	start, end := []byte("m"), []byte("n")
	exact, err := s.FindSplitKey(start, end)
	if err != nil {
		t.Fatal(err)
	}
	disk, err := s.estimateTableBytes(start, end)
	if err != nil || disk == 0 {
		t.Fatalf("the tables have %d bytes, %v: the test shows nothing", disk, err)
	}
	near, err := s.bisectTables(fmt.Appendf(nil, "%s%06d", prefix, 0), start, end, disk/2)
	if err != nil {
		t.Fatal(err)
	}
	for at, most := range map[string]float64{string(exact): 0.01, string(near): 0.25} {
		before, all := 0, 0
		err = s.Scan(start, end, false, func(key, value []byte) bool {
			if all += len(key) + len(value); string(key) < at {
				before += len(key) + len(value)
			}
			return true
		})
		if share := float64(before) / float64(all); err != nil || math.Abs(share-0.5) > most {
			t.Errorf("%.0f %% of the bytes are before %q, %v", 100*share, at, err)
		}
	}
}

// Where there is nothing between two keys but zeros, the estimate must reflect that.
func TestAKeyBetweenTwoIsBetweenThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 254, 255}), 0, 15)
		a, b := key.Draw(t, "a"), key.Draw(t, "b")
		if bytes.Compare(a, b) >= 0 {
			return
		}
		zeros := bytes.HasPrefix(b, a) && len(bytes.Trim(b[len(a):], "\x00")) == 0
		if m := middleKey(a, b); bytes.Compare(a, m) >= 0 || bytes.Compare(m, b) >= 0 && !zeros {
			t.Fatalf("%x is not between %x and %x", m, a, b)
		}
	})
	for _, x := range [][3]string{{"a", "c", "b"}, {"abc", "abe", "abd"}} {
		if m := middleKey([]byte(x[0]), []byte(x[1])); string(bytes.TrimRight(m, "\x00")) != x[2] {
			t.Errorf("%q is between %q and %q", m, x[0], x[1])
		}
	}
}
