package shardmap

import (
	"fmt"
	"testing"
)

// largestPlausibleMove bounds one move: nothing may be copied under a shard's
// lock but the entries of one full segment (or of two half-full ones).
func largestPlausibleMove(t *table) int {
	size := t.sizes[len(t.sizes)-1]
	return t.slots * size.total()
}

func TestGrowthMovesBoundedPieces(t *testing.T) {
	const n = 120000
	words, _ := New[uint64, uint64](Options{Shards: 1})
	texts, _ := New[string, string](Options{Shards: 1})
	for i := range n {
		words.Store(uint64(i), 1)
		texts.Store(fmt.Sprint(i), "x")
	}
	checkMoves(t, words.Stats(), words.ready().table(), n)
	checkMoves(t, texts.Stats(), texts.ready().table(), n)
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
	shrinks(t, n, func(i int) uint64 { return uint64(i) })
	shrinks(t, n, func(i int) string { return fmt.Sprint(i) })
}

func shrinks[K comparable](t *testing.T, n int, key func(int) K) {
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
	replacing(t, func(i int) uint64 { return uint64(i) })
	replacing(t, func(i int) string { return fmt.Sprint(i) })
}

func replacing[K comparable](t *testing.T, key func(int) K) {
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
	tb := &m.ready().words.wordTable
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
