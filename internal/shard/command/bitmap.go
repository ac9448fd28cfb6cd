package command

import (
	"math/bits"

	"github.com/cleavekv/cleave/partition"
)

// Bits of a value count from 0, the highest of its first byte, as in Redis.

// MaxBitOffset is the last bit that a value may have.
const MaxBitOffset = MaxValueBytes*8 - 1

// SetBit is SETBIT: it sets one bit of a value, which is padded with zeros if it is
// shorter. The reply is the bit before.
type SetBit struct {
	Key    partition.Position
	Offset int64
	On     bool
}

// Eval sets the bit.
func (c *SetBit) Eval(e *Env) Reply {
	if c.Offset < 0 || c.Offset > MaxBitOffset {
		return failedReply(errBitOffset)
	}
	row, alive, err := e.loadString(c.Key)
	if err != nil {
		return failedReply(err)
	}
	at, mask := int(c.Offset/8), byte(1)<<(7-c.Offset%8)
	n := row.stringLen(alive)
	old, err := e.readStringRange(c.Key, &row, int64(min(at, n)), int64(min(at+1, n)))
	if err != nil {
		return failedReply(err)
	}
	var part [1]byte
	copy(part[:], old)
	was := part[0]&mask != 0
	if part[0] &^= mask; c.On {
		part[0] |= mask
	}
	reply := e.writeStringRange(c.Key, &row, alive, at, part[:])
	if reply.Err != nil {
		return reply
	}
	return boolReply(was, reply.Version)
}

// GetBit is GETBIT. The reply is the bit, 0 behind the end of the value.
type GetBit struct {
	Key    partition.Position
	Offset int64
}

// Eval reads the bit.
func (c *GetBit) Eval(e *Env) Reply {
	if c.Offset < 0 || c.Offset > MaxBitOffset {
		return failedReply(errBitOffset)
	}
	row, alive, err := e.loadString(c.Key)
	if err != nil {
		return failedReply(err)
	}
	at, n := c.Offset/8, int64(row.stringLen(alive))
	part, err := e.readStringRange(c.Key, &row, min(at, n), min(at+1, n))
	if err != nil {
		return failedReply(err)
	}
	return boolReply(isBitSet(part, c.Offset%8), row.Version)
}

func isBitSet(value []byte, i int64) bool {
	return i/8 < int64(len(value)) && value[i/8]>>(7-i%8)&1 != 0
}

// ValueRange is a part of a value: from Start to End, both included, in bytes, or in bits if
// Bits. Negative ones count from the end.
type ValueRange struct {
	Start, End int64
	InBits     bool
}

// bitBounds returns the part of n bytes as a half-open range of bits; by is how its ends are read.
func (s ValueRange) bitBounds(n int64, by func(start, end, n int64) (int64, int64)) (start, end int64) {
	size := int64(8)
	if s.InBits {
		n, size = n*8, 1
	}
	start, end = by(s.Start, s.End, n)
	return start * size, end * size
}

// BitCount is BITCOUNT. The reply is how many bits of a part are set.
type BitCount struct {
	Key   partition.Position
	Range ValueRange
}

// Eval counts.
func (c *BitCount) Eval(e *Env) Reply {
	row, alive, err := e.loadString(c.Key)
	if err != nil {
		return failedReply(err)
	}
	start, end := c.Range.bitBounds(int64(row.stringLen(alive)), clampForward)
	first := start / 8
	value, err := e.readStringRange(c.Key, &row, first, (end+7)/8)
	if err != nil {
		return failedReply(err)
	}
	return intReply(countBits(value, start-first*8, end-first*8), row.Version)
}

// countBits counts the bits that are set in [start, end).
func countBits(value []byte, start, end int64) (n int64) {
	for ; start < end && start%8 != 0; start++ {
		n += bitValue(value, start)
	}
	for ; end > start && end%8 != 0; end-- {
		n += bitValue(value, end-1)
	}
	for _, b := range value[start/8 : end/8] {
		n += int64(bits.OnesCount8(b))
	}
	return n
}

func bitValue(value []byte, i int64) int64 { return int64(value[i/8] >> (7 - i%8) & 1) }

// BitPos is BITPOS: where in a part the first bit is that is set, or not. The reply is -1
// if there is none. Behind the end of the value all bits are zero, unless Bounded.
type BitPos struct {
	Key   partition.Position
	On    bool
	Range ValueRange
	// HasEnd reports whether the client has given an end.
	HasEnd bool
}

// Eval searches.
func (c *BitPos) Eval(e *Env) Reply {
	row, alive, err := e.loadString(c.Key)
	if err != nil {
		return failedReply(err)
	}
	if !alive {
		if c.On {
			return intReply(-1, 0)
		}
		return intReply(0, 0)
	}
	n := int64(row.stringLen(alive))
	start, end := c.Range.bitBounds(n, clampRange)
	first := start / 8
	value, err := e.readStringRange(c.Key, &row, first, (end+7)/8)
	if err != nil {
		return failedReply(err)
	}
	at := findBit(value, start-first*8, end-first*8, c.On)
	switch {
	case at >= 0:
		at += first * 8
	case !c.On && !c.HasEnd && start < end:
		at = n * 8
	}
	return intReply(at, row.Version)
}

// findBit returns the first bit in [start, end) that is as wanted, or -1.
func findBit(value []byte, start, end int64, on bool) int64 {
	skip := byte(0xff)
	if on {
		skip = 0
	}
	for i := start; i < end; {
		if i%8 == 0 && value[i/8] == skip {
			i += 8
			continue
		}
		if isBitSet(value, i) == on {
			return i
		}
		i++
	}
	return -1
}

