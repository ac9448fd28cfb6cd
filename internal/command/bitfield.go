package command

import "github.com/cleavekv/cleave/partition"

// BitOp is what one part of a BitField does.
type BitOp uint8

// The operations on a field of bits.
const (
	BitGet BitOp = iota
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

// BitPart is one operation on a field of bits: an integer of 1 to 64 bits, or of 63 if it
// has no sign, that begins anywhere.
type BitPart struct {
	Op       BitOp
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
	Parts   []BitPart
	Results []BitResult
}

// Writes tells whether an operation may change the value.
func (c *BitField) Writes() bool {
	for i := range c.Parts {
		if c.Parts[i].Op != BitGet {
			return true
		}
	}
	return false
}

// Eval does the operations.
func (c *BitField) Eval(e *Env) Reply {
	need := 0
	for i := range c.Parts {
		p := &c.Parts[i]
		if p.Width < 1 || p.Width > 64 || p.Width == 64 && !p.Signed || p.Offset < 0 || p.Offset > MaxBit-int64(p.Width)+1 {
			return failed(errBit)
		}
		if p.Op != BitGet {
			need = max(need, int((p.Offset+int64(p.Width)+7)/8))
		}
	}
	row, alive, err := e.loadString(c.Key)
	if err != nil {
		return failed(err)
	}
	value := liveText(&row, alive)
	if need > 0 {
		value = e.stretched(value, need)
	}
	c.Results = c.Results[:0]
	changed := need > len(liveText(&row, alive))
	for i := range c.Parts {
		result, wrote := c.Parts[i].do(value)
		c.Results = append(c.Results, result)
		changed = changed || wrote
	}
	reply := Reply{Kind: OK, Version: row.Version}
	if changed {
		reply.Version = e.setText(c.Key, &row, alive, value)
	}
	return reply
}

// do does the operation on a value that is long enough for it to write.
func (p *BitPart) do(value []byte) (result BitResult, wrote bool) {
	old := p.read(value)
	next, fits := p.Value, true
	switch p.Op {
	case BitGet:
		return BitResult{Value: old}, false
	case BitSet:
		// A negative number is a very large one to a field without a sign, as in Redis.
		next, fits = p.fit(next, !p.Signed && next < 0, false)
	case BitAdd:
		// One of two numbers that overflow 64 bits has the sign of the other.
		sum := old + p.Value
		over := p.Value > 0 && sum < old
		under := p.Value < 0 && sum > old
		next, fits = p.fit(sum, over, under)
	}
	if !fits {
		return BitResult{Absent: true}, false
	}
	p.write(value, next)
	if p.Op == BitSet {
		return BitResult{Value: old}, true
	}
	return BitResult{Value: next}, true
}

// fit makes a number fit into the field, which has left the range of 64 bits above or
// below if over or under.
func (p *BitPart) fit(n int64, over, under bool) (fitted int64, ok bool) {
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
	return p.extend(uint64(n)), true
}

// extend takes the lowest bits as a number of the field's type.
func (p *BitPart) extend(u uint64) int64 {
	rest := 64 - p.Width
	if p.Signed {
		return int64(u<<rest) >> rest
	}
	return int64(u << rest >> rest)
}

func (p *BitPart) read(value []byte) int64 {
	var u uint64
	for i := range int64(p.Width) {
		u <<= 1
		if bitAt(value, p.Offset+i) {
			u |= 1
		}
	}
	return p.extend(u)
}

func (p *BitPart) write(value []byte, n int64) {
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
