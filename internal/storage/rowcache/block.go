package rowcache

import (
	"encoding/binary"
	"math/bits"
	"sync"

	"github.com/cleavekv/cleave/internal/storage/pages"
)

// A row is a header, its key and its value, padded to rowAlign:
//
//	0            8          12         16
//	| generation | key+flags | value   | key … | value … | padding
//
// The lengths give the extent, so that a block can be walked from row to row.
const (
	headerBytes = 16
	// rowAlign is the least room in which a header fits: whatever a shorter
	// row leaves behind of a longer one can be marked as dead.
	rowAlign = 16

	flagDead   = 1 << 31 // forgotten or replaced; not in the index
	flagAbsent = 1 << 30 // known not to exist; no value
	flagUsed   = 1 << 29 // used since it was written or last spared
	flagPinned = 1 << 28 // not evicted, by request
	lengthMask = 1<<28 - 1

	// maxKeyBytes and maxValueBytes are what the header can say and an int can hold.
	maxKeyBytes   = lengthMask
	maxValueBytes = 1<<31 - 1
)

// row is the memory of one row, from its header on. It may be longer than the row.
type row []byte

func rowBytes(key, value int) int {
	return (headerBytes + key + value + rowAlign - 1) &^ (rowAlign - 1)
}

func (r row) generation() uint64       { return binary.LittleEndian.Uint64(r) }
func (r row) setGeneration(g uint64)   { binary.LittleEndian.PutUint64(r, g) }
func (r row) flagWord() uint32         { return binary.LittleEndian.Uint32(r[8:]) }
func (r row) setFlagWord(w uint32)     { binary.LittleEndian.PutUint32(r[8:], w) }
func (r row) hasFlag(flag uint32) bool { return r.flagWord()&flag != 0 }
func (r row) keyLen() int              { return int(r.flagWord() & lengthMask) }
func (r row) valueLen() int            { return int(binary.LittleEndian.Uint32(r[12:])) }
func (r row) sizeBytes() int           { return rowBytes(r.keyLen(), r.valueLen()) }
func (r row) key() []byte              { return r[headerBytes:][:r.keyLen()] }
func (r row) value() []byte            { return r[headerBytes+r.keyLen():][:r.valueLen()] }

// encode makes r the given row.
func (r row) encode(generation uint64, flags uint32, key, value []byte) {
	r.setGeneration(generation)
	r.setFlagWord(uint32(len(key)) | flags)
	binary.LittleEndian.PutUint32(r[12:], uint32(len(value)))
	copy(r[headerBytes:], key)
	copy(r[headerBytes+len(key):], value)
}

// replaceValue replaces everything but the key. The new value fits the old extent;
// what it leaves over becomes a dead row.
func (r row) replaceValue(generation uint64, flags uint32, value []byte) (extent, left int) {
	old, key := r.sizeBytes(), r.keyLen()
	r.setGeneration(generation)
	r.setFlagWord(uint32(key) | flags)
	binary.LittleEndian.PutUint32(r[12:], uint32(len(value)))
	copy(r[headerBytes+key:], value)
	extent = rowBytes(key, len(value))
	if left = old - extent; left > 0 {
		rest := r[extent:]
		rest.setFlagWord(flagDead)
		binary.LittleEndian.PutUint32(rest[12:], uint32(left-headerBytes))
	}
	return extent, left
}

// block is a piece of memory in which rows lie one after the other. Blocks of a
// stripe form a list from the oldest to the head, where new rows go. A row that
// is large for an ordinary block gets one of its own ("lone"), which is
// never written again: it can be built and read outside the lock.
type block struct {
	data         []byte
	usedBytes    int // bytes from the start that hold rows, dead ones included
	liveBytes    int // bytes of rows that the index knows
	older, newer uint32
	isDedicated  bool
}

// blockList is the memory of one stripe. Numbers start at 1, so that a place is
// never 0; number 0 is the anchor of the list: its newer is the oldest block, its
// older the newest.
type blockList struct {
	entries     []block
	freeNumbers []uint32 // numbers without memory
	head        uint32   // the ordinary block that is being filled; 0 if none
	blockBytes  int      // bytes of an ordinary block, a power of two
	shift       uint     // of a place: number << shift | offset / rowAlign
	spare       []byte   // an ordinary block kept for the next head
	totalBytes  int      // of all memory, spare included
	slab        *slab    // where ordinary blocks come from
}

func (b *blockList) init(size int, from *slab) {
	b.blockBytes, b.slab = size, from
	for b.shift = 0; rowAlign<<b.shift < size; b.shift++ {
	}
	b.entries = make([]block, 1, 8)
}

func (b *blockList) placeOf(number uint32, offset int) uint32 {
	return number<<b.shift | uint32(offset/rowAlign)
}

func (b *blockList) numberOf(place uint32) uint32 { return place >> b.shift }

func (b *blockList) isDedicated(place uint32) bool { return b.entries[b.numberOf(place)].isDedicated }

func (b *blockList) rowAt(place uint32) row {
	offset := int(place&(1<<b.shift-1)) * rowAlign
	return b.entries[place>>b.shift].data[offset:]
}

// addBlock makes data the newest block.
func (b *blockList) addBlock(data []byte) uint32 {
	var n uint32
	if k := len(b.freeNumbers); k > 0 {
		n, b.freeNumbers = b.freeNumbers[k-1], b.freeNumbers[:k-1]
	} else {
		n = uint32(len(b.entries))
		b.entries = append(b.entries, block{})
	}
	b.entries[n] = block{data: data}
	b.linkNewest(n)
	return n
}

