package shardmap

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// Load returns the value of key and whether there is one. It takes no lock.
func (m *Map[K, V]) Load(key K) (value V, ok bool) {
	s := m.state.Load()
	if s == nil {
		return value, false
	}
	if s.layout != layoutEntry {
		w, found := s.words.read(toWord(&key))
		if found == unclear {
			w, ok = s.words.loadWordSlow(toWord(&key))
			return fromWord[V](w), ok
		}
		return fromWord[V](w), found == present
	}
	// The entry layout's part is written out, hash included: the fewer
	// instructions a lookup takes, the more lookups the processor overlaps.
	t := &s.entries
	var hash uint64
	if unsafe.Sizeof(key) <= wordBytes && t.hashesWord {
		hash = t.seeds.hashWord(toWord(&key))
	} else {
		hash = maphash.Comparable(t.seeds.general, key)
	}
	seg := lookup(t.shard(hash).directory(), hash)
	b := seg.at(seg.root(hash), entryBucketBytes)
	marks := matchTag(atomic.LoadUint64(word(b, headerWord)), tagOf(hash))
	if marks != 0 {
		// The first mark is nearly always it. Nothing but the hash is needed
		// after the comparison, which is a call for many types of key.
		p := atomic.LoadPointer(entrySlot(b, uint(bits.TrailingZeros64(marks))/8))
		if p != nil && *(*K)(p) == key {
			if t.box == boxValue {
				return (*valueBox[K, V])(p).value, true
			}
			return t.unbox(p), true
		}
	} else if atomic.LoadUint64(word(b, linkWord)) == 0 {
		return value, false
	}
	if p := t.findEntry(key, hash); p != nil {
		return t.unbox(p), true
	}
	return value, false
}
