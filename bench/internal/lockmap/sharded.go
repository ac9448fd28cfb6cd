package lockmap

import "hash/maphash"

// shardCount is far more than the cores of any machine this runs on, so that
// two goroutines rarely meet.
const shardCount = 256

// Sharded is what programs do next: many maps, many locks.
type Sharded[K comparable, V any] struct {
	seed   maphash.Seed
	shards [shardCount]Padded[K, V]
}

// NewSharded returns an empty map.
func NewSharded[K comparable, V any]() *Sharded[K, V] {
	s := &Sharded[K, V]{seed: maphash.MakeSeed()}
	for i := range s.shards {
		s.shards[i].Init()
	}
	return s
}

func (s *Sharded[K, V]) shard(k K) *Padded[K, V] {
	return &s.shards[maphash.Comparable(s.seed, k)%shardCount]
}

// Load returns the value of k, if any.
func (s *Sharded[K, V]) Load(k K) (V, bool) { return s.shard(k).Load(k) }

// Store sets the value of k.
func (s *Sharded[K, V]) Store(k K, v V) { s.shard(k).Store(k, v) }

// Delete removes k.
func (s *Sharded[K, V]) Delete(k K) { s.shard(k).Delete(k) }

// Do calls f with the shard of k while it is locked.
func (s *Sharded[K, V]) Do(k K, f func(map[K]V)) { s.shard(k).Do(f) }

// Range visits one shard after the other.
func (s *Sharded[K, V]) Range(f func(K, V) bool) {
	more := true
	for i := range s.shards {
		s.shards[i].Range(func(k K, v V) bool {
			more = f(k, v)
			return more
		})
		if !more {
			return
		}
	}
}
