package shardmap

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// span is a segment as iteration meets it: keys whose hash is below from were
// visited before, in a segment that has since been merged into this one.
type span struct {
	seg    segment
	from   uint64
	filter bool // some keys of seg may hash below from
}

// eachSpan visits the hash space of every shard in order. A segment that
// splits while it is visited stays readable as it was; one that merged is
// visited from where the visitor had got to.
func (t *table) eachSpan(visit func(span) bool) {
	for i := range t.shardCount() {
		s := t.shardAt(i)
		for at := uint64(0); ; {
			seg := lookup(s.directory(), at)
			size := uint64(1) << (64 - seg.depth()) // 0 stands for 2^64
			start := at &^ (size - 1)
			if !visit(span{seg: seg, from: at, filter: start < at}) {
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
	t.eachSpan(func(sp span) bool {
		for i := range sp.seg.buckets() {
			for _, p := range t.snapshot(sp.seg, i, room[:0]) {
				key := *(*K)(p)
				if sp.filter && t.hash(key) < sp.from {
					continue
				}
				if !yield(key, t.unbox(p)) {
					return false
				}
			}
		}
		return true
	})
}

// snapshot appends the entries of the chain i to found. A key that was
// deleted and stored again while the chain was read could be met twice; the
// second meeting does not count.
func (t *entryTable[K, V]) snapshot(seg segment, i uint64, found []unsafe.Pointer) []unsafe.Pointer {
	for b := seg.at(i, entryBucketBytes); ; {
		header := atomic.LoadUint64(word(b, headerWord))
		for used := ^freeSlots(header) & (tagBytes << 7); used != 0; used &= used - 1 {
			p := atomic.LoadPointer(entrySlot(b, uint(bits.TrailingZeros64(used))/8))
			if p != nil && !holdsKey[K](found, p) {
				found = append(found, p)
			}
		}
		link := atomic.LoadUint64(word(b, linkWord))
		if link == 0 {
			return found
		}
		b = seg.at(link, entryBucketBytes)
	}
}

// holdsKey tells whether one of found has the key of p.
func holdsKey[K comparable](found []unsafe.Pointer, p unsafe.Pointer) bool {
	for _, q := range found {
		if *(*K)(q) == *(*K)(p) {
			return true
		}
	}
	return false
}

func (t *inlineMap[K, V]) rangeEntries(yield func(K, V) bool) {
	var room []inlineEntry
	t.eachSpan(func(sp span) bool {
		for i := range sp.seg.buckets() {
			room = t.snapshot(sp.seg, i, room[:0])
			for j := range room {
				e := &room[j]
				if sp.filter && t.seeds.hashWords(unsafe.Pointer(&e.key), t.keyWords) < sp.from {
					continue
				}
				if !yield(*(*K)(unsafe.Pointer(&e.key)), *(*V)(unsafe.Pointer(&e.value))) {
					return false
				}
			}
		}
		return true
	})
}

// inlineEntry is a copy of an entry of the inline layout.
type inlineEntry struct {
	key   inlineKey
	value inlineValue
}

// snapshot appends copies of the entries of the chain i to found, all as of
// one moment.
func (t *inlineTable) snapshot(seg segment, i uint64, found []inlineEntry) []inlineEntry {
	root := seg.at(i, t.bucketBytes)
	for try := 0; ; try++ {
		header := atomic.LoadUint64(word(root, headerWord))
		if header&dirtyBit == 0 {
			got := t.copyChain(seg, root, header, found)
			if unchanged(root, header) {
				return got
			}
		}
		pause(try)
	}
}

func (t *inlineTable) copyChain(seg segment, b unsafe.Pointer, header uint64, found []inlineEntry) []inlineEntry {
	for {
		for used := t.occupied(header); used != 0; used &= used - 1 {
			c := inlineCursor{bucket: b, slot: uintptr(bits.TrailingZeros64(used))}
			var e inlineEntry
			for i := range t.keyWords {
				e.key[i] = atomic.LoadUint64(word(b, keyAt+c.slot*t.keyWords+i))
			}
			t.read(&c, unsafe.Pointer(&e.value))
			found = append(found, e)
		}
		link := atomic.LoadUint64(word(b, linkWord))
		if link == 0 {
			return found
		}
		b = seg.at(link, t.bucketBytes)
		header = atomic.LoadUint64(word(b, headerWord))
	}
}
