package shardmap

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// The inline layout serves pointer-free types. Keys and values lie in the
// buckets themselves, as words:
//
//	word 0     header: flags, bit 8+i set when slot i is occupied, version
//	           in the high 32 bits
//	word 1     link
//	word 2 …   the keys of all slots, then the values of all slots
//
// Readers take no lock: they read the root's header, look for the key, copy
// the value and read the header again. The version changes when an occupied
// slot stops being what it was: when its key is deleted and, if values have
// several words, when its value is overwritten. If it has not changed, what
// was copied belongs together. A new value of one word is a single store and
// a new entry fills a slot that no header showed, so neither of those
// disturbs readers, and no reader waits for a writer but for one that
// overwrites a value of several words.
type inlineTable struct {
	table
	keyWords, valueWords uintptr
	valueAt              uintptr // the word of the first value
}

const (
	keyAt        = 2
	occupiedBit  = 1 << occupiedShift // of slot 0
	versionUnit  = 1 << versionShift
	versionMask  = ^uint64(versionUnit - 1)
	versionShift = 32

	occupiedShift = 8
)

func (t *inlineTable) init(keyWords, valueWords uintptr, opts Options) {
	t.keyWords, t.valueWords = keyWords, valueWords
	slots := inlineSlots(keyWords, valueWords)
	t.valueAt = keyAt + slots*keyWords
	if valueWords >= 4 {
		t.valueAt = lineWords(t.valueAt) // long values start on a line of their own
	}
	bytes := lineWords(t.valueAt+slots*valueWords) * wordBytes
	most := max(minMaxBuckets, maxSegmentBytes/int(bytes))
	t.table.init(t, geometry{bucketBytes: bytes, slots: int(slots), sizes: doubling(most)}, opts)
}

// inlineSlots returns how many entries share a bucket: as many as fill one
// line if those are three or more, else as many keys as fill lines.
func inlineSlots(keyWords, valueWords uintptr) uintptr {
	switch {
	case keyWords == 1 && valueWords == 1:
		return 3 // 2 + 3 + 3 words are one line
	case keyWords == 1:
		return 6
	case keyWords == 2 && valueWords != 1, keyWords == 4:
		return 3
	default:
		return 4
	}
}

// lineWords rounds a number of words up to full cache lines.
func lineWords(n uintptr) uintptr {
	const perLine = cacheLine / wordBytes
	return (n + perLine - 1) / perLine * perLine
}

// load copies the value of key to value and tells whether there is one. Key
// and value are as many words as the table has for them.
func (t *inlineTable) load(key, value unsafe.Pointer) bool {
	hash := t.seeds.hashWords(key, t.keyWords)
	seg := lookup(t.shard(hash).directory(), hash)
	root := seg.at(seg.root(hash), t.bucketBytes)
	for try := 0; ; try++ {
		header := atomic.LoadUint64(word(root, headerWord))
		if header&dirtyBit == 0 {
			found := t.copyValue(seg, root, header, key, value)
			if unchanged(root, header) {
				return found
			}
		}
		pause(try)
	}
}

// unchanged tells whether all that was read from the chain since its root
// had the given header belongs together.
func unchanged(root unsafe.Pointer, header uint64) bool {
	return (atomic.LoadUint64(word(root, headerWord))^header)&(versionMask|dirtyBit) == 0
}

// copyValue looks for key along the chain and copies its value.
func (t *inlineTable) copyValue(seg segment, b unsafe.Pointer, header uint64, key, value unsafe.Pointer) bool {
	for {
		if slot := t.slotOf(b, header, key); slot >= 0 {
			from := t.valueAt + uintptr(slot)*t.valueWords
			for i := range t.valueWords {
				*word(value, i) = atomic.LoadUint64(word(b, from+i))
			}
			return true
		}
		link := atomic.LoadUint64(word(b, linkWord))
		if link == 0 {
			return false
		}
		b = seg.at(link, t.bucketBytes)
		header = atomic.LoadUint64(word(b, headerWord))
	}
}

// slotOf returns the slot of key in the bucket, -1 if it has none.
func (t *inlineTable) slotOf(b unsafe.Pointer, header uint64, key unsafe.Pointer) int {
	first := *word(key, 0)
	for used := t.occupied(header); used != 0; used &= used - 1 {
		slot := bits.TrailingZeros64(used)
		at := keyAt + uintptr(slot)*t.keyWords
		if atomic.LoadUint64(word(b, at)) == first && t.sameTail(b, at, key) {
			return slot
		}
	}
	return -1
}

// sameTail compares the words of a key after the first.
func (t *inlineTable) sameTail(b unsafe.Pointer, at uintptr, key unsafe.Pointer) bool {
	for i := uintptr(1); i < t.keyWords; i++ {
		if atomic.LoadUint64(word(b, at+i)) != *word(key, i) {
			return false
		}
	}
	return true
}

// occupied returns the set of occupied slots.
func (t *inlineTable) occupied(header uint64) uint64 {
	return header >> occupiedShift & (1<<t.slots - 1)
}
