package shardmap

import (
	"sync"
	"testing"
)

// TestReadersSeeWholeEntries runs without a clock or a lock that would order
// the goroutines by accident. Every entry holds its own key in its value; keys
// share slots because they come and go.
func TestReadersSeeWholeEntries(t *testing.T) {
	const keys, rounds = 12, 1500
	t.Run("word", func(t *testing.T) {
		wholeEntries(t, keys, rounds, func(k, i uint64) uint64 { return k + i*keys }, func(v uint64) uint64 { return v % keys })
	})
	t.Run("wide", func(t *testing.T) {
		wholeEntries(t, keys, rounds, func(k, i uint64) wide { return spread(k + i*keys) }, func(v wide) uint64 { return gather(v) % keys })
	})
	t.Run("entry", func(t *testing.T) {
		type pair struct{ a, b *uint64 }
		wholeEntries(t, keys, rounds,
			func(k, i uint64) pair { x := k + i*keys; return pair{&x, &x} },
			func(v pair) uint64 {
				if v.a != v.b {
					panic("torn pair")
				}
				return *v.a % keys
			})
	})
}

func wholeEntries[V any](t *testing.T, keys uint64, rounds int, value func(k, i uint64) V, keyOf func(V) uint64) {
	m, err := New[uint64, V](Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	for g := range 2 {
		writers.Go(func() {
			for i := range rounds {
				for k := range keys {
					if (i+int(k)+g)%3 == 0 {
						m.Delete(k)
					} else {
						m.Store(k, value(k, uint64(i)))
					}
				}
			}
		})
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for k := range keys {
					if v, ok := m.Load(k); ok && keyOf(v) != k {
						t.Errorf("Load(%d) returned the value of %d", k, keyOf(v))
						return
					}
				}
				for k, v := range m.All() {
					if keyOf(v) != k {
						t.Errorf("All yields %d with the value of %d", k, keyOf(v))
						return
					}
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
}

// TestAReusedSlotIsNotTakenForItsOldKey lets two keys take turns in one slot:
// a reader that finds the one and then copies the value of the other must
// notice.
func TestAReusedSlotIsNotTakenForItsOldKey(t *testing.T) {
	const flips = 60000
	t.Run("word", func(t *testing.T) {
		takeTurns(t, flips, func(k uint64) uint64 { return k }, func(v uint64) uint64 { return v })
	})
	t.Run("wide", func(t *testing.T) { takeTurns(t, flips, spread, gather) })
	t.Run("entry", func(t *testing.T) {
		takeTurns(t, flips, func(k uint64) any { return k }, func(v any) uint64 { return v.(uint64) })
	})
}

func takeTurns[V any](t *testing.T, flips int, value func(uint64) V, keyOf func(V) uint64) {
	m, err := New[uint64, V](Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	pair := [2]uint64{0, neighbour(m)}
	var writer, readers sync.WaitGroup
	stop := make(chan struct{})
	writer.Go(func() {
		for i := range flips {
			k := pair[i%2]
			m.Store(k, value(k))
			m.Delete(k)
		}
	})
	for _, k := range pair {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for range 100 {
					if v, ok := m.Load(k); ok && keyOf(v) != k {
						t.Errorf("Load(%d) returned the value of %d", k, keyOf(v))
						return
					}
				}
			}
		})
	}
	writer.Wait()
	close(stop)
	readers.Wait()
}

// TestDeletingRaisesTheVersion: readers know by nothing else that a slot has
// another key than when they looked, in the root and behind it.
func TestDeletingRaisesTheVersion(t *testing.T) {
	m, err := New[uint64, uint64](Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	tb := &m.ready().words.wordTable
	tb.seeds.second = 0 // every hash is now 0, so that all keys are in one chain
	for k := range uint64(2 * wordSlots) {
		m.Store(k, k)
	}
	root := (*wordBucket)(lookup(tb.shard(0).directory(), 0).at(0, wordBucketBytes))
	for k := range uint64(2 * wordSlots) {
		before := root.header.Load()
		m.Delete(k)
		if root.hasVersion(before) {
			t.Errorf("the version is the same after deleting key %d", k)
		}
	}
}

// neighbour returns a key that has its root in common with key 0 as long as
// the map has its first, smallest segment.
func neighbour[V any](m *Map[uint64, V]) uint64 {
	s := m.ready()
	first := segment{roots: uint32(s.table().sizes[0].buckets)}
	root := func(k uint64) uint64 { return first.root(s.table().seeds.hashWord(k)) }
	k := uint64(1)
	for root(k) != root(0) {
		k++
	}
	return k
}
