package command

import (
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

// Range reads keys in their order, or in the reverse of it. The reply has an
// item for each: its position as Field, its Kind and Version, and the value of
// a String. If More, go on behind the last item: set Start to [After] its Field,
// or, in reverse, End to it.
//
// The elements of a collection lie between keys, so passing a large one costs a
// read of all of it.
type Range struct {
	// Start and End bound the positions. An empty End is the end of the space.
	Start, End partition.Position
	Reverse    bool
	Limit      int
}

// Eval reads the keys.
func (c *Range) Eval(e *Env) Reply {
	if c.Limit <= 0 {
		return failed(errLimit)
	}
	if err := e.mayReadSpan(c.Start, c.End); err != nil {
		return failed(err)
	}
	from, to := effect.Rows.Between(c.Start, c.End)
	start, more := len(e.items), false
	var bad error
	err := e.Scan(from, to, c.Reverse, func(key, value []byte) bool {
		var row Row
		if row, bad = DecodeRow(value); bad != nil {
			return false
		}
		if row.Kind == Element || !e.alive(key[1:], &row) {
			return true
		}
		if more = len(e.items)-start == c.Limit; more {
			return false
		}
		e.items = append(e.items, Item{
			Field: e.save(key[1:]), Value: e.save(row.Payload), Found: true, Kind: row.Kind, Version: row.Version,
		})
		return true
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return failed(err)
	}
	reply := e.itemsSince(start, 0)
	reply.More = more
	return reply
}

// After returns the first position behind p: where a Range that has read p goes
// on.
func After(p partition.Position) partition.Position {
	return append(append(make(partition.Position, 0, len(p)+1), p...), 0)
}
