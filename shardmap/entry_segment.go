package shardmap

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// Segments of the entry layout contain pointers, and to such objects between
// 512 bytes and 32 KiB the allocator adds a header of 8 bytes, which would
// put every bucket across two cache lines. The types below fill the header up
// to a line; their totals are one less than a power of two so that header,
// padding and buckets fill a size class. From 32 KiB on there is no header.
type (
	paddedBuckets[A any] struct {
		_       [cacheLine - wordBytes]byte
		buckets A
	}
	buckets15  = [15]entryBucket
	buckets31  = [31]entryBucket
	buckets63  = [63]entryBucket
	buckets127 = [127]entryBucket
	buckets255 = [255]entryBucket
)

func entrySizes() []segmentSize {
	sizes := []segmentSize{sizeOf(firstBuckets), sizeOf(2 * firstBuckets)}
	for _, total := range []int{15, 31, 63, 127, 255, 512} {
		sizes = append(sizes, sizeOf(total))
	}
	return sizes
}

// newEntryBuckets allocates n buckets, aligned to cache lines for every size
// of entrySizes. Any other size works as well, only slower.
func newEntryBuckets(n int) unsafe.Pointer {
	switch n {
	case 15:
		return unsafe.Pointer(&new(paddedBuckets[buckets15]).buckets)
	case 31:
		return unsafe.Pointer(&new(paddedBuckets[buckets31]).buckets)
	case 63:
		return unsafe.Pointer(&new(paddedBuckets[buckets63]).buckets)
	case 127:
		return unsafe.Pointer(&new(paddedBuckets[buckets127]).buckets)
	case 255:
		return unsafe.Pointer(&new(paddedBuckets[buckets255]).buckets)
	default:
		return unsafe.Pointer(unsafe.SliceData(make([]entryBucket, n)))
	}
}

func (t *entryTable[K, V]) newSegment(size segmentSize) segment {
	return newSegment(newEntryBuckets(size.total()), size)
}

func (t *entryTable[K, V]) entries(seg segment, i uint64) int {
	n := 0
	for b := seg.at(i, entryBucketBytes); ; {
		header := atomic.LoadUint64(word(b, headerWord))
		n += entrySlots - bits.OnesCount64(freeSlots(header))
		link := atomic.LoadUint64(word(b, linkWord))
		if link == 0 {
			return n
		}
		b = seg.at(link, entryBucketBytes)
	}
}

// freeSlots marks, in bit 7 of its byte, every slot without a tag; unlike
// matchTag it is exact.
func freeSlots(header uint64) uint64 {
	const low7 = tagBytes * 0x7f
	return ^(header&low7 + low7 | header | low7) & (tagBytes << 7)
}

func (t *entryTable[K, V]) transfer(seg segment, i uint64, to []segment, bit uint) bool {
	for b := seg.at(i, entryBucketBytes); ; {
		for slot := uint(1); slot <= entrySlots; slot++ {
			p := atomic.LoadPointer(entrySlot(b, slot))
			if p == nil {
				continue
			}
			hash := t.hash(*(*K)(p))
			dst := to[0]
			if len(to) > 1 {
				dst = to[hash>>bit&1]
			}
			if !appendEntry(dst, hash, p) {
				return false
			}
		}
		link := atomic.LoadUint64(word(b, linkWord))
		if link == 0 {
			return true
		}
		b = seg.at(link, entryBucketBytes)
	}
}

// appendEntry adds an entry, known to be absent, to an unpublished segment.
func appendEntry(seg segment, hash uint64, entry unsafe.Pointer) bool {
	b := (*entryBucket)(seg.at(seg.root(hash), entryBucketBytes))
	for freeSlots(b.header) == 0 {
		if b.link == 0 {
			if b.link = seg.takeSpare(entryBucketBytes); b.link == 0 {
				return false
			}
		}
		b = (*entryBucket)(seg.at(b.link, entryBucketBytes))
	}
	slot := bits.TrailingZeros64(freeSlots(b.header)) / 8
	b.header |= tagOf(hash) << (8 * slot)
	b.slots[slot-1] = entry
	return true
}