// BitOpKind is what one part of a BitField does.
type BitOpKind uint8

// The operations on a field of bits.
const (
	BitGet BitOpKind = iota
	BitSet
	BitAdd
)

// BitOverflow is what happens to a number that does not fit into its field.
type BitOverflow uint8

// The ways to overflow.
const (
	// BitWrap goes on at the other end.
	BitWrap BitOverflow = iota
	// BitSaturate stays at the end.
	BitSaturate
	// BitFail changes nothing, and the result is absent.
	BitFail
)

// BitFieldOp is one operation on a field of bits: an integer of 1 to 64 bits, or of 63 if it
// has no sign, that begins anywhere.
type BitFieldOp struct {
	Kind     BitOpKind
	Signed   bool
	Width    int
	Offset   int64
	Value    int64 // to set, or to add
	Overflow BitOverflow
}

// BitResult is what one operation has found: the number before for BitSet, else the one
// that is there now.
type BitResult struct {
	Value  int64
	Absent bool
}

// BitField is BITFIELD: operations on fields of bits of one value, one after the other.
// The reply is OK, and Results are what they found.
type BitField struct {
	Key     partition.Position
	Ops     []BitFieldOp
	Results []BitResult
}

// IsWrite reports whether an operation may change the value.
func (c *BitField) IsWrite() bool {
	for i := range c.Ops {
		if c.Ops[i].Kind != BitGet {
			return true
		}
	}
	return false
}

// Eval does the operations, on the part of the value that all of them are about.
func (c *BitField) Eval(e *Env) Reply {
	first, last, need := int64(MaxValueBytes), int64(0), int64(0)
	for i := range c.Ops {
		p := &c.Ops[i]
		if p.Width < 1 || p.Width > 64 || p.Width == 64 && !p.Signed || p.Offset < 0 || p.Offset > MaxBitOffset-int64(p.Width)+1 {
			return failedReply(errBitOffset)
		}
		end := (p.Offset + int64(p.Width) + 7) / 8
		if first, last = min(first, p.Offset/8), max(last, end); p.Kind != BitGet {
			need = max(need, end)
		}
	}
	first = min(first, last)
	row, alive, err := e.loadString(c.Key)
	if err != nil {
		return failedReply(err)
	}
	n := int64(row.stringLen(alive))
	value, err := e.readStringRange(c.Key, &row, min(first, n), min(last, n))
	if err != nil {
		return failedReply(err)
	}
	if need > 0 { // not in place: the part may be a view
		value = append(make([]byte, 0, max(int64(len(value)), need-first)), value...)
		value = value[:max(int64(len(value)), need-first)]
	}
	c.Results = c.Results[:0]
	changed := need > n
	for i := range c.Ops {
		p := c.Ops[i]
		p.Offset -= first * 8
		result, wrote := p.apply(value)
		c.Results = append(c.Results, result)
		changed = changed || wrote
	}
	reply := Reply{Kind: OK, Version: row.Version}
	if changed {
		written := e.writeStringRange(c.Key, &row, alive, int(first), value)
		if written.Err != nil {
			return written
		}
		reply.Version = written.Version
	}
	return reply
}

// apply does the operation on a value that is long enough for it to write.
func (p *BitFieldOp) apply(value []byte) (result BitResult, wrote bool) {
	old := p.readBits(value)
	next, fits := p.Value, true
	switch p.Kind {
	case BitGet:
		return BitResult{Value: old}, false
	case BitSet:
		// A negative number is a very large one to a field without a sign, as in Redis.
		next, fits = p.fitValue(next, !p.Signed && next < 0, false)
	case BitAdd:
		// One of two numbers that overflow 64 bits has the sign of the other.
		sum := old + p.Value
		over := p.Value > 0 && sum < old
		under := p.Value < 0 && sum > old
		next, fits = p.fitValue(sum, over, under)
	}
	if !fits {
		return BitResult{Absent: true}, false
	}
	p.writeBits(value, next)
	if p.Kind == BitSet {
		return BitResult{Value: old}, true
	}
	return BitResult{Value: next}, true
}

// fitValue makes a number fit into the field, which has left the range of 64 bits above or
// below if over or under.
func (p *BitFieldOp) fitValue(n int64, over, under bool) (fitted int64, ok bool) {
	low, high := int64(0), int64(1)<<p.Width-1
	if p.Signed {
		low, high = -1<<(p.Width-1), int64(uint64(1)<<(p.Width-1)-1)
	}
	over = over || !under && n > high
	under = under || !over && n < low
	switch {
	case !over && !under:
		return n, true
	case p.Overflow == BitFail:
		return 0, false
	case p.Overflow == BitSaturate && over:
		return high, true
	case p.Overflow == BitSaturate:
		return low, true
	}
	return p.extendSign(uint64(n)), true
}

// extendSign takes the lowest bits as a number of the field's type.
func (p *BitFieldOp) extendSign(u uint64) int64 {
	rest := 64 - p.Width
	if p.Signed {
		return int64(u<<rest) >> rest
	}
	return int64(u << rest >> rest)
}

func (p *BitFieldOp) readBits(value []byte) int64 {
	var u uint64
	for i := range int64(p.Width) {
		u <<= 1
		if isBitSet(value, p.Offset+i) {
			u |= 1
		}
	}
	return p.extendSign(u)
}

func (p *BitFieldOp) writeBits(value []byte, n int64) {
	for i := range int64(p.Width) {
		at := p.Offset + i
		mask := byte(1) << (7 - at%8)
		if n>>(int64(p.Width)-1-i)&1 != 0 {
			value[at/8] |= mask
		} else {
			value[at/8] &^= mask
		}
	}
}