func (b *blockList) linkNewest(n uint32) {
	last := b.entries[0].older
	b.entries[n].older, b.entries[n].newer = last, 0
	b.entries[last].newer, b.entries[0].older = n, n
}

func (b *blockList) unlinkBlock(n uint32) {
	older, newer := b.entries[n].older, b.entries[n].newer
	b.entries[older].newer, b.entries[newer].older = newer, older
}

// dropBlock gives up a block in which nothing lives.
func (b *blockList) dropBlock(n uint32) {
	b.unlinkBlock(n)
	bl := &b.entries[n]
	switch {
	case bl.isDedicated:
		b.totalBytes -= len(bl.data)
	case b.spare == nil:
		b.spare = bl.data // stays in b.bytes
	default:
		b.totalBytes -= len(bl.data)
		b.slab.releaseBlock(bl.data)
	}
	*bl = block{}
	b.freeNumbers = append(b.freeNumbers, n)
	if b.head == n {
		b.head = 0
	}
}

// addHead makes a fresh ordinary block the head.
func (b *blockList) addHead() {
	data := b.spare
	b.spare = nil
	if data == nil {
		data = b.slab.acquireBlock(b.blockBytes)
		b.totalBytes += b.blockBytes
	}
	b.head = b.addBlock(data)
}

// addDedicated takes over memory that holds exactly one row.
func (b *blockList) addDedicated(data row) uint32 {
	n := b.addBlock(data)
	b.totalBytes += len(data)
	bl := &b.entries[n]
	bl.isDedicated, bl.usedBytes, bl.liveBytes = true, len(data), len(data)
	return b.placeOf(n, 0)
}

// hasRoom reports whether the head has room for so many bytes.
func (b *blockList) hasRoom(extent int) bool {
	return b.head != 0 && b.entries[b.head].usedBytes+extent <= b.blockBytes
}

// reserveRow takes room from the head. It fits.
func (b *blockList) reserveRow(extent int) (place uint32, r row) {
	bl := &b.entries[b.head]
	offset := bl.usedBytes
	bl.usedBytes += extent
	bl.liveBytes += extent
	return b.placeOf(b.head, offset), bl.data[offset : offset+extent]
}

// markDead counts bytes of a block as dead and gives the block up with its last
// living row.
func (b *blockList) markDead(place uint32, extent int) {
	n := b.numberOf(place)
	b.entries[n].liveBytes -= extent
	if b.entries[n].liveBytes == 0 && n != b.head {
		b.dropBlock(n)
	}
}

// slab gives out the ordinary blocks of all stripes, cut from large pieces of memory. The
// system can back those with large pages, and a reader of one row of a million waits less
// often for the tables that say where a page is.
//
// A block that is given back is given out again. The memory of a table that has shrunk, after
// many rows were pinned say, stays its own, unless it is released. Pieces are not on the heap, where the
// system allows it: rows are most of what a server has in memory, and the garbage collector would allow
// garbage in proportion. Nothing outside of the stripes' locks looks at a block.
type slab struct {
	mu         sync.Mutex
	pieceBytes int      // bytes of a piece; 0 if each block is memory of its own, on the heap
	pieces     [][]byte // all of them
	unused     []byte   // what is left of the newest one
	// free are blocks that were given back, and released those of them whose pages the operating
	// system has.
	free, released [][]byte
	totalBytes     int64 // of all pieces, without what is released
}

const (
	minPieceBytes = 4 << 20 // a smaller one has hardly a large page
	maxPieceBytes = 16 << 20
	// piecesPerTable keeps what is not given out yet a small part of the table.
	piecesPerTable = 8
)

func (s *slab) init(bytes int64) {
	size := int64(1) << (bits.Len64(uint64(bytes/piecesPerTable)) - 1)
	if size >= minPieceBytes {
		s.pieceBytes = int(min(size, maxPieceBytes))
	}
}

// acquireBlock returns so many bytes, which are the same at each call and divide a piece.
func (s *slab) acquireBlock(n int) []byte {
	if s.pieceBytes == 0 {
		return make([]byte, n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := popBlock(&s.free); b != nil {
		return b
	}
	if b := popBlock(&s.released); b != nil {
		s.totalBytes += int64(len(b))
		return b
	}
	if len(s.unused) < n {
		s.unused = pages.Map(s.pieceBytes)
		s.pieces = append(s.pieces, s.unused)
		s.totalBytes += int64(s.pieceBytes)
		pages.AdviseLarge(s.unused)
	}
	b := s.unused[:n:n]
	s.unused = s.unused[n:]
	return b
}

func popBlock(list *[][]byte) []byte {
	k := len(*list)
	if k == 0 {
		return nil
	}
	b := (*list)[k-1]
	(*list)[k-1], *list = nil, (*list)[:k-1]
	return b
}

// reclaimFreePages gives the pages of free blocks back to the operating system, and returns how many bytes.
func (s *slab) reclaimFreePages() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.free[:0]
	for _, b := range s.free {
		if !pages.Release(b) {
			kept = append(kept, b)
			continue
		}
		n += int64(len(b))
		s.released = append(s.released, b)
	}
	clear(s.free[len(kept):])
	s.free = kept
	s.totalBytes -= n
	return n
}

// sizeBytes is how much memory the pieces take.
func (s *slab) sizeBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.totalBytes
}

// releaseBlock takes back a block that no reader looks at any more.
func (s *slab) releaseBlock(b []byte) {
	if s.pieceBytes == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, b)
}

// close gives all pieces back. No stripe has a block of them any more.
func (s *slab) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.pieces {
		pages.Unmap(b)
	}
	s.pieces, s.unused, s.free, s.released, s.totalBytes = nil, nil, nil, nil, 0
}
