package shardmap

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// wordCursor is a locked chain and the place of one key in it.
type wordCursor struct {
	chain
	bucket *wordBucket // of the key, or of the free slot for it; nil for neither
	slot   uint64
	found  bool
}

// seek locks the chain of key and finds its slot, or a free one if reserve.
func (t *wordTable) seek(key uint64, reserve bool) wordCursor {
	hash := t.seeds.hashWord(key)
	c := wordCursor{chain: t.lock(hash)}
	for !t.place(&c, key, hash, reserve) {
		c = wordCursor{chain: t.lock(hash)}
	}
	return c
}

// place fills in where key is or may go. If there is no room it makes some,
// which needs the lock to be given up, and answers false.
func (t *wordTable) place(c *wordCursor, key, hash uint64, reserve bool) bool {
	last := c.find(key)
	if c.bucket != nil || !reserve {
		return true
	}
	if n := c.seg.takeSpare(wordBucketBytes); n != 0 {
		last.link.Store(n)
		c.bucket, c.slot = (*wordBucket)(c.seg.at(n, wordBucketBytes)), 0
		return true
	}
	c.unlock()
	t.grow(c.shard, c.seg, hash)
	return false
}

// find fills in the place of key, or else the first free one, and returns
// the last bucket of the chain.
func (c *wordCursor) find(key uint64) (last *wordBucket) {
	for b, header := (*wordBucket)(c.root), c.header; ; {
		for slot := range uint64(wordSlots) {
			if header&(occupiedBit<<slot) != 0 && b.key(slot).Load() == key {
				c.bucket, c.slot, c.found = b, slot, true
				return b
			}
		}
		if free := freeWords(header); free != 0 && c.bucket == nil {
			c.bucket, c.slot = b, uint64(bits.TrailingZeros64(free))
		}
		link := b.link.Load()
		if link == 0 {
			return b
		}
		b = (*wordBucket)(c.seg.at(link, wordBucketBytes))
		header = b.header.Load()
	}
}

// put updates or inserts at the cursor and unlocks.
func (c *wordCursor) put(key, value uint64) {
	if c.found {
		c.bucket.value(c.slot).Store(value)
		c.unlock()
		return
	}
	c.bucket.key(c.slot).Store(key)
	c.bucket.value(c.slot).Store(value)
	c.setOccupied(occupiedBit << c.slot)
	c.unlock()
	c.shard.count.Add(1)
}

// remove frees the cursor's slot and unlocks. The version changes in the same
// store that lets the next insert reuse the slot.
func (t *wordTable) remove(c *wordCursor) {
	c.setOccupied(0)
	c.header += versionUnit
	c.unlock()
	t.afterDelete(c.shard)
}

// setOccupied sets the cursor's bit to that of bits; for the root it is
// published by unlock.
func (c *wordCursor) setOccupied(bits uint64) {
	mask := uint64(occupiedBit) << c.slot
	if unsafe.Pointer(c.bucket) == c.root {
		c.header = c.header&^mask | bits
		return
	}
	h := &c.bucket.header
	h.Store(h.Load()&^mask | bits)
}

// freeWords returns the set of free slots.
func freeWords(header uint64) uint64 { return ^header >> occupiedShift & (1<<wordSlots - 1) }

// key returns where a slot has its key.
func (b *wordBucket) key(slot uint64) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Add(unsafe.Pointer(&b.keys), slot*wordBytes))
}

// value returns where a slot has its value.
func (b *wordBucket) value(slot uint64) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Add(unsafe.Pointer(&b.values), slot*wordBytes))
}
