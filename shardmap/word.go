package shardmap

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// The common case, a key and a value of one word each, does what inlineTable
// does with all numbers known. Its bucket is one cache line:
//
//	byte  0       8     16    24    32    40      48      56
//	     |header |link |key0 |key1 |key2 |value0 |value1 |value2 |
//
// All three keys are compared without a branch. The processor then does not
// have to guess which slot matches, and goes on to the next lookup while this
// one waits for memory.
type wordBucket struct {
	header, link atomic.Uint64
	keys, values [wordSlots]atomic.Uint64
}

const (
	wordSlots       = 3
	wordBucketBytes = unsafe.Sizeof(wordBucket{})
)

// isEqual is 1 if a == b, else 0; the compiler makes no branch of it.
func isEqual(a, b uint64) (one uint64) {
	if a == b {
		one = 1
	}
	return one
}

func (b *wordBucket) key(slot uint64) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Add(unsafe.Pointer(&b.keys), slot*wordBytes))
}

func (b *wordBucket) value(slot uint64) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Add(unsafe.Pointer(&b.values), slot*wordBytes))
}

// hasVersion tells whether the version is still that of header.
func (b *wordBucket) hasVersion(header uint64) bool {
	return (b.header.Load()^header)>>versionShift == 0
}

// read looks for key in the bucket b. The word of a deleted key stays in its
// slot, so that key may be in several; slot is then that of a free one, or 3,
// which is none. That rare case, an overflowing chain and a changed one are
// unclear and left to loadWordSlow.
// It is kept out of line because the compiler then holds b in a register and
// not as a sum, which it would compute anew for each word.
//
//go:noinline
func (b *wordBucket) read(key uint64) (value uint64, found answer) {
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

// loadWord returns the value of key and whether there is one.
func (t *inlineTable) loadWord(key uint64) (value uint64, ok bool) {
	hash := t.seeds.hashWord(key)
	seg := lookup(t.shard(hash).directory(), hash)
	root := (*wordBucket)(seg.at(seg.root(hash), wordBucketBytes))
	value, found := root.read(key)
	if found == unclear {
		return loadWordSlow(seg, root, key)
	}
	return value, found == present
}

// loadWordSlow reads the whole chain, as often as it changes.
func loadWordSlow(seg segment, root *wordBucket, key uint64) (value uint64, ok bool) {
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
func (t *inlineTable) storeWord(key, value uint64) {
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
	free := ^header >> occupiedShift & (1<<wordSlots - 1)
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
func (t *inlineTable) storeWordSlow(locked chain, key, value, hash uint64) {
	c := inlineCursor{chain: locked}
	for !t.place(&c, unsafe.Pointer(&key), hash, true) {
		c = inlineCursor{chain: t.lock(hash)}
	}
	t.put(&c, unsafe.Pointer(&key), unsafe.Pointer(&value))
}
