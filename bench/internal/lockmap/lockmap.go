// Package lockmap holds the maps that programs write by hand: a built-in map
// behind a lock, and many of them side by side. They are the yardstick of the
// map's and the actors' cells.
package lockmap

import (
	"sync"
	"unsafe"
)

// Map is what most programs start with: one map, one lock.
type Map[K comparable, V any] struct {
	mu sync.RWMutex
	m  map[K]V
}

// New returns an empty map.
func New[K comparable, V any]() *Map[K, V] { return &Map[K, V]{m: map[K]V{}} }

// Load returns the value of k, if any.
func (l *Map[K, V]) Load(k K) (V, bool) {
	l.mu.RLock()
	v, ok := l.m[k]
	l.mu.RUnlock()
	return v, ok
}

// Store sets the value of k.
func (l *Map[K, V]) Store(k K, v V) {
	l.mu.Lock()
	l.m[k] = v
	l.mu.Unlock()
}

// Delete removes k.
func (l *Map[K, V]) Delete(k K) {
	l.mu.Lock()
	delete(l.m, k)
	l.mu.Unlock()
}

// Range holds the lock while it visits, as hand-written maps do.
func (l *Map[K, V]) Range(f func(K, V) bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for k, v := range l.m {
		if !f(k, v) {
			return
		}
	}
}

// Do calls f with the map while it is locked.
func (l *Map[K, V]) Do(f func(map[K]V)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.m)
}

// Padded keeps a map's lock off its neighbours' cache lines: 128 bytes,
// because processors fetch lines in pairs.
type Padded[K comparable, V any] struct {
	Map[K, V]
	_ [128 - unsafe.Sizeof(Map[int, int]{})%128]byte
}

// Init makes a zero Map ready, for those that live in arrays.
func (l *Map[K, V]) Init() { l.m = map[K]V{} }
