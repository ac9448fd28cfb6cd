package command

import (
	"bytes"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/partition"
)

// Reap deletes a key that has expired, if nobody has written it since it was
// found. The reply is 1 if it did. What a transaction has locked is not: the caller tries
// again.
type Reap struct {
	Key     partition.Position
	Version uint64
}

// Eval deletes the key.
func (c *Reap) Eval(e *Env) Reply {
	row, alive, err := e.load(c.Key)
	if err != nil {
		return failed(err)
	}
	due := !alive && row.Kind != None && row.Version == c.Version
	if alive && !row.Alive(e.now) {
		e.mayWrite(c.Key) // a transaction that has read it keeps it alive, and is in the way
	}
	if due {
		e.remove(c.Key, &row, false)
	}
	return truth(due, 0)
}

// Sweep removes elements that collections at a key have left behind. Keys that
// need it have a row in [effect.Orphans]. The reply is how many rows were
// removed; if More, call again.
type Sweep struct {
	Key partition.Position
	// Limit is how many rows to look at.
	Limit int
}

// Eval sweeps on from where the last call has stopped.
func (c *Sweep) Eval(e *Env) Reply {
	if c.Limit <= 0 {
		return failed(errLimit)
	}
	if err := checkCount(c.Limit); err != nil {
		return failed(err)
	}
	row, _, err := e.load(c.Key) // dead or alive: its elements are not orphans yet
	if err != nil {
		return failed(err)
	}
	h := hash{}
	if row.Kind == Hash {
		h.generation = row.Generation
	}
	note := effect.Orphans.AppendKey(nil, c.Key)
	cursor, noted, err := e.lookup(note)
	if err != nil {
		return failed(err)
	}
	if !noted {
		return number(0, 0)
	}
	start, end := elementSpan(c.Key, cursor)
	orphans, last, more, err := e.findOrphans(&h, start, end, c.Limit)
	if err != nil {
		return failed(err)
	}
	e.mayWrite(c.Key)
	for i := range orphans {
		e.delete(orphans[i].Field)
		e.rows++
	}
	if more {
		e.put(note, last[1+len(c.Key):], nil)
	} else {
		e.delete(note)
	}
	return Reply{Kind: Int, Int: int64(len(orphans)), More: more}
}

// elementSpan returns the store keys of all elements of a key, of whatever kind
// of collection, behind cursor. A position ends in 0x01, so its successor is
// the next key's beginning.
func elementSpan(p partition.Position, cursor []byte) (start, end []byte) {
	prefix := effect.Rows.AppendKey(nil, p)
	start = append(append(bytes.Clone(prefix), cursor...), 0)
	prefix[len(prefix)-1]++
	return start, prefix
}

// findOrphans looks at up to limit elements and returns the store keys of those
// that are not of the hash, and the last one that it has looked at.
func (e *Env) findOrphans(h *hash, start, end []byte, limit int) (orphans []Item, last []byte, more bool, err error) {
	from, seen := len(e.items), 0
	var bad error
	err = e.Scan(start, end, false, func(key, raw []byte) bool {
		if more = seen == limit; more {
			return false
		}
		var own bool
		if _, own, bad = h.element(raw); bad != nil {
			return false
		}
		seen++
		last = e.save(key)
		if !own {
			e.items = append(e.items, Item{Field: last})
		}
		return true
	})
	if err == nil {
		err = bad
	}
	return e.items[from:], last, more, err
}
