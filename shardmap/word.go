package shardmap

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// The word layout serves bitwise keys and pointer-free values of at most a
// word each. Keys and values lie in the buckets themselves; a bucket is one
// cache line:
//
//	byte  0       8     16    24    32    40      48      56
//	     |header |link |key0 |key1 |key2 |value0 |value1 |value2 |
//
// Bit 8+i of the header is set when slot i is occupied; its high 32 bits are
// the version. Readers take no lock: they read the root's header, look for
// the key, read the value and read the header again. The version changes when
// a key is deleted; if it has not, what was read belongs together. A new value
// is a single store, and a new entry fills a slot that no header showed, so
// neither disturbs readers, and no reader ever waits for a writer.
type wordTable struct{ table }

const (
	occupiedShift = 8
	occupiedBit   = 1 << occupiedShift // of slot 0
	versionShift  = 32
	versionUnit   = 1 << versionShift
)

type wordBucket struct {
	header, link atomic.Uint64
	keys, values [wordSlots]atomic.Uint64
}

const (
	wordSlots       = 3
	wordBucketBytes = unsafe.Sizeof(wordBucket{})
)

func (t *wordTable) init(opts Options) {
	sizes := listDoublingSizes(maxSegmentBytes / int(wordBucketBytes))
	t.table.init(t, geometry{bucketBytes: wordBucketBytes, slots: wordSlots, sizes: sizes}, opts)
}

// isEqual is 1 if a == b, else 0; the compiler makes no branch of it.
func isEqual(a, b uint64) (one uint64) {
	if a == b {
		one = 1
	}
	return one
}

// hasVersion reports whether the version is still that of header.
func (b *wordBucket) hasVersion(header uint64) bool {
	return (b.header.Load()^header)>>versionShift == 0
}

// readRoot looks for key in its root. Which slot matches is anyone's guess, so it
// is computed without a branch: the processor then does not guess wrong, and
// goes on to the next lookup while this one waits for memory.
//
// The word of a deleted key stays in its slot, so that key may be in several;
// slot is then that of a free one, or 3, which is none. That rare case, an
// overflowing chain and a changed one are unclear and left to loadWordSlow.
// It calls nothing and so needs no frame: the fewer instructions a lookup
// takes, the more lookups the processor overlaps.
func (t *wordTable) readRoot(key uint64) (value uint64, found lookupResult) {
	hash := t.seeds.hashWord(key)
	seg := findSegment(t.shardOf(hash).loadDirectory(), hash)
	b := (*wordBucket)(seg.bucketAt(seg.rootIndex(hash), wordBucketBytes))
	header := b.header.Load()
	slot := isEqual(b.keys[1].Load(), key) + 2*isEqual(b.keys[2].Load(), key)
	if b.keyAt(slot).Load() == key {
		value = b.valueAt(slot).Load()
		if header&(occupiedBit<<slot) != 0 && b.hasVersion(header) {
			return value, resultPresent
		}
	} else if slot == 0 && b.link.Load() == 0 && b.hasVersion(header) {
		return 0, resultAbsent
	}
	return 0, resultUnclear
}

type lookupResult uint8

const (
	resultAbsent lookupResult = iota
	resultPresent
	resultUnclear
)

// loadWordSlow reads the whole chain, as often as it changes.
func (t *wordTable) loadWordSlow(key uint64) (value uint64, ok bool) {
	hash := t.seeds.hashWord(key)
	seg := findSegment(t.shardOf(hash).loadDirectory(), hash)
	root := (*wordBucket)(seg.bucketAt(seg.rootIndex(hash), wordBucketBytes))
	for {
		header := root.header.Load()
		value, ok = loadWordChain(seg, root, header, key)
		if root.hasVersion(header) {
			return value, ok
		}
	}
}

func loadWordChain(seg segment, b *wordBucket, header, key uint64) (value uint64, ok bool) {
	for {
		for slot := range uint64(wordSlots) {
			if header&(occupiedBit<<slot) != 0 && b.keyAt(slot).Load() == key {
				return b.valueAt(slot).Load(), true
			}
		}
		link := b.link.Load()
		if link == 0 {
			return 0, false
		}
		b = (*wordBucket)(seg.bucketAt(link, wordBucketBytes))
		header = b.header.Load()
	}
}

