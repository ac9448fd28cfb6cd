package shardmap

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"
)

// largestPlausibleMove bounds one move: nothing may be copied under a shard's
// lock but the entries of one full segment (or of two half-full ones).
func largestPlausibleMove(t *table) int {
	size := t.sizes[len(t.sizes)-1]
	return t.slots * size.totalBuckets()
}

func TestGrowthMovesBoundedPieces(t *testing.T) {
	const n = 120000
	words, _ := New[uint64, uint64](Options{Shards: 1})
	texts, _ := New[string, string](Options{Shards: 1})
	for i := range n {
		words.Store(uint64(i), 1)
		texts.Store(fmt.Sprint(i), "x")
	}
	checkMoves(t, words.Stats(), words.ensureState().loadTable(), n)
	checkMoves(t, texts.Stats(), texts.ensureState().loadTable(), n)
}

func checkMoves(t *testing.T, stats Stats, tb *table, n int) {
	t.Helper()
	total := stats.Total()
	if total.Entries != n || total.Growths == 0 {
		t.Fatalf("%+v: want %d entries after several growths", total, n)
	}
	if limit := largestPlausibleMove(tb); total.LargestMove == 0 || total.LargestMove > limit {
		t.Errorf("one growth moved %d entries of %d, want 1 to %d", total.LargestMove, n, limit)
	}
}

func TestMemoryShrinksBackAfterDeletes(t *testing.T) {
	const n = 50000
	checkShrinks(t, n, func(i int) uint64 { return uint64(i) })
	checkShrinks(t, n, func(i int) string { return fmt.Sprint(i) })
}

func checkShrinks[K comparable](t *testing.T, n int, key func(int) K) {
	t.Helper()
	m, err := New[K, uint64](Options{Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		m.Store(key(i), 1)
	}
	full := m.Stats().Total()
	for i := range n {
		m.Delete(key(i))
		if i == n*9/10 && m.Stats().Total().Bytes > full.Bytes/2 {
			t.Errorf("a tenth of the entries keeps %d of %d bytes", m.Stats().Total().Bytes, full.Bytes)
		}
	}
	last := m.Stats().Total()
	if last.Entries != 0 || last.Bytes > full.Bytes/100 || last.Shrinks == 0 {
		t.Errorf("empty map keeps %d of %d bytes: %+v", last.Bytes, full.Bytes, last)
	}
	m.Store(key(1), 2)
	if v, ok := m.Load(key(1)); v != 2 || !ok {
		t.Errorf("after shrinking Load = %d, %v", v, ok)
	}
}

// Deletes give no overflow bucket back. A map whose entries are replaced again
// and again must not grow for that reason.
func TestReplacingEntriesDoesNotGrowTheMap(t *testing.T) {
	checkReplacing(t, func(i int) uint64 { return uint64(i) })
	checkReplacing(t, func(i int) string { return fmt.Sprint(i) })
}

func checkReplacing[K comparable](t *testing.T, key func(int) K) {
	t.Helper()
	m, err := New[K, uint64](Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	const n, rounds = 1500, 60
	for i := range n {
		m.Store(key(i), 1)
	}
	full := m.Stats().Total()
	for i := range n * rounds {
		m.Delete(key(i))
		m.Store(key(i+n), 1)
	}
	if st := m.Stats().Total(); st.Entries != n || st.Bytes > 5*full.Bytes/2 {
		t.Errorf("%d entries, replaced %d times, take %d bytes, at first %d", st.Entries, rounds, st.Bytes, full.Bytes)
	}
	for i := range n {
		if _, ok := m.Load(key(n*rounds + i)); !ok {
			t.Fatalf("key %d was lost", n*rounds+i)
		}
	}
}

func TestClearGivesMemoryBack(t *testing.T) {
	var m Map[uint64, uint64]
	for i := range uint64(10000) {
		m.Store(i, i)
	}
	m.Clear()
	if st := m.Stats().Total(); st.Entries != 0 || st.Bytes != 0 || m.Len() != 0 {
		t.Errorf("after Clear: %+v", st)
	}
}

func TestCapacityIsReservedAndKept(t *testing.T) {
	const n = 100000
	m, err := New[uint64, uint64](Options{Capacity: n})
	if err != nil {
		t.Fatal(err)
	}
	reserved := m.Stats().Total().Bytes
	for i := range uint64(n) {
		m.Store(i, i)
	}
	if grown := m.Stats().Total(); grown.Growths > grown.Segments/10 {
		t.Errorf("%d growths of %d segments in spite of Capacity", grown.Growths, grown.Segments)
	}
	for i := range uint64(n) {
		m.Delete(i)
	}
	if kept := m.Stats().Total().Bytes; kept < reserved {
		t.Errorf("deletes shrank the reserved %d bytes to %d", reserved, kept)
	}
}

// Keys whose hashes all collide cannot be parted by growing: their chain gets
// longer, and nothing else does.
func TestCollidingHashesGetSparesNotSegments(t *testing.T) {
	m, err := New[uint64, uint64](Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	tb := &m.ensureState().words.wordTable
	tb.seeds.second = 0 // every hash is now 0
	const n = 1000
	for i := range uint64(n) {
		m.Store(i, i)
	}
	for i := range uint64(n) {
		if v, ok := m.Load(i); v != i || !ok {
			t.Fatalf("Load(%d) = %d, %v", i, v, ok)
		}
	}
	if st := m.Stats().Total(); st.Segments != 1 || st.Entries != n {
		t.Errorf("%+v: want one segment", st)
	}
	for i := range uint64(n) {
		m.Delete(i)
	}
	if m.Len() != 0 {
		t.Errorf("%d entries left", m.Len())
	}
}

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
	tb := m.ensureState().loadTable()
	seen := map[unsafe.Pointer]segment{}
	look := func(cause string) {
		current := listSegments(tb.shardAt(0).loadDirectory())
		for _, seg := range current {
			delete(seen, seg.base)
		}
		for _, seg := range seen {
			for i := range seg.rootCount() {
				if atomic.LoadUint64(wordAt(seg.bucketAt(i, tb.bucketBytes), headerWord))&frozenBit == 0 {
					t.Fatalf("%s replaced a segment whose root %d of %d is not frozen", cause, i, seg.rootCount())
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
	for _, tb := range []*table{words.ensureState().loadTable(), wides.ensureState().loadTable(), texts.ensureState().loadTable()} {
		for _, size := range tb.sizes {
			seg := tb.layout.newSegment(size)
			if uintptr(seg.base)%cacheLine != 0 {
				t.Errorf("a segment of %d buckets of %d bytes starts at %p", size.totalBuckets(), tb.bucketBytes, seg.base)
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
	for _, size := range m.ensureState().loadTable().sizes {
		if behind := uintptr(size.totalBuckets()-size.buckets) * wordBucketBytes; behind < reach-wordBucketBytes {
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
