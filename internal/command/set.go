package command

import "github.com/cleavekv/cleave/partition"

// Condition says when a Set writes.
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
// it is the old value or Nil, and Version tells whether the key was written.
type Set struct {
	Key    partition.Position
	Value  []byte
	If     Condition
	Expiry Expiry // zero for none, also if the key had one
	// Version is for IfVersion.
	Version uint64
	// ReturnOld is Redis' GET. ErrWrongType if the key holds no String.
	ReturnOld bool
}

// Blind tells that what the key held before does not matter: not for what it holds then, nor for
// the reply.
func (c *Set) Blind() bool {
	return c.If == Always && !c.ReturnOld && c.Expiry.how != expireKeep
}

// Eval sets the key.
func (c *Set) Eval(e *Env) Reply {
	expiry, err := c.check(e)
	if err != nil {
		return failed(err)
	}
	var old Row
	var alive bool
	if c.Blind() {
		old, err = e.loadBlind(c.Key)
	} else {
		old, alive, err = e.load(c.Key)
	}
	if err != nil {
		return failed(err)
	}
	reply := Reply{Kind: OK}
	if c.ReturnOld {
		if reply = e.oldText(&old, alive); reply.Err != nil {
			return reply
		}
	}
	if holds, err := c.holds(&old, alive); err != nil {
		return failed(err)
	} else if !holds {
		if !c.ReturnOld {
			reply.Kind = Nil
		}
		return reply
	}
	if c.Expiry.how == expireKeep && alive {
		expiry = old.ExpiryMS
	}
	if expiry != 0 && expiry <= e.nowAt(c.Key) {
		e.remove(c.Key, &old, false) // also if old is absent: it may be a blind guess
		return reply
	}
	reply.Version = e.replace(c.Key, &old, Row{Kind: String, ExpiryMS: expiry, Payload: c.Value})
	return reply
}

func (c *Set) check(e *Env) (expiry int64, err error) {
	if c.If > IfVersion {
		return 0, errCondition
	}
	if c.Version != 0 && c.If != IfVersion {
		return 0, errVersion
	}
	if err := checkValue(len(c.Value)); err != nil {
		return 0, err
	}
	now := e.now
	if c.Expiry.how == expireIn { // most have none, and the time of a key takes a look at its group
		now = e.nowAt(c.Key)
	}
	return c.Expiry.ofNew(now)
}

func (c *Set) holds(old *Row, alive bool) (bool, error) {
	switch c.If {
	case IfAbsent:
		return !alive, nil
	case IfPresent:
		return alive, nil
	case IfVersion:
		if alive && old.Version != c.Version || !alive && c.Version != 0 {
			return false, conflict(c.Key, false)
		}
	}
	return true, nil
}

// oldText is the reply about a value that may be replaced.
func (e *Env) oldText(old *Row, alive bool) Reply {
	switch {
	case !alive:
		return Reply{}
	case old.Kind != String:
		return failed(ErrWrongType)
	}
	return Reply{Kind: Bytes, Bytes: e.keep(old.Payload)}
}

// Get is GET. The reply is the value of a String, or Nil.
type Get struct{ Key partition.Position }

// Eval reads the key.
func (c *Get) Eval(e *Env) Reply {
	row, alive, err := e.loadString(c.Key)
	if err != nil {
		return failed(err)
	}
	if !alive {
		return Reply{}
	}
	return Reply{Kind: Bytes, Bytes: e.keep(row.Payload), Version: row.Version}
}
