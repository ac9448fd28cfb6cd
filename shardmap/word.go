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
const (
	wordSlots       = 3
	wordValueAt     = keyAt + wordSlots
	wordBucketBytes = (wordValueAt + wordSlots) * wordBytes
)

// wordMatches returns the set of occupied slots that hold key.
func wordMatches(b unsafe.Pointer, header, key uint64) uint64 {
	m := isEqual(atomic.LoadUint64(word(b, keyAt)), key)
	m |= isEqual(atomic.LoadUint64(word(b, keyAt+1)), key) << 1
	m |= isEqual(atomic.LoadUint64(word(b, keyAt+2)), key) << 2
	return m & (header >> occupiedShift)
}

// isEqual is 1 if a == b, else 0; the compiler makes no branch of it.
func isEqual(a, b uint64) (one uint64) {
	if a == b {
		one = 1
	}
	return one
}

func wordValue(b unsafe.Pointer, matches uint64) *uint64 {
	return word(b, wordValueAt+uintptr(bits.TrailingZeros64(matches)))
}

// loadWord returns the value of key and whether there is one.
func (t *inlineTable) loadWord(key uint64) (value uint64, ok bool) {
	hash := t.seeds.hashWord(key)
	seg := lookup(t.shard(hash).directory(), hash)
	root := seg.at(seg.root(hash), wordBucketBytes)
	for {
		header := atomic.LoadUint64(word(root, headerWord))
		if m := wordMatches(root, header, key); m != 0 {
			value, ok = atomic.LoadUint64(wordValue(root, m)), true
		} else if link := atomic.LoadUint64(word(root, linkWord)); link != 0 {
			value, ok = loadWordChain(seg, link, key)
		}
		if (atomic.LoadUint64(word(root, headerWord))^header)&versionMask == 0 {
			return value, ok
		}
		value, ok = 0, false
	}
}

// loadWordChain is loadWord for the chain from overflow bucket link on.
func loadWordChain(seg segment, link, key uint64) (value uint64, ok bool) {
	for link != 0 {
		b := seg.at(link, wordBucketBytes)
		header := atomic.LoadUint64(word(b, headerWord))
		if m := wordMatches(b, header, key); m != 0 {
			return atomic.LoadUint64(wordValue(b, m)), true
		}
		link = atomic.LoadUint64(word(b, linkWord))
	}
	return 0, false
}

// storeWord sets the value of key. Anything but an entry, or room for it, in
// the root goes the general way.
func (t *inlineTable) storeWord(key, value uint64) {
	hash := t.seeds.hashWord(key)
	for {
		c := inlineCursor{chain: t.lock(hash)}
		if m := wordMatches(c.root, c.header, key); m != 0 {
			atomic.StoreUint64(wordValue(c.root, m), value)
			c.unlock()
			return
		}
		if t.place(&c, unsafe.Pointer(&key), hash, true) {
			t.put(&c, unsafe.Pointer(&key), unsafe.Pointer(&value))
			return
		}
	}
}
