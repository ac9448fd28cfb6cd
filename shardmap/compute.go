package shardmap

import "fmt"

// Op is what the callback of [Map.Compute] decides.
type Op uint8

const (
	Cancel Op = iota // leave the entry as it is
	Update           // store the returned value
	Delete           // delete the entry
)

// Compute calls update with the value of key, or the zero value and loaded
// false, and does what it decides. It returns the value that key has
// afterwards and whether it has one. update is called exactly once, and no
// other writer of key takes effect between its call and its decision.
//
// While update runs, writers of this key and of the few keys that share its
// bucket wait, and so does growth of their shard; readers do not. update may
// Load from the map. It must not write to the map, ask for its Stats, or wait
// for one who does: that deadlocks when the two meet in a bucket or a shard. If
// update panics, the map is left as it was and the panic goes on. An Op that is
// none of the three panics likewise.
func (m *Map[K, V]) Compute(key K, update func(old V, loaded bool) (V, Op)) (actual V, ok bool) {
	s := m.ready()
	if s.layout == layoutEntry {
		return s.entries.compute(key, update)
	}
	return s.words.compute(key, update)
}

// CompareAndSwap stores new if the value of key is old, and tells whether it
// did. It panics, like ==, if V is an interface type and the values are of a
// type that cannot be compared.
func CompareAndSwap[K, V comparable](m *Map[K, V], key K, old, new V) (swapped bool) {
	m.Compute(key, func(current V, loaded bool) (V, Op) {
		if swapped = loaded && current == old; swapped {
			return new, Update
		}
		return current, Cancel
	})
	return swapped
}

// CompareAndDelete deletes key if its value is old, and tells whether it did.
// It panics when [CompareAndSwap] does.
func CompareAndDelete[K, V comparable](m *Map[K, V], key K, old V) (deleted bool) {
	m.Compute(key, func(current V, loaded bool) (V, Op) {
		if deleted = loaded && current == old; deleted {
			return current, Delete
		}
		return current, Cancel
	})
	return deleted
}

func unknownOp(op Op) string {
	return fmt.Sprintf("shardmap: Compute callback returned Op %d: return Cancel, Update or Delete", op)
}
