package command

import (
	"github.com/cleavekv/cleave/partition"
)

// Condition is the condition under which a Set writes.
type Condition uint8

// The conditions.
const (
	// Always is no condition.
	Always Condition = iota
	// IfAbsent is Redis' NX.
	IfAbsent
	// IfPresent is Redis' XX.
	IfPresent
	// IfVersion wants the key at Set.Version, 0 for absent. Any other is
	// ErrConflict.
	IfVersion
)

// Set is SET: it gives the key a String value, whatever it held before.
// The reply is OK, or Nil if IfAbsent or IfPresent did not hold; with ReturnOld
// it is the old value or Nil, and Version reports whether the key was written.
type Set struct {
	Key       partition.Position
	Value     []byte
	Condition Condition
	Expiry    Expiry // zero for none, also if the key had one
	// Version is for IfVersion.
	Version uint64
	// ReturnOld is Redis' GET. ErrWrongType if the key holds no String.
	ReturnOld bool
}

// IsBlind reports that what the key held before does not matter: not for what it holds then, nor for
// the reply.
func (c *Set) IsBlind() bool {
	return c.Condition == Always && !c.ReturnOld && c.Expiry.mode != expiryKeep
}

// Eval sets the key.
func (c *Set) Eval(e *Env) Reply {
	expiry, err := c.checkOptions(e)
	if err != nil {
		return failedReply(err)
	}
	var old Row
	var alive bool
	if c.IsBlind() {
		old, err = e.loadBlind(c.Key)
	} else {
		old, alive, err = e.loadRow(c.Key)
	}
	if err != nil {
		return failedReply(err)
	}
	reply := Reply{Kind: OK}
	if c.ReturnOld {
		if reply = e.oldValueReply(c.Key, &old, alive); reply.Err != nil {
			return reply
		}
	}
	if holds, err := c.checkCondition(&old, alive); err != nil {
		return failedReply(err)
	} else if !holds {
		if !c.ReturnOld {
			reply.Kind = Nil
		}
		return reply
	}
	if c.Expiry.mode == expiryKeep && alive {
		expiry = old.ExpiryMS
	}
	if expiry != 0 && expiry <= e.nowMSAt(c.Key) {
		e.removeRow(c.Key, &old, false) // also if old is absent: it may be a blind guess
		return reply
	}
	reply.Version = e.replaceRow(c.Key, &old, Row{Kind: String, ExpiryMS: expiry, Payload: c.Value})
	return reply
}

func (c *Set) checkOptions(e *Env) (expiry int64, err error) {
	if c.Condition > IfVersion {
		return 0, errCondition
	}
	if c.Version != 0 && c.Condition != IfVersion {
		return 0, errUnusedVersion
	}
	if err := checkValueBytes(len(c.Value)); err != nil {
		return 0, err
	}
	now := e.nowMS
	if c.Expiry.mode == expiryIn { // most have none, and the time of a key takes a lookup of its group
		now = e.nowMSAt(c.Key)
	}
	return c.Expiry.toPositiveUnixMS(now)
}

func (c *Set) checkCondition(old *Row, alive bool) (bool, error) {
	switch c.Condition {
	case IfAbsent:
		return !alive, nil
	case IfPresent:
		return alive, nil
	case IfVersion:
		if alive && old.Version != c.Version || !alive && c.Version != 0 {
			return false, newConflict(c.Key, false)
		}
	}
	return true, nil
}

// oldValueReply is the reply about a value that may be replaced.
func (e *Env) oldValueReply(p partition.Position, old *Row, alive bool) Reply {
	switch {
	case !alive:
		return Reply{}
	case old.Type() != String:
		return failedReply(ErrWrongType)
	}
	value, err := e.readStringValue(p, old)
	if err != nil {
		return failedReply(err)
	}
	return Reply{Kind: Bytes, Bytes: value}
}

// Get is GET. The reply is the value of a String, or Nil.
type Get struct{ Key partition.Position }

// Eval reads the key.
func (c *Get) Eval(e *Env) Reply {
	row, alive, err := e.loadString(c.Key)
	if err != nil {
		return failedReply(err)
	}
	if !alive {
		return Reply{}
	}
	value, err := e.readStringValue(c.Key, &row)
	if err != nil {
		return failedReply(err)
	}
	return Reply{Kind: Bytes, Bytes: value, Version: row.Version}
}

// Append is APPEND. The reply is the length after it.
type Append struct {
	Key    partition.Position
	Suffix []byte
}

// Eval appends to the value.
func (c *Append) Eval(e *Env) Reply {
	row, alive, err := e.loadString(c.Key)
	if err != nil {
		return failedReply(err)
	}
	return e.writeStringRange(c.Key, &row, alive, row.stringLen(alive), c.Suffix)
}

// Strlen is STRLEN. The reply is the length of the value, 0 if the key is
// absent.
type Strlen struct{ Key partition.Position }

// Eval measures the value.
func (c *Strlen) Eval(e *Env) Reply {
	row, alive, err := e.loadString(c.Key)
	switch {
	case err != nil:
		return failedReply(err)
	case !alive:
		return intReply(0, 0)
	}
	return intReply(int64(row.stringLen(alive)), row.Version)
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
		return failedReply(err)
	case !alive:
		return Reply{Kind: Bytes, Bytes: []byte{}}
	}
	start, end := clampForward(c.Start, c.End, int64(row.stringLen(alive)))
	part, err := e.readStringRange(c.Key, &row, start, end)
	if err != nil {
		return failedReply(err)
	}
	if row.Kind == String { // save, not keep: the rest of a large value need not stay
		part = e.copyToArena(part)
	}
	return Reply{Kind: Bytes, Bytes: part, Version: row.Version}
}

// clampForward is bounds, but empty if both ends count from the end and are the wrong way
// round, however short the value is. Redis asks so everywhere but in BITPOS.
func clampForward(start, end, n int64) (from, to int64) {
	if start < 0 && end < 0 && start > end {
		return 0, 0
	}
	return clampRange(start, end, n)
}

// clampRange returns a part of n bytes or bits, whose ends are included and count from the end
// if they are negative, as a half-open range.
func clampRange(start, end, n int64) (from, to int64) {
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
	Value  []byte
}

// Eval overwrites part of the value.
func (c *SetRange) Eval(e *Env) Reply {
	if c.Offset < 0 {
		return failedReply(errOffset)
	}
	row, alive, err := e.loadString(c.Key)
	if err != nil {
		return failedReply(err)
	}
	if len(c.Value) == 0 {
		version := uint64(0)
		if alive {
			version = row.Version
		}
		return intReply(int64(row.stringLen(alive)), version)
	}
	if c.Offset > MaxValueBytes { // its sum with the length must not overflow
		return failedReply(&LimitError{"value", int(min(c.Offset, 1<<31-1)), MaxValueBytes})
	}
	return e.writeStringRange(c.Key, &row, alive, int(c.Offset), c.Value)
}
