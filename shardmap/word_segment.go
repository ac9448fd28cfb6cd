package shardmap

import (
	"math/bits"
	"unsafe"
)

// newSegment allocates the buckets as bare words, which the garbage collector
// neither scans nor gives a header.
func (t *wordTable) newSegment(size segmentSize) segment {
	return newSegment(alignedWords(size.total()*int(wordBucketBytes)/wordBytes), size)
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

func (t *wordTable) entries(seg segment, i uint64) int {
	n := 0
	for b := (*wordBucket)(seg.at(i, wordBucketBytes)); ; {
		n += wordSlots - bits.OnesCount64(freeWords(b.header.Load()))
		link := b.link.Load()
		if link == 0 {
			return n
		}
		b = (*wordBucket)(seg.at(link, wordBucketBytes))
	}
}

func (t *wordTable) transfer(seg segment, i uint64, to []segment, bit uint) bool {
	for b := (*wordBucket)(seg.at(i, wordBucketBytes)); ; {
		header := b.header.Load()
		for slot := range uint64(wordSlots) {
			if header&(occupiedBit<<slot) == 0 {
				continue
			}
			key := b.key(slot).Load()
			hash := t.seeds.hashWord(key)
			dst := to[0]
			if len(to) > 1 {
				dst = to[hash>>bit&1]
			}
			if !appendWord(dst, hash, key, b.value(slot).Load()) {
				return false
			}
		}
		link := b.link.Load()
		if link == 0 {
			return true
		}
		b = (*wordBucket)(seg.at(link, wordBucketBytes))
	}
}

// plainWordBucket is a wordBucket that nobody else sees yet.
type plainWordBucket struct {
	header, link uint64
	keys, values [wordSlots]uint64
}

// appendWord adds an entry, known to be absent, to an unpublished segment.
func appendWord(seg segment, hash, key, value uint64) bool {
	b := (*plainWordBucket)(seg.at(seg.root(hash), wordBucketBytes))
	for freeWords(b.header) == 0 {
		if b.link == 0 {
			if b.link = seg.takeSpare(wordBucketBytes); b.link == 0 {
				return false
			}
		}
		b = (*plainWordBucket)(seg.at(b.link, wordBucketBytes))
	}
	slot := bits.TrailingZeros64(freeWords(b.header))
	b.keys[slot%wordSlots], b.values[slot%wordSlots] = key, value
	b.header |= occupiedBit << slot
	return true
}
