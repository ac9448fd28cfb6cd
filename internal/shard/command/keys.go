package command

import (
	"bytes"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// Delete is DEL. The reply is how many of the keys there were.
type Delete struct{ Keys []partition.Position }

// Eval deletes the keys.
func (c *Delete) Eval(e *Env) Reply {
	if err := checkKeyCount(len(c.Keys)); err != nil {
		return failedReply(err)
	}
	n := int64(0)
	for _, key := range c.Keys {
		row, alive, err := e.loadRow(key)
		if err != nil {
			return failedReply(err)
		}
		if alive {
			e.removeRow(key, &row, false)
			n++
		}
	}
	return intReply(n, 0)
}

// Exists is EXISTS. The reply is how many of the keys there are; one that is
// named twice counts twice.
type Exists struct{ Keys []partition.Position }

// Eval counts the keys.
func (c *Exists) Eval(e *Env) Reply {
	if err := checkKeyCount(len(c.Keys)); err != nil {
		return failedReply(err)
	}
	n := int64(0)
	for _, key := range c.Keys {
		_, alive, err := e.loadRow(key)
		if err != nil {
			return failedReply(err)
		}
		if alive {
			n++
		}
	}
	return intReply(n, 0)
}

// Type is TYPE. The reply is the Kind as a number, None for an absent key.
type Type struct{ Key partition.Position }

// Eval reads the key.
func (c *Type) Eval(e *Env) Reply {
	row, alive, err := e.loadRow(c.Key)
	if err != nil {
		return failedReply(err)
	}
	if !alive {
		return intReply(int64(None), 0)
	}
	return intReply(int64(row.Type()), row.Version)
}

// Range reads keys in their order, or in the reverse of it. The reply has an
// item for each: its position as Field, its Kind and Version, and the value of
// a String. If More, go on behind the last item: set Start to [NextPosition] its Field,
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
		return failedReply(errLimit)
	}
	if err := e.checkReadSpan(c.Start, c.End); err != nil {
		return failedReply(err)
	}
	from, to := effect.Rows.SpanBetween(c.Start, c.End)
	start, more := len(e.items), false
	var bad error
	var chunked []int // items whose values are read behind the scan
	err := e.Scan(from, to, c.Reverse, func(key, value []byte) bool {
		var row Row
		if row, bad = DecodeRow(value); bad != nil {
			return false
		}
		if row.Kind == Element || !e.isAlive(key[1:], &row) {
			return true
		}
		if more = len(e.items)-start == c.Limit; more {
			return false
		}
		if row.Kind == Chunked {
			chunked = append(chunked, len(e.items))
		}
		e.items = append(e.items, Item{
			Field: e.copyToArena(key[1:]), Value: e.copyToArena(row.Payload), Found: true, Kind: row.Type(), Version: row.Version,
		})
		return true
	})
	if err == nil {
		err = bad
	}
	for i := 0; i < len(chunked) && err == nil; i++ {
		item := &e.items[chunked[i]]
		var row Row
		if row, _, err = e.loadRow(item.Field); err == nil {
			item.Value, err = e.readStringValue(item.Field, &row)
		}
	}
	if err != nil {
		return failedReply(err)
	}
	reply := e.newItemsReply(start, 0)
	reply.More = more
	return reply
}

// NextPosition returns the first position behind p: where a Range that has read p goes
// on.
func NextPosition(p partition.Position) partition.Position {
	return append(append(make(partition.Position, 0, len(p)+1), p...), 0)
}

// Reap deletes a key that has expired, if it was not written since it was found. The reply is 1
// if Reap deleted it. A key that a transaction has locked is not deleted: the caller tries
// again.
type Reap struct {
	Key     partition.Position
	Version uint64
}

// Eval deletes the key.
func (c *Reap) Eval(e *Env) Reply {
	row, alive, err := e.loadRow(c.Key)
	if err != nil {
		return failedReply(err)
	}
	due := !alive && row.Kind != None && row.Version == c.Version
	if alive && !row.IsAlive(e.nowMS) {
		e.ensureWritable(c.Key) // a transaction that has read it keeps it alive, and is in the way
	}
	if due {
		e.removeRow(c.Key, &row, false)
	}
	return boolReply(due, 0)
}

// Sweep removes elements that collections at a key have left behind. Keys that
// need it have a row in [effect.Orphans]. The reply is how many rows were
// removed; if More, call again.
type Sweep struct {
	Key partition.Position
	// Limit is how many rows to read.
	Limit int
}

// Eval sweeps on from where the last call has stopped.
func (c *Sweep) Eval(e *Env) Reply {
	if c.Limit <= 0 {
		return failedReply(errLimit)
	}
	if err := checkKeyCount(c.Limit); err != nil {
		return failedReply(err)
	}
	row, _, err := e.loadRow(c.Key) // dead or alive: its elements are not orphans yet
	if err != nil {
		return failedReply(err)
	}
	h := hashState{}
	if row.hasElements() {
		h.generation = row.Generation
	}
	note := effect.Orphans.AppendKey(nil, c.Key)
	cursor, noted, err := e.lookupRow(note)
	if err != nil {
		return failedReply(err)
	}
	if !noted {
		return intReply(0, 0)
	}
	start, end := elementSpan(c.Key, cursor)
	orphans, last, more, err := e.findOrphans(&h, start, end, c.Limit)
	if err != nil {
		return failedReply(err)
	}
	e.ensureWritable(c.Key)
	for i := range orphans {
		e.deleteRow(orphans[i].Field)
	}
	if more {
		e.putRow(note, last[1+len(c.Key):], nil)
	} else {
		e.deleteRow(note)
	}
	return Reply{Kind: Int, Int: int64(len(orphans)), More: more}
}

// ElementSpan returns the store keys of all elements of a key.
func ElementSpan(p partition.Position) (start, end []byte) { return elementSpan(p, nil) }

// elementSpan returns the store keys of all elements of a key, of whatever kind
// of collection, behind cursor. A position ends in 0x01, so its successor is
// the next key's beginning.
func elementSpan(p partition.Position, cursor []byte) (start, end []byte) {
	prefix := effect.Rows.AppendKey(nil, p)
	start = append(append(bytes.Clone(prefix), cursor...), 0)
	prefix[len(prefix)-1]++
	return start, prefix
}

// findOrphans reads up to limit elements and returns the store keys of those
// that are not of the hash, and the last one that it has read.
func (e *Env) findOrphans(h *hashState, start, end []byte, limit int) (orphans []Item, last []byte, more bool, err error) {
	from, seen := len(e.items), 0
	var bad error
	err = e.Scan(start, end, false, func(key, raw []byte) bool {
		if more = seen == limit; more {
			return false
		}
		var own bool
		if _, own, bad = h.decodeElement(raw); bad != nil {
			return false
		}
		seen++
		last = e.copyToArena(key)
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
