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

// computeTag returns the tag of hash: its low 7 bits, which hardly matter to the
// choice of the bucket, and a bit that makes it differ from 0.
func computeTag(hash uint64) uint64 { return hash&0x7f | 0x80 }

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
	t.box = findBoxKind(value)
	t.hashesWord = isBitwise(key) && key.Size() <= wordBytes
	shape := geometry{bucketBytes: entryBucketBytes, slots: entrySlots, sizes: entrySizes()}
	t.table.init(t, shape, opts)
}

// hashKey hashes short bitwise keys like the word layout does, all others like
// the built-in map.
func (t *entryTable[K, V]) hashKey(key K) uint64 {
	if unsafe.Sizeof(key) <= wordBytes && t.hashesWord {
		return t.seeds.hashWord(toWord(&key))
	}
	return maphash.Comparable(t.seeds.general, key)
}

// findEntry looks for key along its whole chain.
func (t *entryTable[K, V]) findEntry(key K, hash uint64) unsafe.Pointer {
	seg := findSegment(t.shardOf(hash).loadDirectory(), hash)
	for b := seg.bucketAt(seg.rootIndex(hash), entryBucketBytes); ; {
		header := atomic.LoadUint64(wordAt(b, headerWord))
		for marks := matchTag(header, computeTag(hash)); marks != 0; marks &= marks - 1 {
			p := atomic.LoadPointer(entrySlot(b, uint(bits.TrailingZeros64(marks))/8))
			if p != nil && *(*K)(p) == key {
				return p
			}
		}
		link := atomic.LoadUint64(wordAt(b, linkWord))
		if link == 0 {
			return nil
		}
		b = seg.bucketAt(link, entryBucketBytes)
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
	for !t.findOrReserve(c, key, reserve) {
		*c = entryCursor{chain: t.lock(hash), hash: hash}
	}
}

// findOrReserve fills in where key is or may go. If there is no room it makes some,
// which needs the lock to be given up, and answers false.
func (t *entryTable[K, V]) findOrReserve(c *entryCursor, key K, reserve bool) bool {
	last := t.findInChain(c, key)
	if c.entry != nil || c.bucket != nil || !reserve {
		return true
	}
	if n := c.seg.takeSpare(entryBucketBytes); n != 0 {
		atomic.StoreUint64(wordAt(last, linkWord), n)
		c.bucket, c.slot = c.seg.bucketAt(n, entryBucketBytes), 1
		return true
	}
	c.unlock()
	t.growSegment(c.shard, c.seg, c.hash)
	return false
}

// findInChain fills in the place of key, or else the first free one, and returns
// the last bucket of the chain.
func (t *entryTable[K, V]) findInChain(c *entryCursor, key K) (last unsafe.Pointer) {
	tag := computeTag(c.hash)
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
		link := atomic.LoadUint64(wordAt(b, linkWord))
		if link == 0 {
			return b
		}
		b = c.seg.bucketAt(link, entryBucketBytes)
		header = atomic.LoadUint64(wordAt(b, headerWord))
	}
}

// setTag writes the tag of the cursor's slot. The root keeps its flags.
func (c *entryCursor) setTag(tag uint64) {
	shift := 8 * c.slot
	if c.bucket == c.root {
		c.header = c.header&^(0xff<<shift) | tag<<shift
		atomic.StoreUint64(wordAt(c.root, headerWord), c.header|lockBit)
		return
	}
	p := wordAt(c.bucket, headerWord)
	atomic.StoreUint64(p, atomic.LoadUint64(p)&^(0xff<<shift)|tag<<shift)
}

// insert puts entry into the free slot. The tag comes first: a reader that
// still believes in an older tag of this slot may find the entry as soon as
// the pointer is there, and then no other reader may miss it.
func (c *entryCursor) insert(entry unsafe.Pointer) {
	c.setTag(computeTag(c.hash))
	atomic.StorePointer(entrySlot(c.bucket, c.slot), entry)
}

// remove frees the slot of the entry. The pointer goes first, which is when
// all readers stop finding it.
func (c *entryCursor) remove() {
	atomic.StorePointer(entrySlot(c.bucket, c.slot), nil)
	c.setTag(0)
}

