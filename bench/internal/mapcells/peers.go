package mapcells

import (
	"sync"

	"github.com/alphadose/haxmap"
	"github.com/cleavekv/cleave/bench/internal/lockmap"
	"github.com/cleavekv/cleave/shardmap"
	cmap "github.com/orcaman/concurrent-map/v2"
	"github.com/puzpuzpuz/xsync/v4"
)

// syncMap gives sync.Map types. Boxing keys and values is its own cost: its
// interface allows nothing else.
type syncMap[K comparable, V any] struct{ m sync.Map }

func (s *syncMap[K, V]) Load(k K) (V, bool) {
	v, ok := s.m.Load(k)
	if !ok {
		var none V
		return none, false
	}
	return v.(V), true
}

func (s *syncMap[K, V]) Store(k K, v V) { s.m.Store(k, v) }
func (s *syncMap[K, V]) Delete(k K)     { s.m.Delete(k) }

func (s *syncMap[K, V]) Range(f func(K, V) bool) {
	s.m.Range(func(k, v any) bool { return f(k.(K), v.(V)) })
}

// concurrentMap gives orcaman/concurrent-map the names of sync.Map.
type concurrentMap[K comparable, V any] struct{ cmap.ConcurrentMap[K, V] }

func (c concurrentMap[K, V]) Load(k K) (V, bool) { return c.Get(k) }
func (c concurrentMap[K, V]) Store(k K, v V)     { c.Set(k, v) }
func (c concurrentMap[K, V]) Delete(k K)         { c.Remove(k) }

// Range cannot stop early there; no cell stops.
func (c concurrentMap[K, V]) Range(f func(K, V) bool) {
	c.IterCb(func(k K, v V) { f(k, v) })
}

// haxUint64 gives alphadose/haxmap the names of sync.Map. Its keys are numbers
// and strings only, and the constraint is not exported: one adapter each.
type haxUint64[V any] struct{ *haxmap.Map[uint64, V] }

func (h haxUint64[V]) Load(k uint64) (V, bool)      { return h.Get(k) }
func (h haxUint64[V]) Store(k uint64, v V)          { h.Set(k, v) }
func (h haxUint64[V]) Delete(k uint64)              { h.Del(k) }
func (h haxUint64[V]) Range(f func(uint64, V) bool) { h.ForEach(f) }

// haxString is haxUint64 for strings.
type haxString[V any] struct{ *haxmap.Map[string, V] }

func (h haxString[V]) Load(k string) (V, bool)      { return h.Get(k) }
func (h haxString[V]) Store(k string, v V)          { h.Set(k, v) }
func (h haxString[V]) Delete(k string)              { h.Del(k) }
func (h haxString[V]) Range(f func(string, V) bool) { h.ForEach(f) }

// common returns the kinds that take any key.
func common[K comparable, V any]() []maker[K, V] {
	return []maker[K, V]{
		{"shardmap", true, func() table[K, V] { return new(shardmap.Map[K, V]) }},
		{"xsync", false, func() table[K, V] { return xsync.NewMap[K, V]() }},
		{"sync.Map", false, func() table[K, V] { return new(syncMap[K, V]) }},
		{"sharded RWMutex", false, func() table[K, V] { return lockmap.NewSharded[K, V]() }},
		{"RWMutex", false, func() table[K, V] { return lockmap.New[K, V]() }},
	}
}

// uint64Makers adds the kinds that need to know the key. The keys here look
// random, so their low bits are all the hash that concurrent-map needs.
func uint64Makers[V any]() []maker[uint64, V] {
	return append(common[uint64, V](),
		maker[uint64, V]{"concurrent-map", false, func() table[uint64, V] {
			return concurrentMap[uint64, V]{cmap.NewWithCustomShardingFunction[uint64, V](func(k uint64) uint32 { return uint32(k) })}
		}},
		maker[uint64, V]{"haxmap", false, func() table[uint64, V] { return haxUint64[V]{haxmap.New[uint64, V]()} }},
	)
}

func stringMakers[V any]() []maker[string, V] {
	return append(common[string, V](),
		maker[string, V]{"concurrent-map", false, func() table[string, V] { return concurrentMap[string, V]{cmap.New[V]()} }},
		maker[string, V]{"haxmap", false, func() table[string, V] { return haxString[V]{haxmap.New[string, V]()} }},
	)
}

// key16 is a 16-byte key such as a UUID. haxmap has no such keys.
type key16 [16]byte

func key16Makers[V any]() []maker[key16, V] {
	return append(common[key16, V](),
		maker[key16, V]{"concurrent-map", false, func() table[key16, V] {
			return concurrentMap[key16, V]{cmap.NewWithCustomShardingFunction[key16, V](func(k key16) uint32 {
				return uint32(k[0]) | uint32(k[1])<<8
			})}
		}},
	)
}
