package wal

import "fmt"

// Position is a place in the log: the segment's sequence in the upper 32 bits, the
// offset in it in the lower. Its order is that of the log. Zero is before
// everything.
type Position uint64

func position(sequence uint32, offset int) Position {
	return Position(sequence)<<32 | Position(uint32(offset))
}

func (p Position) sequence() uint32 { return uint32(p >> 32) }
func (p Position) offset() int      { return int(uint32(p)) }

// String returns the position as segment:offset in hexadecimal, as in file names.
func (p Position) String() string { return fmt.Sprintf("%08x:%x", p.sequence(), p.offset()) }