// storeWord sets the value of key. A key that is in its root, or may go there,
// is the common case; all else is left to storeWordSlow.
func (t *wordTable) storeWord(key, value uint64) {
	hash := t.seeds.hashWord(key)
	seg := findSegment(t.shardOf(hash).loadDirectory(), hash)
	root := (*wordBucket)(seg.bucketAt(seg.rootIndex(hash), wordBucketBytes))
	header := root.header.Load()
	if header&lockBit != 0 || !root.header.CompareAndSwap(header, header|lockBit) {
		t.storeWordSlow(t.lock(hash), key, value, hash)
		return
	}
	if root.tryUpdate(header, key, value) {
		return
	}
	free := freeWords(header)
	if free == 0 || root.link.Load() != 0 {
		t.storeWordSlow(chain{t.shardOf(hash), seg, unsafe.Pointer(root), header}, key, value, hash)
		return
	}
	slot := uint64(bits.TrailingZeros64(free))
	root.keyAt(slot).Store(key)
	root.valueAt(slot).Store(value)
	root.header.Store(header | occupiedBit<<slot)
	t.shardOf(hash).count.Add(1)
}

// tryUpdate sets the value of key, if the locked bucket b has it, and unlocks.
//
//go:noinline
func (b *wordBucket) tryUpdate(header, key, value uint64) bool {
	m := isEqual(b.keys[0].Load(), key) | isEqual(b.keys[1].Load(), key)<<1 | isEqual(b.keys[2].Load(), key)<<2
	if m &= header >> occupiedShift; m == 0 {
		return false
	}
	b.valueAt(m >> 1).Store(value) // the sets {0}, {1}, {2} are 1, 2, 4
	b.header.Store(header)
	return true
}

// storeWordSlow is storeWord once the chain of key is locked.
func (t *wordTable) storeWordSlow(locked chain, key, value, hash uint64) {
	c := wordCursor{chain: locked}
	for !t.findOrReserve(&c, key, hash, true) {
		c = wordCursor{chain: t.lock(hash)}
	}
	c.put(key, value)
}

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
	for !t.findOrReserve(&c, key, hash, reserve) {
		c = wordCursor{chain: t.lock(hash)}
	}
	return c
}

// findOrReserve fills in where key is or may go. If there is no room it makes some,
// which needs the lock to be given up, and answers false.
func (t *wordTable) findOrReserve(c *wordCursor, key, hash uint64, reserve bool) bool {
	last := c.findInChain(key)
	if c.bucket != nil || !reserve {
		return true
	}
	if n := c.seg.takeSpare(wordBucketBytes); n != 0 {
		last.link.Store(n)
		c.bucket, c.slot = (*wordBucket)(c.seg.bucketAt(n, wordBucketBytes)), 0
		return true
	}
	c.unlock()
	t.growSegment(c.shard, c.seg, hash)
	return false
}

// findInChain fills in the place of key, or else the first free one, and returns
// the last bucket of the chain.
func (c *wordCursor) findInChain(key uint64) (last *wordBucket) {
	for b, header := (*wordBucket)(c.root), c.header; ; {
		for slot := range uint64(wordSlots) {
			if header&(occupiedBit<<slot) != 0 && b.keyAt(slot).Load() == key {
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
		b = (*wordBucket)(c.seg.bucketAt(link, wordBucketBytes))
		header = b.header.Load()
	}
}

// put updates or inserts at the cursor and unlocks.
func (c *wordCursor) put(key, value uint64) {
	if c.found {
		c.bucket.valueAt(c.slot).Store(value)
		c.unlock()
		return
	}
	c.bucket.keyAt(c.slot).Store(key)
	c.bucket.valueAt(c.slot).Store(value)
	c.setOccupied(occupiedBit << c.slot)
	c.unlock()
	c.shard.count.Add(1)
}

// removeEntry frees the cursor's slot and unlocks. The version changes in the same
// store that lets the next insert reuse the slot.
func (t *wordTable) removeEntry(c *wordCursor) {
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

// keyAt returns where a slot has its key.
func (b *wordBucket) keyAt(slot uint64) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Add(unsafe.Pointer(&b.keys), slot*wordBytes))
}

// valueAt returns where a slot has its value.
func (b *wordBucket) valueAt(slot uint64) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Add(unsafe.Pointer(&b.values), slot*wordBytes))
}

// wordMap gives a wordTable its types back.
type wordMap[K comparable, V any] struct{ wordTable }

func (t *wordMap[K, V]) swapValue(key K, value V) (previous V, loaded bool) {
	c := t.seek(toWord(&key), true)
	previous, loaded = t.currentValue(&c)
	c.put(toWord(&key), toWord(&value))
	return previous, loaded
}

