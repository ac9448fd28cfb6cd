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
	sizes := doubling(maxSegmentBytes / int(wordBucketBytes))
	t.table.init(t, geometry{bucketBytes: wordBucketBytes, slots: wordSlots, sizes: sizes}, opts)
}

// isEqual is 1 if a == b, else 0; the compiler makes no branch of it.
func isEqual(a, b uint64) (one uint64) {
	if a == b {
		one = 1
	}
	return one
}

// hasVersion tells whether the version is still that of header.
func (b *wordBucket) hasVersion(header uint64) bool {
	return (b.header.Load()^header)>>versionShift == 0
}

// read looks for key in its root. Which slot matches is anyone's guess, so it
// is computed without a branch: the processor then does not guess wrong, and
// goes on to the next lookup while this one waits for memory.
//
// The word of a deleted key stays in its slot, so that key may be in several;
// slot is then that of a free one, or 3, which is none. That rare case, an
// overflowing chain and a changed one are unclear and left to loadWordSlow.
// It calls nothing and so needs no frame: the fewer instructions a lookup
// takes, the more lookups the processor overlaps.
func (t *wordTable) read(key uint64) (value uint64, found answer) {
	hash := t.seeds.hashWord(key)
	seg := lookup(t.shard(hash).directory(), hash)
	b := (*wordBucket)(seg.at(seg.root(hash), wordBucketBytes))
	header := b.header.Load()
	slot := isEqual(b.keys[1].Load(), key) + 2*isEqual(b.keys[2].Load(), key)
	if b.key(slot).Load() == key {
		value = b.value(slot).Load()
		if header&(occupiedBit<<slot) != 0 && b.hasVersion(header) {
			return value, present
		}
	} else if slot == 0 && b.link.Load() == 0 && b.hasVersion(header) {
		return 0, absent
	}
	return 0, unclear
}

type answer uint8

const (
	absent answer = iota
	present
	unclear
)

// loadWordSlow reads the whole chain, as often as it changes.
func (t *wordTable) loadWordSlow(key uint64) (value uint64, ok bool) {
	hash := t.seeds.hashWord(key)
	seg := lookup(t.shard(hash).directory(), hash)
	root := (*wordBucket)(seg.at(seg.root(hash), wordBucketBytes))
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
			if header&(occupiedBit<<slot) != 0 && b.key(slot).Load() == key {
				return b.value(slot).Load(), true
			}
		}
		link := b.link.Load()
		if link == 0 {
			return 0, false
		}
		b = (*wordBucket)(seg.at(link, wordBucketBytes))
		header = b.header.Load()
	}
}

// storeWord sets the value of key. A key that is in its root, or may go there,
// is the common case; all else is left to storeWordSlow.
func (t *wordTable) storeWord(key, value uint64) {
	hash := t.seeds.hashWord(key)
	seg := lookup(t.shard(hash).directory(), hash)
	root := (*wordBucket)(seg.at(seg.root(hash), wordBucketBytes))
	header := root.header.Load()
	if header&lockBit != 0 || !root.header.CompareAndSwap(header, header|lockBit) {
		t.storeWordSlow(t.lock(hash), key, value, hash)
		return
	}
	if root.write(header, key, value) {
		return
	}
	free := freeWords(header)
	if free == 0 || root.link.Load() != 0 {
		t.storeWordSlow(chain{t.shard(hash), seg, unsafe.Pointer(root), header}, key, value, hash)
		return
	}
	slot := uint64(bits.TrailingZeros64(free))
	root.key(slot).Store(key)
	root.value(slot).Store(value)
	root.header.Store(header | occupiedBit<<slot)
	t.shard(hash).count.Add(1)
}

// write sets the value of key, if the locked bucket b has it, and unlocks.
//
//go:noinline
func (b *wordBucket) write(header, key, value uint64) bool {
	m := isEqual(b.keys[0].Load(), key) | isEqual(b.keys[1].Load(), key)<<1 | isEqual(b.keys[2].Load(), key)<<2
	if m &= header >> occupiedShift; m == 0 {
		return false
	}
	b.value(m >> 1).Store(value) // the sets {0}, {1}, {2} are 1, 2, 4
	b.header.Store(header)
	return true
}

// storeWordSlow is storeWord once the chain of key is locked.
func (t *wordTable) storeWordSlow(locked chain, key, value, hash uint64) {
	c := wordCursor{chain: locked}
	for !t.place(&c, key, hash, true) {
		c = wordCursor{chain: t.lock(hash)}
	}
	c.put(key, value)
}
