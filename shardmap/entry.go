package shardmap

import (
	"hash/maphash"
	"math/bits"
	"reflect"
	"sync/atomic"
	"unsafe"
)

// The entry layout serves every type. A bucket holds pointers to entries on
// the heap, which the garbage collector sees as such:
//
//	word 0     header: flags in byte 0, the tag of slot i in byte i, i = 1 … 6
//	word 1     link
//	word 1+i   pointer to the entry in slot i, nil when free
//
// A tag is 7 bits of the hash and never 0; 0 marks a free slot. An entry's key
// never changes, so a reader that finds its key in an entry needs no version
// to know that key and value belong together.
type entryBucket struct {
	header, link uint64
	slots        [entrySlots]unsafe.Pointer
}

const (
	entrySlots       = 6
	entryBucketBytes = unsafe.Sizeof(entryBucket{})
	tagBytes         = 0x0001010101010100 // one bit in the byte of every slot
)

// tagOf returns the tag of hash: its low 7 bits, which hardly matter to the
// choice of the bucket, and a bit that makes it differ from 0.
func tagOf(hash uint64) uint64 { return hash&0x7f | 0x80 }

// matchTag marks, in bit 7 of its byte, every slot whose tag is tag. A slot
// above a match may be marked wrongly; the key decides.
func matchTag(header, tag uint64) uint64 {
	x := header ^ tag*tagBytes
	return (x - tagBytes) &^ x & (tagBytes << 7)
}

func entrySlot(bucket unsafe.Pointer, slot uint) *unsafe.Pointer {
	const base = 2*wordBytes - unsafe.Sizeof(uintptr(0))
	return (*unsafe.Pointer)(unsafe.Add(bucket, base+uintptr(slot)*unsafe.Sizeof(uintptr(0))))
}

// entryTable is a table of the entry layout.
type entryTable[K comparable, V any] struct {
	table
	hashesWord bool // keys are bitwise and at most a word
	box        boxKind
}

func (t *entryTable[K, V]) init(opts Options) {
	key, value := reflect.TypeFor[K](), reflect.TypeFor[V]()
	t.box = boxKindOf(value)
	t.hashesWord = bitwise(key) && key.Size() <= wordBytes
	shape := geometry{bucketBytes: entryBucketBytes, slots: entrySlots, sizes: entrySizes()}
	t.table.init(t, shape, opts)
}

// hash hashes short bitwise keys like the word layout does, all others like
// the built-in map.
func (t *entryTable[K, V]) hash(key K) uint64 {
	if unsafe.Sizeof(key) <= wordBytes && t.hashesWord {
		return t.seeds.hashWord(toWord(&key))
	}
	return maphash.Comparable(t.seeds.general, key)
}

// findEntry looks for key along its whole chain.
func (t *entryTable[K, V]) findEntry(key K, hash uint64) unsafe.Pointer {
	seg := lookup(t.shard(hash).directory(), hash)
	for b := seg.at(seg.root(hash), entryBucketBytes); ; {
		header := atomic.LoadUint64(word(b, headerWord))
		for marks := matchTag(header, tagOf(hash)); marks != 0; marks &= marks - 1 {
			p := atomic.LoadPointer(entrySlot(b, uint(bits.TrailingZeros64(marks))/8))
			if p != nil && *(*K)(p) == key {
				return p
			}
		}
		link := atomic.LoadUint64(word(b, linkWord))
		if link == 0 {
			return nil
		}
		b = seg.at(link, entryBucketBytes)
	}
}

// entryCursor is a locked chain and the place of one key in it.
type entryCursor struct {
	chain
	hash   uint64
	bucket unsafe.Pointer // of the key, or of the free slot for it
	slot   uint
	entry  unsafe.Pointer // nil when the key is absent
}

// seek locks the chain of key and finds its slot, or a free one if reserve.
func (t *entryTable[K, V]) seek(c *entryCursor, key K, hash uint64, reserve bool) {
	*c = entryCursor{chain: t.lock(hash), hash: hash}
	for !t.place(c, key, reserve) {
		*c = entryCursor{chain: t.lock(hash), hash: hash}
	}
}

// place fills in where key is or may go. If there is no room it makes some,
// which needs the lock to be given up, and answers false.
func (t *entryTable[K, V]) place(c *entryCursor, key K, reserve bool) bool {
	last := t.find(c, key)
	if c.entry != nil || c.bucket != nil || !reserve {
		return true
	}
	if n := c.seg.takeSpare(entryBucketBytes); n != 0 {
		atomic.StoreUint64(word(last, linkWord), n)
		c.bucket, c.slot = c.seg.at(n, entryBucketBytes), 1
		return true
	}
	c.unlock()
	t.grow(c.shard, c.seg, c.hash)
	return false
}

// find fills in the place of key, or else the first free one, and returns
// the last bucket of the chain.
func (t *entryTable[K, V]) find(c *entryCursor, key K) (last unsafe.Pointer) {
	tag := tagOf(c.hash)
	for b, header := c.root, c.header; ; {
		for m := matchTag(header, tag); m != 0; m &= m - 1 {
			slot := uint(bits.TrailingZeros64(m)) / 8
			p := atomic.LoadPointer(entrySlot(b, slot))
			if p != nil && *(*K)(p) == key {
				c.bucket, c.slot, c.entry = b, slot, p
				return b
			}
		}
		if free := matchTag(header, 0); free != 0 && c.bucket == nil {
			c.bucket, c.slot = b, uint(bits.TrailingZeros64(free))/8
		}
		link := atomic.LoadUint64(word(b, linkWord))
		if link == 0 {
			return b
		}
		b = c.seg.at(link, entryBucketBytes)
		header = atomic.LoadUint64(word(b, headerWord))
	}
}

// setTag writes the tag of the cursor's slot. The root keeps its flags.
func (c *entryCursor) setTag(tag uint64) {
	shift := 8 * c.slot
	if c.bucket == c.root {
		c.header = c.header&^(0xff<<shift) | tag<<shift
		atomic.StoreUint64(word(c.root, headerWord), c.header|lockBit)
		return
	}
	p := word(c.bucket, headerWord)
	atomic.StoreUint64(p, atomic.LoadUint64(p)&^(0xff<<shift)|tag<<shift)
}

// insert puts entry into the free slot. The tag comes first: a reader that
// still believes in an older tag of this slot may find the entry as soon as
// the pointer is there, and then no other reader may miss it.
func (c *entryCursor) insert(entry unsafe.Pointer) {
	c.setTag(tagOf(c.hash))
	atomic.StorePointer(entrySlot(c.bucket, c.slot), entry)
}

// remove frees the slot of the entry. The pointer goes first, which is when
// all readers stop finding it.
func (c *entryCursor) remove() {
	atomic.StorePointer(entrySlot(c.bucket, c.slot), nil)
	c.setTag(0)
}
