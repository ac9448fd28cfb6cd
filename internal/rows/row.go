package rows

import "encoding/binary"

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
	flagHeld   = 1 << 28 // not evicted, by request
	lengthMask = 1<<28 - 1

	// maxKey and maxValue are what the header can say and an int can hold.
	maxKey   = lengthMask
	maxValue = 1<<31 - 1
)

// row is the memory of one row, from its header on. It may be longer than the row.
type row []byte

func extentOf(key, value int) int {
	return (headerBytes + key + value + rowAlign - 1) &^ (rowAlign - 1)
}

func (r row) generation() uint64     { return binary.LittleEndian.Uint64(r) }
func (r row) setGeneration(g uint64) { binary.LittleEndian.PutUint64(r, g) }
func (r row) word() uint32           { return binary.LittleEndian.Uint32(r[8:]) }
func (r row) setWord(w uint32)       { binary.LittleEndian.PutUint32(r[8:], w) }
func (r row) has(flag uint32) bool   { return r.word()&flag != 0 }
func (r row) keyLen() int            { return int(r.word() & lengthMask) }
func (r row) valueLen() int          { return int(binary.LittleEndian.Uint32(r[12:])) }
func (r row) extent() int            { return extentOf(r.keyLen(), r.valueLen()) }
func (r row) key() []byte            { return r[headerBytes:][:r.keyLen()] }
func (r row) value() []byte          { return r[headerBytes+r.keyLen():][:r.valueLen()] }

// write makes r the given row.
func (r row) write(generation uint64, flags uint32, key, value []byte) {
	r.setGeneration(generation)
	r.setWord(uint32(len(key)) | flags)
	binary.LittleEndian.PutUint32(r[12:], uint32(len(value)))
	copy(r[headerBytes:], key)
	copy(r[headerBytes+len(key):], value)
}

// overwrite replaces everything but the key. The new value fits the old extent;
// what it leaves over becomes a dead row.
func (r row) overwrite(generation uint64, flags uint32, value []byte) (extent, left int) {
	old, key := r.extent(), r.keyLen()
	r.setGeneration(generation)
	r.setWord(uint32(key) | flags)
	binary.LittleEndian.PutUint32(r[12:], uint32(len(value)))
	copy(r[headerBytes+key:], value)
	extent = extentOf(key, len(value))
	if left = old - extent; left > 0 {
		rest := r[extent:]
		rest.setWord(flagDead)
		binary.LittleEndian.PutUint32(rest[12:], uint32(left-headerBytes))
	}
	return extent, left
}
