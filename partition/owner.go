package partition

import (
	"bytes"
	"encoding/binary"
)

// Owner is what a router must know of a shard.
type Owner struct {
	Shard ShardID
	Group GroupID
	// Changed is as in [Shard].
	Changed Version
}

// Owner returns who owns a position.
func (m *Map) Owner(p Position) Owner { return m.shards[m.tiling.find(p)].Owner }

// SlotOwner returns who owns the first position of a slot of a hash keyspace,
// and whether that is the owner of the whole slot. If not, the slot is split
// inside itself, and the position of the key decides: ask [Map.Owner].
func (m *Map) SlotOwner(k KeyspaceID, slot uint16) (owner Owner, whole bool) {
	i, whole := m.tiling.findSlot(k, slot)
	return m.shards[i].Owner, whole
}

// findSlot returns the shard that holds the first position of a slot, and
// whether the next one starts behind the slot.
func (t *tiling) findSlot(k KeyspaceID, slot uint16) (i int, whole bool) {
	n := t.root
	if n == nil {
		return 0, true
	}
	// The bytes of a slot and of an id below 252 fit into a word with room to
	// spare, so the first node answers, and memory is not written.
	w, size := uint64(k)<<56|uint64(slot)<<40, 3
	switch {
	case k >= idOneByte || len(n.prefix) > 1:
		return t.findSlotBytes(k, slot)
	case len(n.prefix) == 1:
		if KeyspaceID(n.prefix[0]) != k {
			return t.findSlotBytes(k, slot)
		}
		w, size = w<<8, 2
	}
	w |= uint64(size)
	i = n.less(w)
	next, at := i, n.begin(i)
	if i < len(n.words) && n.words[i] == w {
		next, at = i+1, at+1 // the slot starts a shard
	}
	whole = next == len(n.words) || (n.words[next]^w)>>(64-8*size) != 0
	return at, whole
}

// findSlotBytes is findSlot for all others.
func (t *tiling) findSlotBytes(k KeyspaceID, slot uint16) (i int, whole bool) {
	var buf [8]byte
	p := binary.BigEndian.AppendUint16(k.append(buf[:0]), slot)
	i = t.find(p)
	return i, i+1 == t.count() || !bytes.HasPrefix(t.start(i+1), p)
}