// storeEntry sets the value of key. Like load, it has the common case written out:
// the key is in its root.
func (t *entryTable[K, V]) storeEntry(key K, value V) {
	var hash uint64
	if unsafe.Sizeof(key) <= wordBytes && t.hashesWord {
		hash = t.seeds.hashWord(toWord(&key))
	} else {
		hash = maphash.Comparable(t.seeds.general, key)
	}
	var box unsafe.Pointer
	if t.box == boxValue {
		box = unsafe.Pointer(&valueBox[K, V]{key: key, value: value}) // before the lock
	}
	s := t.shardOf(hash)
	seg := findSegment(s.loadDirectory(), hash)
	b := seg.bucketAt(seg.rootIndex(hash), entryBucketBytes)
	header := atomic.LoadUint64(wordAt(b, headerWord))
	if header&lockBit != 0 || !atomic.CompareAndSwapUint64(wordAt(b, headerWord), header, header|lockBit) {
		t.storeEntrySlow(t.lock(hash), hash, key, &value, box)
		return
	}
	if m := matchTag(header, computeTag(hash)); m != 0 {
		slot := entrySlot(b, uint(bits.TrailingZeros64(m))/8)
		if p := atomic.LoadPointer(slot); p != nil && *(*K)(p) == key {
			if box != nil {
				atomic.StorePointer(slot, box)
			} else {
				t.tryOverwrite(p, &value)
			}
			unlockChain(b, header)
			return
		}
	}
	t.storeEntrySlow(chain{s, seg, b, header}, hash, key, &value, box)
}

// storeEntrySlow is store once the chain of key is locked.
func (t *entryTable[K, V]) storeEntrySlow(locked chain, hash uint64, key K, value *V, box unsafe.Pointer) {
	c := entryCursor{chain: locked, hash: hash}
	for !t.findOrReserve(&c, key, true) {
		c = entryCursor{chain: t.lock(hash), hash: hash}
	}
	if box == nil {
		if c.entry != nil {
			t.tryOverwrite(c.entry, value)
			c.unlock()
			return
		}
		box = t.newBox(key, *value)
	}
	if c.entry != nil {
		atomic.StorePointer(entrySlot(c.bucket, c.slot), box)
		c.unlock()
		return
	}
	c.insert(box)
	c.unlock()
	c.shard.count.Add(1)
}

// updateEntry gives the cursor's entry another value.
func (t *entryTable[K, V]) updateEntry(c *entryCursor, key K, value V) {
	if !t.tryOverwrite(c.entry, &value) {
		atomic.StorePointer(entrySlot(c.bucket, c.slot), t.newBox(key, value))
	}
}

// swapValue stores value and returns the one before it.
func (t *entryTable[K, V]) swapValue(key K, value V) (previous V, loaded bool) {
	var c entryCursor
	t.seek(&c, key, t.hashKey(key), true)
	if c.entry != nil {
		previous = t.loadBox(c.entry)
		t.updateEntry(&c, key, value)
		c.unlock()
		return previous, true
	}
	t.insertEntry(&c, key, value)
	return previous, false
}

// insertEntry inserts an entry at the cursor's free slot and unlocks.
func (t *entryTable[K, V]) insertEntry(c *entryCursor, key K, value V) {
	c.insert(t.newBox(key, value))
	c.unlock()
	c.shard.count.Add(1)
}

func (t *entryTable[K, V]) loadOrStore(key K, value V) (actual V, loaded bool) {
	var c entryCursor
	t.seek(&c, key, t.hashKey(key), true)
	if c.entry != nil {
		actual = t.loadBox(c.entry)
		c.unlock()
		return actual, true
	}
	t.insertEntry(&c, key, value)
	return value, false
}

func (t *entryTable[K, V]) loadAndDelete(key K) (value V, loaded bool) {
	var c entryCursor
	t.seek(&c, key, t.hashKey(key), false)
	if c.entry == nil {
		c.unlock()
		return value, false
	}
	value = t.loadBox(c.entry)
	t.removeEntry(&c)
	return value, true
}

// removeEntry removes the cursor's entry and unlocks.
func (t *entryTable[K, V]) removeEntry(c *entryCursor) {
	c.remove()
	c.unlock()
	t.afterDelete(c.shard)
}

func (t *entryTable[K, V]) computeEntry(key K, update func(V, bool) (V, Op)) (actual V, ok bool) {
	var c entryCursor
	t.seek(&c, key, t.hashKey(key), true)
	decided := false
	defer func() {
		if !decided { // update panicked
			c.unlock()
		}
	}()
	if ok = c.entry != nil; ok {
		actual = t.loadBox(c.entry)
	}
	value, op := update(actual, ok)
	if op > Delete {
		panic(unknownOpText(op))
	}
	decided = true
	switch {
	case op == Update && ok:
		t.updateEntry(&c, key, value)
		c.unlock()
	case op == Update:
		t.insertEntry(&c, key, value)
		return value, true
	case op == Delete && ok:
		t.removeEntry(&c)
		var none V
		return none, false
	default:
		c.unlock()
		return actual, ok
	}
	return value, true
}

// boxKind is how an entry of the entry layout holds its value.
type boxKind uint8

const (
	boxValue   boxKind = iota // valueBox: immutable, an update makes a new one
	boxWord                   // wordBox: the value is a pointer-free word, updated in place
	boxPointer                // pointerBox: the value is one pointer, updated in place
)

// All boxes start with the key, so that finding one needs no boxKind.
type valueBox[K comparable, V any] struct {
	key   K
	value V
}

