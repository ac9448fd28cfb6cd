package command

import "github.com/cleavekv/cleave/partition"

// Delete is DEL. The reply is how many of the keys there were.
type Delete struct{ Keys []partition.Position }

// Eval deletes the keys.
func (c *Delete) Eval(e *Env) Reply {
	if err := checkCount(len(c.Keys)); err != nil {
		return failed(err)
	}
	n := int64(0)
	for _, key := range c.Keys {
		row, alive, err := e.load(key)
		if err != nil {
			return failed(err)
		}
		if alive {
			e.remove(key, &row, false)
			n++
		}
	}
	return number(n, 0)
}

// Exists is EXISTS. The reply is how many of the keys there are; one that is
// named twice counts twice.
type Exists struct{ Keys []partition.Position }

// Eval counts the keys.
func (c *Exists) Eval(e *Env) Reply {
	if err := checkCount(len(c.Keys)); err != nil {
		return failed(err)
	}
	n := int64(0)
	for _, key := range c.Keys {
		_, alive, err := e.load(key)
		if err != nil {
			return failed(err)
		}
		if alive {
			n++
		}
	}
	return number(n, 0)
}

// Type is TYPE. The reply is the Kind as a number, None for an absent key.
type Type struct{ Key partition.Position }

// Eval looks at the key.
func (c *Type) Eval(e *Env) Reply {
	row, alive, err := e.load(c.Key)
	if err != nil {
		return failed(err)
	}
	if !alive {
		return number(int64(None), 0)
	}
	return number(int64(row.Kind), row.Version)
}
