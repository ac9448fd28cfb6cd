package command

import (
	"bytes"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/cleavekv/cleave/internal/shard/effect"
)

// overlay finds the newest operation of a batch on a key. It is an index over
// the effects themselves, so it copies no bytes.
//
// It is a hash table with linear probing whose entries are never removed but in
// the reverse order of their insertion. That is why taking one back needs no
// tombstones: its slot becomes what it was before.
type overlay struct {
	slots   []uint32       // number of an entry plus one; 0 is free; a power of two
	entries []overlayEntry // in the order of the operations
}

type overlayEntry struct {
	hash uint64
	ref  effect.Ref
	slot uint32 // Invariant: the chain slots[slot], prev, prev … holds the entry
	prev uint32 // the entry of the same key before it, plus one, or 0
}

const (
	minOverlaySlots = 64
	// maxRetainedSlots is how large a table is kept for the next batch: that of a
	// transaction at its limit, with the bookkeeping of each key.
	maxRetainedSlots = 1 << 16
)

// reset forgets everything.
func (o *overlay) reset() {
	if len(o.slots) > maxRetainedSlots {
		*o = overlay{}
		return
	}
	o.rollbackTo(0)
}

// rollbackTo forgets all but the first n operations.
func (o *overlay) rollbackTo(n int) {
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
	if i := o.slots[o.findSlot(out, xxh3.Hash(key), key)]; i != 0 {
		return out.At(o.entries[i-1].ref), true
	}
	return effect.Op{}, false
}

// recordOp adds an operation that was just written to out.
func (o *overlay) recordOp(out *effect.Builder, key []byte, ref effect.Ref) {
	if 2*len(o.entries) >= len(o.slots) {
		o.growSlots(out)
	}
	hash := xxh3.Hash(key)
	o.insert(overlayEntry{hash: hash, ref: ref, slot: o.findSlot(out, hash, key)})
}

func (o *overlay) insert(e overlayEntry) {
	e.prev = o.slots[e.slot]
	o.entries = append(o.entries, e)
	o.slots[e.slot] = uint32(len(o.entries))
}

// findSlot returns the slot of key, or the free one where it would be.
func (o *overlay) findSlot(out *effect.Builder, hash uint64, key []byte) uint32 {
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

// growSlots inserts all entries anew in their order, so that they can still be taken
// back in the reverse of it.
func (o *overlay) growSlots(out *effect.Builder) {
	old := o.entries
	o.slots = make([]uint32, max(minOverlaySlots, 2*len(o.slots)))
	o.entries = make([]overlayEntry, 0, len(o.slots)/2)
	for _, e := range old {
		e.slot = o.findSlot(out, e.hash, out.At(e.ref).Key)
		o.insert(e)
	}
}

// isNewest reports whether entry i is the last one of its key.
func (o *overlay) isNewest(i int) bool { return o.slots[o.entries[i].slot] == uint32(i+1) }

// Scan visits the rows with start <= key < end, store keys both, as the next
// command of the batch would see them, in order or in reverse, until visit
// returns false. The visitor must not use the Env.
func (e *Env) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	e.sortWrites(start, end, reverse)
	if len(e.sortedWrites) == 0 {
		return e.reader.Scan(start, end, reverse, visit)
	}
	pending, stopped := e.sortedWrites, false
	// emit visits what the batch wrote before key, or all of it if key is nil.
	emit := func(key []byte) (replaced bool) {
		for len(pending) > 0 && !stopped {
			op := e.effects.At(e.overlay.entries[pending[0]].ref)
			order := -1
			if key != nil {
				if order = bytes.Compare(op.Key, key); reverse {
					order = -order
				}
			}
			if order > 0 {
				return false
			}
			pending = pending[1:]
			if !op.Delete {
				stopped = !visit(op.Key, op.Value)
			}
			if order == 0 {
				return true
			}
		}
		return false
	}
	err := e.reader.Scan(start, end, reverse, func(key, value []byte) bool {
		if !emit(key) && !stopped {
			stopped = !visit(key, value)
		}
		return !stopped
	})
	if err == nil {
		emit(nil)
	}
	return err
}

// sortWrites gathers the newest operations on keys of the range in e.order. A
// batch is small against what it would cost to keep it sorted at every write.
func (e *Env) sortWrites(start, end []byte, reverse bool) {
	e.sortedWrites = e.sortedWrites[:0]
	for i := range e.overlay.entries {
		if !e.overlay.isNewest(i) {
			continue
		}
		if key := e.overlayKey(i); bytes.Compare(key, start) >= 0 && bytes.Compare(key, end) < 0 {
			e.sortedWrites = append(e.sortedWrites, i)
		}
	}
	slices.SortFunc(e.sortedWrites, func(a, b int) int {
		if reverse {
			a, b = b, a
		}
		return bytes.Compare(e.overlayKey(a), e.overlayKey(b))
	})
}

func (e *Env) overlayKey(i int) []byte { return e.effects.At(e.overlay.entries[i].ref).Key }
