package shardmap

import (
	"iter"
	"reflect"
	"sync/atomic"
)

// Map is a concurrent map. The zero value is an empty map with the default
// [Options], ready to use. A Map must not be copied after first use.
//
// All methods may be called by any number of goroutines. Operations on one
// key are linearizable: each takes effect at one instant between its call and
// its return. Like the built-in map, a key of an interface type whose dynamic
// type cannot be hashed makes every method panic; the map is not affected.
type Map[K comparable, V any] struct {
	state atomic.Pointer[state[K, V]]
}

// state is the map proper; it is immutable but for the tables' contents.
type state[K comparable, V any] struct {
	layout  layoutKind
	words   wordMap[K, V]    // layoutWord
	entries entryTable[K, V] // layoutEntry
}

// New returns an empty map, or an error that matches [ErrOptions].
func New[K comparable, V any](opts Options) (*Map[K, V], error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	m := new(Map[K, V])
	m.state.Store(newState[K, V](opts))
	return m, nil
}

func newState[K comparable, V any](opts Options) *state[K, V] {
	key, value := reflect.TypeFor[K](), reflect.TypeFor[V]()
	s := &state[K, V]{layout: layoutOf(key, value)}
	if s.layout == layoutEntry {
		s.entries.init(opts)
	} else {
		s.words.init(opts)
	}
	return s
}

// ready returns the state and makes it first if this is a fresh zero value.
func (m *Map[K, V]) ready() *state[K, V] {
	if s := m.state.Load(); s != nil {
		return s
	}
	return m.makeReady()
}

func (m *Map[K, V]) makeReady() *state[K, V] {
	opts, err := Options{}.withDefaults()
	invariant(err == nil, "the zero Options are valid")
	m.state.CompareAndSwap(nil, newState[K, V](opts))
	return m.state.Load()
}

// Store sets the value of key.
func (m *Map[K, V]) Store(key K, value V) {
	s := m.ready()
	if s.layout == layoutEntry {
		s.entries.store(key, value)
	} else {
		s.words.storeWord(toWord(&key), toWord(&value))
	}
}

// Swap sets the value of key and returns the one it had, if any.
func (m *Map[K, V]) Swap(key K, value V) (previous V, loaded bool) {
	s := m.ready()
	if s.layout == layoutEntry {
		return s.entries.swap(key, value)
	}
	return s.words.swap(key, value)
}

// LoadOrStore returns the value of key if it has one, with loaded true.
// Otherwise it stores value and returns it.
func (m *Map[K, V]) LoadOrStore(key K, value V) (actual V, loaded bool) {
	s := m.ready()
	if actual, loaded = m.Load(key); loaded {
		return actual, true
	}
	if s.layout == layoutEntry {
		return s.entries.loadOrStore(key, value)
	}
	return s.words.loadOrStore(key, value)
}

// LoadAndDelete deletes key and returns the value it had, if any.
func (m *Map[K, V]) LoadAndDelete(key K) (value V, loaded bool) {
	s := m.state.Load()
	if s == nil {
		return value, false
	}
	if _, loaded = m.Load(key); !loaded {
		return value, false // absent keys need no lock
	}
	if s.layout == layoutEntry {
		return s.entries.remove(key)
	}
	return s.words.remove(key)
}

// Delete deletes key. To delete an absent key takes no lock.
func (m *Map[K, V]) Delete(key K) { m.LoadAndDelete(key) }

// Len returns the number of entries. It is exact while no other goroutine
// writes; else an entry that comes or goes meanwhile may count or not.
func (m *Map[K, V]) Len() int {
	s := m.state.Load()
	if s == nil {
		return 0
	}
	return s.table().len()
}

// Clear deletes all entries that are there when it is called. It is atomic
// for each key, not for the map: an entry stored meanwhile may stay or go.
func (m *Map[K, V]) Clear() {
	if s := m.state.Load(); s != nil {
		s.table().clear()
	}
}

// Range calls yield for the entries of the map until it returns false.
//
// Every key is yielded at most once. A key that is there from beginning to
// end is yielded, with a value it had at some time in between; one that comes
// or goes meanwhile may be yielded or not. No lock is held during yield, so
// it may use the map as it likes.
func (m *Map[K, V]) Range(yield func(key K, value V) bool) {
	s := m.state.Load()
	if s == nil {
		return
	}
	if s.layout == layoutEntry {
		s.entries.rangeEntries(yield)
	} else {
		s.words.rangeEntries(yield)
	}
}

// All returns an iterator over the entries, as [Map.Range] visits them.
func (m *Map[K, V]) All() iter.Seq2[K, V] { return m.Range }

// table returns the table that is in use.
func (s *state[K, V]) table() *table {
	if s.layout == layoutEntry {
		return &s.entries.table
	}
	return &s.words.table
}
