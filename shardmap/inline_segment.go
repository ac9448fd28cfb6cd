package shardmap

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// newSegment allocates the buckets as bare words, which the garbage collector
// neither scans nor gives a header.
func (t *inlineTable) newSegment(size segmentSize) segment {
	return newSegment(alignedWords(size.total()*int(t.bucketBytes)/wordBytes), size)
}

// alignedWords returns n zeroed words that start at a cache line. Objects of
// our sizes do anyway; should an allocator disagree, a line is wasted.
func alignedWords(n int) unsafe.Pointer {
	p := unsafe.Pointer(unsafe.SliceData(make([]uint64, n)))
	if uintptr(p)%cacheLine == 0 {
		return p
	}
	p = unsafe.Pointer(unsafe.SliceData(make([]uint64, n+cacheLine/wordBytes)))
	return unsafe.Add(p, -uintptr(p)%cacheLine)
}

func (t *inlineTable) entries(seg segment, i uint64) int {
	n := 0
	for b := seg.at(i, t.bucketBytes); ; {
		n += bits.OnesCount64(t.occupied(atomic.LoadUint64(word(b, headerWord))))
		link := atomic.LoadUint64(word(b, linkWord))
		if link == 0 {
			return n
		}
		b = seg.at(link, t.bucketBytes)
	}
}

func (t *inlineTable) transfer(seg segment, i uint64, to []segment, bit uint) bool {
	for b := seg.at(i, t.bucketBytes); ; {
		used := t.occupied(atomic.LoadUint64(word(b, headerWord)))
		for ; used != 0; used &= used - 1 {
			slot := uintptr(bits.TrailingZeros64(used))
			hash := t.hashAt(b, slot)
			dst := to[0]
			if len(to) > 1 {
				dst = to[hash>>bit&1]
			}
			if !t.append(dst, hash, b, slot) {
				return false
			}
		}
		link := atomic.LoadUint64(word(b, linkWord))
		if link == 0 {
			return true
		}
		b = seg.at(link, t.bucketBytes)
	}
}

// hashAt hashes the key in a slot of a chain that is frozen.
func (t *inlineTable) hashAt(b unsafe.Pointer, slot uintptr) uint64 {
	var key [maxKeyWords]uint64
	for i := range t.keyWords {
		key[i] = atomic.LoadUint64(word(b, keyAt+slot*t.keyWords+i))
	}
	return t.seeds.hashWords(unsafe.Pointer(&key), t.keyWords)
}

// append copies an entry, known to be absent, into an unpublished segment.
func (t *inlineTable) append(seg segment, hash uint64, from unsafe.Pointer, slot uintptr) bool {
	b := seg.at(seg.root(hash), t.bucketBytes)
	for bits.OnesCount64(t.occupied(*word(b, headerWord))) == t.slots {
		link := word(b, linkWord)
		if *link == 0 {
			if *link = seg.takeSpare(t.bucketBytes); *link == 0 {
				return false
			}
		}
		b = seg.at(*link, t.bucketBytes)
	}
	free := uintptr(bits.TrailingZeros64(^t.occupied(*word(b, headerWord))))
	for i := range t.keyWords {
		*word(b, keyAt+free*t.keyWords+i) = atomic.LoadUint64(word(from, keyAt+slot*t.keyWords+i))
	}
	for i := range t.valueWords {
		*word(b, t.valueAt+free*t.valueWords+i) = atomic.LoadUint64(word(from, t.valueAt+slot*t.valueWords+i))
	}
	*word(b, headerWord) |= occupiedBit << free
	return true
}
