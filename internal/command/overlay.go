package command

import (
	"bytes"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/zeebo/xxh3"
)

// overlay finds the newest operation of a batch on a key. It is an index over
// the effects themselves, so it copies no bytes.
//
// It is a hash table with linear probing whose entries are never removed but in
// the reverse order of their insertion. That is why taking one back needs no
// tombstones: its slot becomes what it was before.
type overlay struct {
	slots   []uint32 // number of an entry plus one; 0 is free; a power of two
	entries []entry  // in the order of the operations
}

type entry struct {
	hash uint64
	ref  effect.Ref
	slot uint32 // Invariant: the chain slots[slot], prev, prev … holds the entry
	prev uint32 // the entry of the same key before it, plus one, or 0
}

const (
	minSlots = 64
	// keepSlots is how large a table is kept for the next batch: that of a
	// transaction at its limit, with the bookkeeping of each key.
	keepSlots = 1 << 16
)

// reset forgets everything.
func (o *overlay) reset() {
	if len(o.slots) > keepSlots {
		*o = overlay{}
		return
	}
	o.rewind(0)
}

// rewind forgets all but the first n operations.
func (o *overlay) rewind(n int) {
	for i := len(o.entries) - 1; i >= n; i-- {
		o.slots[o.entries[i].slot] = o.entries[i].prev
	}
	o.entries = o.entries[:n]
}

// find returns the newest operation on key. The views are good until the next
// change of the batch.
func (o *overlay) find(out *effect.Builder, key []byte) (effect.Op, bool) {
	if len(o.entries) == 0 {
		return effect.Op{}, false
	}
	if i := o.slots[o.slotOf(out, xxh3.Hash(key), key)]; i != 0 {
		return out.At(o.entries[i-1].ref), true
	}
	return effect.Op{}, false
}

// record adds an operation that was just written to out.
func (o *overlay) record(out *effect.Builder, key []byte, ref effect.Ref) {
	if 2*len(o.entries) >= len(o.slots) {
		o.grow(out)
	}
	hash := xxh3.Hash(key)
	o.insert(entry{hash: hash, ref: ref, slot: o.slotOf(out, hash, key)})
}

func (o *overlay) insert(e entry) {
	e.prev = o.slots[e.slot]
	o.entries = append(o.entries, e)
	o.slots[e.slot] = uint32(len(o.entries))
}

// slotOf returns the slot of key, or the free one where it would be.
func (o *overlay) slotOf(out *effect.Builder, hash uint64, key []byte) uint32 {
	mask := uint32(len(o.slots) - 1)
	for slot := uint32(hash) & mask; ; slot = (slot + 1) & mask {
		i := o.slots[slot]
		if i == 0 {
			return slot
		}
		if e := &o.entries[i-1]; e.hash == hash && bytes.Equal(out.At(e.ref).Key, key) {
			return slot
		}
	}
}

// grow inserts all entries anew in their order, so that they can still be taken
// back in the reverse of it.
func (o *overlay) grow(out *effect.Builder) {
	old := o.entries
	o.slots = make([]uint32, max(minSlots, 2*len(o.slots)))
	o.entries = make([]entry, 0, len(o.slots)/2)
	for _, e := range old {
		e.slot = o.slotOf(out, e.hash, out.At(e.ref).Key)
		o.insert(e)
	}
}

// newest tells whether entry i is the last one of its key.
func (o *overlay) newest(i int) bool { return o.slots[o.entries[i].slot] == uint32(i+1) }
