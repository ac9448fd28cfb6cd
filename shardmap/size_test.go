package shardmap

import (
	"errors"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"unsafe"
)

func TestBucketsAndShardsFillCacheLines(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != wordBytes {
		t.Skip("sizes are for 64-bit machines")
	}
	for name, got := range map[string]uintptr{"wordBucket": wordBucketBytes, "entryBucket": entryBucketBytes} {
		if got != cacheLine {
			t.Errorf("%s has %d bytes, want %d", name, got, cacheLine)
		}
	}
	if got := unsafe.Sizeof(shard{}); got != shardBytes {
		t.Errorf("shard has %d bytes, want %d", got, shardBytes)
	}
	if got := unsafe.Offsetof(shard{}.shardState); got != cacheLine {
		t.Errorf("what writers write starts at byte %d, want %d", got, cacheLine)
	}
}

func TestSegmentsStartAtCacheLines(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != wordBytes {
		t.Skip("sizes are for 64-bit machines")
	}
	words, _ := New[uint64, uint64](Options{Shards: 1})
	wides, _ := New[[2]uint64, wide](Options{Shards: 1})
	texts, _ := New[string, string](Options{Shards: 1})
	for _, tb := range []*table{words.ready().table(), wides.ready().table(), texts.ready().table()} {
		for _, size := range tb.sizes {
			seg := tb.layout.newSegment(size)
			if uintptr(seg.base)%cacheLine != 0 {
				t.Errorf("a segment of %d buckets of %d bytes starts at %p", size.total(), tb.bucketBytes, seg.base)
			}
		}
	}
}

// wordTable.read computes the slot without a branch; for a key whose word is
// in two slots it comes out one too large, and value is the word behind the
// bucket. Every root must have one there, the shared empty one too.
func TestEveryRootIsFollowedByMemoryOfItsOwn(t *testing.T) {
	const reach = unsafe.Offsetof(wordBucket{}.values) + wordSlots*wordBytes + wordBytes
	if got := unsafe.Sizeof(emptyBucket); got < reach {
		t.Errorf("the empty root has %d bytes, readers look at %d", got, reach)
	}
	m, _ := New[uint64, uint64](Options{Shards: 1})
	for _, size := range m.ready().table().sizes {
		if behind := uintptr(size.total()-size.buckets) * wordBucketBytes; behind < reach-wordBucketBytes {
			t.Errorf("%d bytes behind the roots of %+v", behind, size)
		}
	}
}

func TestValuesSurviveTheGarbageCollector(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	var m Map[string, *string]
	var n Map[uint64, any]
	const keys = 400
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Go(func() {
			for i := range 6000 {
				k := strings.Repeat("k", i%keys+1) // fresh memory each time
				v := strings.Clone(k)
				m.Store(k, &v)
				n.Store(uint64(i%keys), v)
				if got, ok := m.Load(strings.Clone(k)); ok && *got != k {
					t.Errorf("value of %q became %q", k, *got)
					return
				}
				if got, ok := n.Load(uint64(i % keys)); ok && got != k {
					t.Errorf("value of %d became %q", i%keys, got)
					return
				}
				if g == 0 && i%5 == 0 {
					m.Delete(k)
				}
				if i%1000 == 0 {
					runtime.GC()
				}
			}
		})
	}
	wg.Wait()
}

func TestBadOptionsAreReportedTogether(t *testing.T) {
	for _, o := range []Options{{Shards: 3}, {Shards: -1}, {Shards: 8192}, {Capacity: -1}, {Shards: 5, Capacity: -5}} {
		m, err := New[int, int](o)
		if m != nil || !errors.Is(err, ErrOptions) {
			t.Errorf("New(%+v) = %v, %v; want an error", o, m, err)
			continue
		}
		for field, bad := range map[string]bool{"Shards": o.Shards != 0, "Capacity": o.Capacity < 0} {
			if strings.Contains(err.Error(), field) != bad {
				t.Errorf("New(%+v): %v; names %s: want %v", o, err, field, bad)
			}
		}
	}
}

func TestDefaultShardsArePowersOfTwoAndEnough(t *testing.T) {
	for _, capacity := range []int{0, 1, 1 << 20, 1 << 24, 1 << 30} {
		o, err := Options{Capacity: capacity}.withDefaults()
		if err != nil || o.Shards&(o.Shards-1) != 0 || o.Shards < 4*runtime.GOMAXPROCS(0) || o.Shards > maxShards {
			t.Errorf("capacity %d: %d shards, %v", capacity, o.Shards, err)
		}
	}
}

func TestTheZeroMapIsReady(t *testing.T) {
	var m Map[string, int]
	if _, ok := m.Load("x"); ok || m.Len() != 0 {
		t.Error("the zero map is not empty")
	}
	m.Delete("x")
	m.Clear()
	for range m.All() {
		t.Error("the zero map yields")
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { m.Compute("n", func(n int, _ bool) (int, Op) { return n + 1, Update }) })
	}
	wg.Wait()
	if n, _ := m.Load("n"); n != 8 {
		t.Errorf("8 goroutines counted to %d", n)
	}
}
