package mapcells

import (
	"hash/maphash"
	"sync"
	"unsafe"
)

// locked is what most programs start with: one map, one lock.
type locked[K comparable, V any] struct {
	mu sync.RWMutex
	m  map[K]V
}

func newLocked[K comparable, V any]() *locked[K, V] {
	return &locked[K, V]{m: map[K]V{}}
}

func (l *locked[K, V]) Load(k K) (V, bool) {
	l.mu.RLock()
	v, ok := l.m[k]
	l.mu.RUnlock()
	return v, ok
}

func (l *locked[K, V]) Store(k K, v V) {
	l.mu.Lock()
	l.m[k] = v
	l.mu.Unlock()
}

func (l *locked[K, V]) Delete(k K) {
	l.mu.Lock()
	delete(l.m, k)
	l.mu.Unlock()
}

// Range holds the lock while it visits, as hand-written maps do.
func (l *locked[K, V]) Range(f func(K, V) bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for k, v := range l.m {
		if !f(k, v) {
			return
		}
	}
}

// lockShards is far more than the cores of any machine this runs on, so that
// two goroutines rarely meet.
const lockShards = 256

// paddedLock keeps a shard's lock off its neighbours' cache lines: 128 bytes,
// because processors fetch lines in pairs.
type paddedLock[K comparable, V any] struct {
	locked[K, V]
	_ [128 - unsafe.Sizeof(locked[int, int]{})%128]byte
}

// sharded is what programs do next: many maps, many locks.
type sharded[K comparable, V any] struct {
	seed   maphash.Seed
	shards [lockShards]paddedLock[K, V]
}

func newSharded[K comparable, V any]() *sharded[K, V] {
	s := &sharded[K, V]{seed: maphash.MakeSeed()}
	for i := range s.shards {
		s.shards[i].m = map[K]V{}
	}
	return s
}

func (s *sharded[K, V]) shard(k K) *paddedLock[K, V] {
	return &s.shards[maphash.Comparable(s.seed, k)%lockShards]
}

func (s *sharded[K, V]) Load(k K) (V, bool) { return s.shard(k).Load(k) }
func (s *sharded[K, V]) Store(k K, v V)     { s.shard(k).Store(k, v) }
func (s *sharded[K, V]) Delete(k K)         { s.shard(k).Delete(k) }

func (s *sharded[K, V]) Range(f func(K, V) bool) {
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
