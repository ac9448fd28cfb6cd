package shardmap

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// inlineCursor is a locked chain and the place of one key in it.
type inlineCursor struct {
	chain
	bucket unsafe.Pointer // of the key, or of the free slot for it
	slot   uintptr
	found  bool
}

// seek locks the chain of key and finds its slot, or a free one if reserve.
func (t *inlineTable) seek(key unsafe.Pointer, reserve bool) inlineCursor {
	hash := t.seeds.hashWords(key, t.keyWords)
	for {
		c := inlineCursor{chain: t.lock(hash)}
		if t.place(&c, key, hash, reserve) {
			return c
		}
	}
}

// place fills in where key is or may go. If there is no room it makes some,
// which needs the lock to be given up, and answers false.
func (t *inlineTable) place(c *inlineCursor, key unsafe.Pointer, hash uint64, reserve bool) bool {
	last := t.find(c, key)
	if c.found || c.bucket != nil || !reserve {
		return true
	}
	if n := c.seg.takeSpare(t.bucketBytes); n != 0 {
		atomic.StoreUint64(word(last, linkWord), n)
		c.bucket, c.slot = c.seg.at(n, t.bucketBytes), 0
		return true
	}
	c.unlock()
	t.grow(c.shard, c.seg, hash)
	return false
}

// find fills in the place of key, or else the first free one, and returns
// the last bucket of the chain.
func (t *inlineTable) find(c *inlineCursor, key unsafe.Pointer) (last unsafe.Pointer) {
	for b, header := c.root, c.header; ; {
		if slot := t.slotOf(b, header, key); slot >= 0 {
			c.bucket, c.slot, c.found = b, uintptr(slot), true
			return b
		}
		if free := bits.TrailingZeros64(^t.occupied(header)); free < t.slots && c.bucket == nil {
			c.bucket, c.slot = b, uintptr(free)
		}
		link := atomic.LoadUint64(word(b, linkWord))
		if link == 0 {
			return b
		}
		b = c.seg.at(link, t.bucketBytes)
		header = atomic.LoadUint64(word(b, headerWord))
	}
}

// read copies the value at the cursor, which must have found its key.
func (t *inlineTable) read(c *inlineCursor, value unsafe.Pointer) {
	from := t.valueAt + c.slot*t.valueWords
	for i := range t.valueWords {
		*word(value, i) = atomic.LoadUint64(word(c.bucket, from+i))
	}
}

// write stores words into the cursor's bucket.
func (c *inlineCursor) write(at, n uintptr, words unsafe.Pointer) {
	for i := range n {
		atomic.StoreUint64(word(c.bucket, at+i), *word(words, i))
	}
}

// update overwrites the value at the cursor and unlocks. Readers are warned
// off values that take more than one store.
func (t *inlineTable) update(c *inlineCursor, value unsafe.Pointer) {
	if t.valueWords > 1 {
		atomic.StoreUint64(word(c.root, headerWord), c.header|lockBit|dirtyBit)
		c.header += versionUnit
	}
	c.write(t.valueAt+c.slot*t.valueWords, t.valueWords, value)
	c.unlock()
}

// insert fills the cursor's free slot, shows it to readers and unlocks.
func (t *inlineTable) insert(c *inlineCursor, key, value unsafe.Pointer) {
	c.write(keyAt+c.slot*t.keyWords, t.keyWords, key)
	c.write(t.valueAt+c.slot*t.valueWords, t.valueWords, value)
	c.setOccupied(occupiedBit<<c.slot, occupiedBit<<c.slot)
	c.unlock()
	c.shard.count.Add(1)
}

// remove frees the cursor's slot and unlocks. The version changes in the same
// store that lets the next insert reuse the slot.
func (t *inlineTable) remove(c *inlineCursor) {
	c.setOccupied(occupiedBit<<c.slot, 0)
	c.header += versionUnit
	c.unlock()
	t.afterDelete(c.shard)
}

// setOccupied changes the bits of mask; for the root they are published by
// unlock.
func (c *inlineCursor) setOccupied(mask, value uint64) {
	if c.bucket == c.root {
		c.header = c.header&^mask | value
		return
	}
	p := word(c.bucket, headerWord)
	atomic.StoreUint64(p, atomic.LoadUint64(p)&^mask|value)
}
