package command

import "github.com/cleavekv/cleave/partition"

// Append is APPEND. The reply is the length after it.
type Append struct {
	Key  partition.Position
	Tail []byte
}

// Eval appends to the value.
func (c *Append) Eval(e *Env) Reply {
	row, alive, err := e.loadString(c.Key)
	if err != nil {
		return failed(err)
	}
	old := liveText(&row, alive)
	n := len(old) + len(c.Tail)
	if err := checkValue(n); err != nil {
		return failed(err)
	}
	e.join = append(append(e.join[:0], old...), c.Tail...)
	return number(int64(n), e.setText(c.Key, &row, alive, e.join))
}

// liveText is the value of a String, empty if it is not there.
func liveText(row *Row, alive bool) []byte {
	if !alive {
		return nil
	}
	return row.Payload
}

// Strlen is STRLEN. The reply is the length of the value, 0 if the key is
// absent.
type Strlen struct{ Key partition.Position }

// Eval measures the value.
func (c *Strlen) Eval(e *Env) Reply {
	row, alive, err := e.loadString(c.Key)
	switch {
	case err != nil:
		return failed(err)
	case !alive:
		return number(0, 0)
	}
	return number(int64(len(row.Payload)), row.Version)
}

// GetRange is GETRANGE: the bytes from Start to End, both included; negative
// ones count from the end. The reply is empty if there are none.
type GetRange struct {
	Key        partition.Position
	Start, End int64
}

// Eval reads part of the value.
func (c *GetRange) Eval(e *Env) Reply {
	row, alive, err := e.loadString(c.Key)
	switch {
	case err != nil:
		return failed(err)
	case !alive:
		return Reply{Kind: Bytes, Bytes: []byte{}}
	}
	start, end := forward(c.Start, c.End, int64(len(row.Payload)))
	// save, not keep: the rest of a large value need not stay.
	return Reply{Kind: Bytes, Bytes: e.save(row.Payload[start:end]), Version: row.Version}
}

// forward is bounds, but empty if both ends count from the end and are the wrong way
// round, however short the value is. Redis asks so everywhere but in BITPOS.
func forward(start, end, n int64) (from, to int64) {
	if start < 0 && end < 0 && start > end {
		return 0, 0
	}
	return bounds(start, end, n)
}

// bounds returns a part of n bytes or bits, whose ends are included and count from the end
// if they are negative, as a half-open range.
func bounds(start, end, n int64) (from, to int64) {
	if start < 0 {
		start = max(0, n+start)
	}
	if end < 0 {
		end = max(0, n+end)
	}
	if end = min(end, n-1); start > end {
		return 0, 0
	}
	return start, end + 1
}

// SetRange is SETRANGE: it overwrites part of the value, which is padded with
// zeros if it is shorter. The reply is the length after it. An empty Part
// changes nothing.
type SetRange struct {
	Key    partition.Position
	Offset int64
	Part   []byte
}

// Eval overwrites part of the value.
func (c *SetRange) Eval(e *Env) Reply {
	if c.Offset < 0 {
		return failed(errOffset)
	}
	row, alive, err := e.loadString(c.Key)
	if err != nil {
		return failed(err)
	}
	old := liveText(&row, alive)
	if len(c.Part) == 0 {
		version := uint64(0)
		if alive {
			version = row.Version
		}
		return number(int64(len(old)), version)
	}
	if c.Offset > MaxValueBytes { // the sum below must not overflow
		return failed(&LimitError{"value", int(min(c.Offset, 1<<31-1)), MaxValueBytes})
	}
	end := int(c.Offset) + len(c.Part)
	if err := checkValue(end); err != nil {
		return failed(err)
	}
	e.join = append(e.join[:0], old...)
	if len(e.join) < end {
		e.join = append(e.join, make([]byte, end-len(e.join))...)
	}
	copy(e.join[c.Offset:], c.Part)
	return number(int64(len(e.join)), e.setText(c.Key, &row, alive, e.join))
}