// currentValue returns the value at the cursor, if there is one.
func (t *wordMap[K, V]) currentValue(c *wordCursor) (value V, ok bool) {
	if c.found {
		return decodeWord[V](c.bucket.valueAt(c.slot).Load()), true
	}
	return value, false
}

func (t *wordMap[K, V]) loadOrStore(key K, value V) (actual V, loaded bool) {
	c := t.seek(toWord(&key), true)
	if actual, loaded = t.currentValue(&c); loaded {
		c.unlock()
		return actual, true
	}
	c.put(toWord(&key), toWord(&value))
	return value, false
}

func (t *wordMap[K, V]) loadAndDelete(key K) (value V, loaded bool) {
	c := t.seek(toWord(&key), false)
	if value, loaded = t.currentValue(&c); !loaded {
		c.unlock()
		return value, false
	}
	t.wordTable.removeEntry(&c)
	return value, true
}

func (t *wordMap[K, V]) computeEntry(key K, update func(V, bool) (V, Op)) (actual V, ok bool) {
	c := t.seek(toWord(&key), true)
	decided := false
	defer func() {
		if !decided { // update panicked
			c.unlock()
		}
	}()
	actual, ok = t.currentValue(&c)
	value, op := update(actual, ok)
	if op > Delete {
		panic(unknownOpText(op))
	}
	decided = true
	switch {
	case op == Update:
		c.put(toWord(&key), toWord(&value))
		return value, true
	case op == Delete && ok:
		t.wordTable.removeEntry(&c)
		var none V
		return none, false
	default:
		c.unlock()
		return actual, ok
	}
}

// newSegment allocates the buckets as bare words, which the garbage collector
// neither scans nor gives a header.
func (t *wordTable) newSegment(size segmentSize) segment {
	return newSegment(newAlignedWords(size.totalBuckets()*int(wordBucketBytes)/wordBytes), size)
}

// newAlignedWords returns n zeroed words that start at a cache line. Objects of
// our sizes do anyway; should an allocator disagree, a line is wasted.
func newAlignedWords(n int) unsafe.Pointer {
	p := unsafe.Pointer(unsafe.SliceData(make([]uint64, n)))
	if uintptr(p)%cacheLine == 0 {
		return p
	}
	p = unsafe.Pointer(unsafe.SliceData(make([]uint64, n+cacheLine/wordBytes)))
	return unsafe.Add(p, -uintptr(p)%cacheLine)
}

func (t *wordTable) countChain(seg segment, i uint64) int {
	n := 0
	for b := (*wordBucket)(seg.bucketAt(i, wordBucketBytes)); ; {
		n += wordSlots - bits.OnesCount64(freeWords(b.header.Load()))
		link := b.link.Load()
		if link == 0 {
			return n
		}
		b = (*wordBucket)(seg.bucketAt(link, wordBucketBytes))
	}
}

func (t *wordTable) copyChain(seg segment, i uint64, to []segment, bit uint) bool {
	for b := (*wordBucket)(seg.bucketAt(i, wordBucketBytes)); ; {
		header := b.header.Load()
		for slot := range uint64(wordSlots) {
			if header&(occupiedBit<<slot) == 0 {
				continue
			}
			key := b.keyAt(slot).Load()
			hash := t.seeds.hashWord(key)
			dst := to[0]
			if len(to) > 1 {
				dst = to[hash>>bit&1]
			}
			if !appendWord(dst, hash, key, b.valueAt(slot).Load()) {
				return false
			}
		}
		link := b.link.Load()
		if link == 0 {
			return true
		}
		b = (*wordBucket)(seg.bucketAt(link, wordBucketBytes))
	}
}

// plainWordBucket is a wordBucket that no other goroutine sees yet.
type plainWordBucket struct {
	header, link uint64
	keys, values [wordSlots]uint64
}

// appendWord adds an entry, known to be absent, to an unpublished segment.
func appendWord(seg segment, hash, key, value uint64) bool {
	b := (*plainWordBucket)(seg.bucketAt(seg.rootIndex(hash), wordBucketBytes))
	for freeWords(b.header) == 0 {
		if b.link == 0 {
			if b.link = seg.takeSpare(wordBucketBytes); b.link == 0 {
				return false
			}
		}
		b = (*plainWordBucket)(seg.bucketAt(b.link, wordBucketBytes))
	}
	slot := bits.TrailingZeros64(freeWords(b.header))
	b.keys[slot%wordSlots], b.values[slot%wordSlots] = key, value
	b.header |= occupiedBit << slot
	return true
}
