package store

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/internal/wal"
)

// The middle of few rows is exact, and of many it is not far from that, wherever they
// are and whatever their keys have in common.
func TestTheMiddleHasHalfOfTheBytesBeforeIt(t *testing.T) {
	s, err := Open(Options{
		Dir: "s", FS: Memory(), Durability: wal.Never, SegmentBytes: 64 << 10, CacheBytes: 64 << 10, BlockCacheBytes: 1 << 20,
		FlushBytes: 128 << 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 2 {
		if at, err := s.Middle([]byte("a"), []byte("c")); at != nil || err != nil {
			t.Errorf("the middle of %d rows is %q, %v", i, at, err)
		}
		putRows(t, s, "b", 0, 1, 10)
	}
	putRows(t, s, "b", 1, 2, 10_000) // the second of two
	if at, err := s.Middle([]byte("a"), []byte("c")); string(at) != "b000001" || err != nil {
		t.Errorf("the middle of two rows is %q, %v", at, err)
	}
	putRows(t, s, "few", 0, 100, 93)
	if at, err := s.Middle([]byte("few"), []byte("fex")); string(at) != "few000050" || err != nil {
		t.Errorf("the middle of a hundred rows is %q, %v", at, err)
	}
	// A quarter of the rows has three quarters of the bytes.
	const many = 6000
	prefix := "m/with a prefix that is longer than a number/"
	putRows(t, s, prefix, 0, 3*many/4, 40)
	putRows(t, s, prefix, 3*many/4, many, 360)
	start, end := []byte("m"), []byte("n")
	exact, err := s.Middle(start, end)
	if err != nil {
		t.Fatal(err)
	}
	disk, err := s.usage(start, end)
	if err != nil || disk == 0 {
		t.Fatalf("the tables have %d bytes, %v: the test shows nothing", disk, err)
	}
	near, err := s.approach(fmt.Appendf(nil, "%s%06d", prefix, 0), start, end, disk/2)
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

// Where there is nothing between two keys but zeros, whoever asks must see that.
func TestAKeyBetweenTwoIsBetweenThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 254, 255}), 0, 15)
		a, b := key.Draw(t, "a"), key.Draw(t, "b")
		if bytes.Compare(a, b) >= 0 {
			return
		}
		zeros := bytes.HasPrefix(b, a) && len(bytes.Trim(b[len(a):], "\x00")) == 0
		if m := between(a, b); bytes.Compare(a, m) >= 0 || bytes.Compare(m, b) >= 0 && !zeros {
			t.Fatalf("%x is not between %x and %x", m, a, b)
		}
	})
	for _, x := range [][3]string{{"a", "c", "b"}, {"abc", "abe", "abd"}} {
		if m := between([]byte(x[0]), []byte(x[1])); string(bytes.TrimRight(m, "\x00")) != x[2] {
			t.Errorf("%q is between %q and %q", m, x[0], x[1])
		}
	}
}
