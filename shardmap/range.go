package shardmap

import (
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"
)

// segmentSpan is a segment as iteration meets it: keys whose hash is below from were
// visited before, in a segment that has since been merged into this one.
type segmentSpan struct {
	seg    segment
	from   uint64
	filter bool // some keys of seg may hash below from
}

// visitSpans visits the hash space of every shard in order. A segment that
// splits while it is visited stays readable as it was; one that merged is
// visited from where the visitor had got to.
func (t *table) visitSpans(visit func(segmentSpan) bool) {
	for i := range t.shardCount() {
		s := t.shardAt(i)
		for at := uint64(0); ; {
			seg := findSegment(s.loadDirectory(), at)
			size := uint64(1) << (64 - seg.depth()) // 0 stands for 2^64
			start := at &^ (size - 1)
			if !visit(segmentSpan{seg: seg, from: at, filter: start < at}) {
				return
			}
			if at = start + size; at == 0 {
				break
			}
		}
	}
}

func (t *entryTable[K, V]) rangeEntries(yield func(K, V) bool) {
	var room [4 * entrySlots]unsafe.Pointer
	t.visitSpans(func(sp segmentSpan) bool {
		for i := range sp.seg.rootCount() {
			for _, p := range t.snapshotChain(sp.seg, i, room[:0]) {
				key := *(*K)(p)
				if sp.filter && t.hashKey(key) < sp.from {
					continue
				}
				if !yield(key, t.loadBox(p)) {
					return false
				}
			}
		}
		return true
	})
}

// snapshotChain appends the entries of the chain i to found. A key that was
// deleted and stored again while the chain was read could be met twice; the
// second meeting does not count.
func (t *entryTable[K, V]) snapshotChain(seg segment, i uint64, found []unsafe.Pointer) []unsafe.Pointer {
	for b := seg.bucketAt(i, entryBucketBytes); ; {
		header := atomic.LoadUint64(wordAt(b, headerWord))
		for used := ^freeSlots(header) & (tagBytes << 7); used != 0; used &= used - 1 {
			p := atomic.LoadPointer(entrySlot(b, uint(bits.TrailingZeros64(used))/8))
			if p != nil && !holdsKey[K](found, p) {
				found = append(found, p)
			}
		}
		link := atomic.LoadUint64(wordAt(b, linkWord))
		if link == 0 {
			return found
		}
		b = seg.bucketAt(link, entryBucketBytes)
	}
}

// holdsKey reports whether one of found has the key of p.
func holdsKey[K comparable](found []unsafe.Pointer, p unsafe.Pointer) bool {
	for _, q := range found {
		if *(*K)(q) == *(*K)(p) {
			return true
		}
	}
	return false
}

func (t *wordMap[K, V]) rangeEntries(yield func(K, V) bool) {
	room := make([]wordEntry, 0, rangeBatch+wordSlots)
	t.visitSpans(func(sp segmentSpan) bool {
		for i := uint64(0); i < sp.seg.rootCount(); {
			i, room = snapshotWords(sp.seg, i, room[:0])
			for _, e := range room {
				if sp.filter && t.seeds.hashWord(e.key) < sp.from {
					continue
				}
				if !yield(decodeWord[K](e.key), decodeWord[V](e.value)) {
					return false
				}
			}
		}
		return true
	})
}

// rangeBatch is how many entries Range copies, or a few more, before it
// yields them. How many entries a chain has is anyone's guess, and a loop that
// ends by chance costs more than its body.
const rangeBatch = 64

type wordEntry struct{ key, value uint64 }

// snapshotWords appends copies of the entries of the chains from i on to
// found, each chain as of one moment, until it has enough. It returns the next
// chain.
func snapshotWords(seg segment, i uint64, found []wordEntry) (uint64, []wordEntry) {
	for ; i < seg.rootCount() && len(found) < rangeBatch; i++ {
		found = slices.Grow(found, wordSlots)
		n := len(found)
		root := (*wordBucket)(seg.bucketAt(i, wordBucketBytes))
		if got, ok := root.copyTo((*[wordSlots]wordEntry)(found[n : n+wordSlots])); ok {
			found = found[:n+got]
			continue
		}
		for header := root.header.Load(); ; header = root.header.Load() {
			if got := copyWords(seg, root, header, found); root.hasVersion(header) {
				found = got
				break
			}
		}
	}
	return i, found
}

// copyTo copies the entries of a chain of one bucket and counts them. It
// copies every slot and keeps those that are occupied, which needs no branch.
// It answers false if there are more buckets or the chain has changed.
func (b *wordBucket) copyTo(to *[wordSlots]wordEntry) (n int, ok bool) {
	header := b.header.Load()
	occupied := header >> occupiedShift
	first, second, third := occupied&1, occupied>>1&1, occupied>>2&1
	to[0] = wordEntry{b.keys[0].Load(), b.values[0].Load()}
	to[first] = wordEntry{b.keys[1].Load(), b.values[1].Load()}
	to[first+second] = wordEntry{b.keys[2].Load(), b.values[2].Load()}
	return int(first + second + third), b.link.Load() == 0 && b.hasVersion(header)
}

func copyWords(seg segment, b *wordBucket, header uint64, found []wordEntry) []wordEntry {
	for {
		for slot := range uint64(wordSlots) {
			if header&(occupiedBit<<slot) != 0 {
				found = append(found, wordEntry{b.keyAt(slot).Load(), b.valueAt(slot).Load()})
			}
		}
		link := b.link.Load()
		if link == 0 {
			return found
		}
		b = (*wordBucket)(seg.bucketAt(link, wordBucketBytes))
		header = b.header.Load()
	}
}
