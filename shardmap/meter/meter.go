// Package meter says which keys of a [shardmap.Map] are hot, and which ranges of keys.
//
//	m := meter.New(&shared, recorder, meter.AppendString[string]) // for each goroutine
//	m.Store("user:1", user)
//	…
//	top, total := heatMeter.Top(heat.ByOps, 10)
//
// Each goroutine has a [Map] of its own, a small value with its own [heat.Recorder]; all of them use the same
// shardmap.Map. So an operation that is not in the sample costs about a nanosecond and writes to no memory that
// another goroutine reads. How even the map's own shards are is in shardmap.Stats.
package meter

import (
	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/shardmap"
)

// Map does what a [shardmap.Map] does, and samples it. It belongs to one goroutine.
type Map[K comparable, V any] struct {
	bare      *shardmap.Map[K, V]
	recorder  *heat.Recorder
	appendKey func(dst []byte, key K) []byte
	key       []byte // of the last operation in the sample
}

// New returns a map for one goroutine that samples what it does with m. The bytes by which a key is reported, and by
// whose order ranges are made, are what appendKey appends.
func New[K comparable, V any](m *shardmap.Map[K, V], recorder *heat.Recorder, appendKey func(dst []byte, key K) []byte) *Map[K, V] {
	return &Map[K, V]{bare: m, recorder: recorder, appendKey: appendKey}
}

// AppendString appends a key that is a string.
func AppendString[K ~string](dst []byte, key K) []byte { return append(dst, key...) }

// Unwrap returns the map that does not sample. It has the operations that are not on one key, such as Range.
func (m *Map[K, V]) Unwrap() *shardmap.Map[K, V] { return m.bare }

// record hands an operation of the sample in.
func (m *Map[K, V]) record(key K, command string, write bool) {
	m.key = m.appendKey(m.key[:0], key)
	m.recorder.Record(&heat.Access{Key: m.key, Slot: m.recorder.SlotOf(hash.XXH3(m.key)), Write: write, Command: command})
}

// Load is [shardmap.Map.Load].
func (m *Map[K, V]) Load(key K) (value V, ok bool) {
	if m.recorder.Sampled(1) {
		m.record(key, "Load", false)
	}
	return m.bare.Load(key)
}

// Store is [shardmap.Map.Store].
func (m *Map[K, V]) Store(key K, value V) {
	if m.recorder.Sampled(1) {
		m.record(key, "Store", true)
	}
	m.bare.Store(key, value)
}

// Swap is [shardmap.Map.Swap].
func (m *Map[K, V]) Swap(key K, value V) (previous V, loaded bool) {
	if m.recorder.Sampled(1) {
		m.record(key, "Swap", true)
	}
	return m.bare.Swap(key, value)
}

// LoadOrStore is [shardmap.Map.LoadOrStore]. It counts as a write if it has stored.
func (m *Map[K, V]) LoadOrStore(key K, value V) (actual V, loaded bool) {
	actual, loaded = m.bare.LoadOrStore(key, value)
	if m.recorder.Sampled(1) {
		m.record(key, "LoadOrStore", !loaded)
	}
	return actual, loaded
}

// LoadAndDelete is [shardmap.Map.LoadAndDelete].
func (m *Map[K, V]) LoadAndDelete(key K) (value V, loaded bool) {
	if m.recorder.Sampled(1) {
		m.record(key, "LoadAndDelete", true)
	}
	return m.bare.LoadAndDelete(key)
}

// Delete is [shardmap.Map.Delete].
func (m *Map[K, V]) Delete(key K) {
	if m.recorder.Sampled(1) {
		m.record(key, "Delete", true)
	}
	m.bare.Delete(key)
}

// Compute is [shardmap.Map.Compute].
func (m *Map[K, V]) Compute(key K, update func(old V, loaded bool) (V, shardmap.Op)) (actual V, ok bool) {
	if m.recorder.Sampled(1) {
		m.record(key, "Compute", true)
	}
	return m.bare.Compute(key, update)
}

// LoadOrCompute is [shardmap.Map.LoadOrCompute]. It counts as a write if it has computed.
func (m *Map[K, V]) LoadOrCompute(key K, compute func() (V, error)) (actual V, loaded bool, err error) {
	actual, loaded, err = m.bare.LoadOrCompute(key, compute)
	if m.recorder.Sampled(1) {
		m.record(key, "LoadOrCompute", !loaded && err == nil)
	}
	return actual, loaded, err
}