type wordBox[K comparable] struct {
	key  K
	word atomic.Uint64
}

type pointerBox[K comparable] struct {
	key     K
	pointer unsafe.Pointer
}

// findBoxKind chooses the cheapest box for values of type v.
func findBoxKind(v reflect.Type) boxKind {
	switch v.Kind() {
	case reflect.Pointer, reflect.UnsafePointer, reflect.Chan, reflect.Map, reflect.Func:
		return boxPointer
	}
	if v.Size() > 0 && v.Size() <= wordBytes && isPointerFree(v) {
		return boxWord
	}
	return boxValue
}

// newBox returns an entry with key and value.
func (t *entryTable[K, V]) newBox(key K, value V) unsafe.Pointer {
	switch t.box {
	case boxWord:
		b := &wordBox[K]{key: key}
		b.word.Store(toWord(&value))
		return unsafe.Pointer(b)
	case boxPointer:
		return unsafe.Pointer(&pointerBox[K]{key: key, pointer: *(*unsafe.Pointer)(unsafe.Pointer(&value))})
	default:
		return unsafe.Pointer(&valueBox[K, V]{key: key, value: value})
	}
}

// loadBox returns the value of an entry.
func (t *entryTable[K, V]) loadBox(p unsafe.Pointer) V {
	switch t.box {
	case boxWord:
		return decodeWord[V]((*wordBox[K])(p).word.Load())
	case boxPointer:
		q := atomic.LoadPointer(&(*pointerBox[K])(p).pointer)
		return *(*V)(unsafe.Pointer(&q))
	default:
		return (*valueBox[K, V])(p).value
	}
}

// tryOverwrite gives an entry another value in place, and answers false if it is
// of a kind that cannot be.
func (t *entryTable[K, V]) tryOverwrite(p unsafe.Pointer, value *V) bool {
	switch t.box {
	case boxWord:
		(*wordBox[K])(p).word.Store(toWord(value))
		return true
	case boxPointer:
		atomic.StorePointer(&(*pointerBox[K])(p).pointer, *(*unsafe.Pointer)(unsafe.Pointer(value)))
		return true
	default:
		return false
	}
}

// toWord returns the bytes of a value of at most 8 bytes as a word.
func toWord[T any](v *T) (w uint64) {
	*(*T)(unsafe.Pointer(&w)) = *v
	return w
}

// decodeWord undoes toWord.
func decodeWord[T any](w uint64) T { return *(*T)(unsafe.Pointer(&w)) }

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
	return newSegment(newEntryBuckets(size.totalBuckets()), size)
}

func (t *entryTable[K, V]) countChain(seg segment, i uint64) int {
	n := 0
	for b := seg.bucketAt(i, entryBucketBytes); ; {
		header := atomic.LoadUint64(wordAt(b, headerWord))
		n += entrySlots - bits.OnesCount64(freeSlots(header))
		link := atomic.LoadUint64(wordAt(b, linkWord))
		if link == 0 {
			return n
		}
		b = seg.bucketAt(link, entryBucketBytes)
	}
}

// freeSlots marks, in bit 7 of its byte, every slot without a tag; unlike
// matchTag it is exact.
func freeSlots(header uint64) uint64 {
	const low7 = tagBytes * 0x7f
	return ^(header&low7 + low7 | header | low7) & (tagBytes << 7)
}

func (t *entryTable[K, V]) copyChain(seg segment, i uint64, to []segment, bit uint) bool {
	for b := seg.bucketAt(i, entryBucketBytes); ; {
		for slot := uint(1); slot <= entrySlots; slot++ {
			p := atomic.LoadPointer(entrySlot(b, slot))
			if p == nil {
				continue
			}
			hash := t.hashKey(*(*K)(p))
			dst := to[0]
			if len(to) > 1 {
				dst = to[hash>>bit&1]
			}
			if !appendEntry(dst, hash, p) {
				return false
			}
		}
		link := atomic.LoadUint64(wordAt(b, linkWord))
		if link == 0 {
			return true
		}
		b = seg.bucketAt(link, entryBucketBytes)
	}
}

// appendEntry adds an entry, known to be absent, to an unpublished segment.
func appendEntry(seg segment, hash uint64, entry unsafe.Pointer) bool {
	b := (*entryBucket)(seg.bucketAt(seg.rootIndex(hash), entryBucketBytes))
	for freeSlots(b.header) == 0 {
		if b.link == 0 {
			if b.link = seg.takeSpare(entryBucketBytes); b.link == 0 {
				return false
			}
		}
		b = (*entryBucket)(seg.bucketAt(b.link, entryBucketBytes))
	}
	slot := bits.TrailingZeros64(freeSlots(b.header)) / 8
	b.header |= computeTag(hash) << (8 * slot)
	b.slots[slot-1] = entry
	return true
}
