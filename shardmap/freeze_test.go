package shardmap

import (
	"fmt"
	"sync/atomic"
	"testing"
	"unsafe"
)

// A writer that still has a replaced segment must find it frozen, or what it
// writes there is lost.
func TestReplacedSegmentsAreFrozen(t *testing.T) {
	t.Run("word", func(t *testing.T) { replacedSegments(t, func(i int) uint64 { return uint64(i) }) })
	t.Run("entry", func(t *testing.T) { replacedSegments(t, func(i int) string { return fmt.Sprint(i) }) })
}

func replacedSegments[K comparable](t *testing.T, key func(int) K) {
	m, err := New[K, uint64](Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	tb := m.ready().table()
	seen := map[unsafe.Pointer]segment{}
	look := func(cause string) {
		current := segments(tb.shardAt(0).directory())
		for _, seg := range current {
			delete(seen, seg.base)
		}
		for _, seg := range seen {
			for i := range seg.buckets() {
				if atomic.LoadUint64(word(seg.at(i, tb.bucketBytes), headerWord))&frozenBit == 0 {
					t.Fatalf("%s replaced a segment whose root %d of %d is not frozen", cause, i, seg.buckets())
				}
			}
		}
		clear(seen)
		for _, seg := range current {
			seen[seg.base] = seg
		}
	}
	const n = 6000
	for i := range n {
		m.Store(key(i), 1)
		look("growth")
	}
	for i := range n - 10 {
		m.Delete(key(i))
		look("shrinking")
	}
	m.Clear()
	look("Clear")
	if st := m.Stats().Total(); st.Growths == 0 || st.Shrinks == 0 {
		t.Errorf("%+v: want growths and shrinks", st)
	}
}
