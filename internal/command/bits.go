package command

import (
	"math/bits"

	"github.com/cleavekv/cleave/partition"
)

// Bits of a value count from 0, the highest of its first byte, as in Redis.

// MaxBit is the last bit that a value may have.
const MaxBit = MaxValueBytes*8 - 1

// SetBit is SETBIT: it sets one bit of a value, which is padded with zeros if it is
// shorter. The reply is the bit before.
type SetBit struct {
	Key    partition.Position
	Offset int64
	On     bool
}

// Eval sets the bit.
func (c *SetBit) Eval(e *Env) Reply {
	if c.Offset < 0 || c.Offset > MaxBit {
		return failed(errBit)
	}
	row, alive, err := e.loadString(c.Key)
	if err != nil {
		return failed(err)
	}
	value := e.stretched(liveText(&row, alive), int(c.Offset/8)+1)
	at, mask := &value[c.Offset/8], byte(1)<<(7-c.Offset%8)
	old := *at&mask != 0
	if *at &^= mask; c.On {
		*at |= mask
	}
	return truth(old, e.setText(c.Key, &row, alive, value))
}

// stretched copies a value into scratch memory, with zeros behind it up to a length.
func (e *Env) stretched(value []byte, atLeast int) []byte {
	e.join = append(e.join[:0], value...)
	if n := atLeast - len(e.join); n > 0 {
		e.join = append(e.join, make([]byte, n)...)
	}
	return e.join
}

// GetBit is GETBIT. The reply is the bit, 0 behind the end of the value.
type GetBit struct {
	Key    partition.Position
	Offset int64
}

// Eval reads the bit.
func (c *GetBit) Eval(e *Env) Reply {
	if c.Offset < 0 || c.Offset > MaxBit {
		return failed(errBit)
	}
	row, alive, err := e.loadString(c.Key)
	if err != nil {
		return failed(err)
	}
	value := liveText(&row, alive)
	return truth(bitAt(value, c.Offset), row.Version)
}

func bitAt(value []byte, i int64) bool {
	return i/8 < int64(len(value)) && value[i/8]>>(7-i%8)&1 != 0
}

// Stretch is a part of a value: from Start to End, both included, in bytes, or in bits if
// Bits. Negative ones count from the end.
type Stretch struct {
	Start, End int64
	Bits       bool
}

// of returns the part of n bytes as a half-open range of bits; by is how its ends are read.
func (s Stretch) of(n int64, by func(start, end, n int64) (int64, int64)) (start, end int64) {
	size := int64(8)
	if s.Bits {
		n, size = n*8, 1
	}
	start, end = by(s.Start, s.End, n)
	return start * size, end * size
}

// BitCount is BITCOUNT. The reply is how many bits of a part are set.
type BitCount struct {
	Key  partition.Position
	Part Stretch
}

// Eval counts.
func (c *BitCount) Eval(e *Env) Reply {
	row, alive, err := e.loadString(c.Key)
	if err != nil {
		return failed(err)
	}
	value := liveText(&row, alive)
	start, end := c.Part.of(int64(len(value)), forward)
	return number(ones(value, start, end), row.Version)
}

// ones counts the bits that are set in [start, end).
func ones(value []byte, start, end int64) (n int64) {
	for ; start < end && start%8 != 0; start++ {
		n += bit(value, start)
	}
	for ; end > start && end%8 != 0; end-- {
		n += bit(value, end-1)
	}
	for _, b := range value[start/8 : end/8] {
		n += int64(bits.OnesCount8(b))
	}
	return n
}

func bit(value []byte, i int64) int64 { return int64(value[i/8] >> (7 - i%8) & 1) }

// BitPos is BITPOS: where in a part the first bit is that is set, or not. The reply is -1
// if there is none. Behind the end of the value all bits are zero, unless Bounded.
type BitPos struct {
	Key  partition.Position
	On   bool
	Part Stretch
	// Bounded tells that the client has said where to end.
	Bounded bool
}

// Eval searches.
func (c *BitPos) Eval(e *Env) Reply {
	row, alive, err := e.loadString(c.Key)
	if err != nil {
		return failed(err)
	}
	if !alive {
		if c.On {
			return number(-1, 0)
		}
		return number(0, 0)
	}
	start, end := c.Part.of(int64(len(row.Payload)), bounds)
	at := search(row.Payload, start, end, c.On)
	if at < 0 && !c.On && !c.Bounded && start < end {
		at = int64(len(row.Payload)) * 8
	}
	return number(at, row.Version)
}

// search returns the first bit in [start, end) that is as wanted, or -1.
func search(value []byte, start, end int64, on bool) int64 {
	skip := byte(0xff)
	if on {
		skip = 0
	}
	for i := start; i < end; {
		if i%8 == 0 && value[i/8] == skip {
			i += 8
			continue
		}
		if bitAt(value, i) == on {
			return i
		}
		i++
	}
	return -1
}
