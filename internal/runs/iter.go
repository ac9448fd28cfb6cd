package runs

import "bytes"

// Iter walks over a View in the order of keys, in both directions, showing of
// each key the newest operation. It is not for concurrent use.
type Iter struct {
	log          opLog
	depth        int
	lower, upper []byte
	cursors      []cursor // one per run, oldest first
	direction    int8     // +1, -1, or 0 before the first move
	current      *op      // nil if not on an operation
	same         uint64   // which cursors stand on the current key
}

// cursor is a position in one run. Going forwards it is on the first entry at or
// behind the current key; going backwards on the last at or before it.
// It may be one step outside the run on either side.
type cursor struct {
	run run
	at  int
}

// Iter returns an iterator over lower <= key < upper, before its first
// move: Next begins at the first key, Prev at the last. Nil bounds are none.
func (v View) Iter(lower, upper []byte) *Iter {
	it := &Iter{log: v.log, depth: v.depth, lower: lower, upper: upper, cursors: make([]cursor, len(v.runs))}
	for i, r := range v.runs {
		it.cursors[i].run = r
	}
	return it
}

// First moves to the first key.
func (it *Iter) First() bool { return it.SeekGE(it.lower) }

// Last moves to the last key.
func (it *Iter) Last() bool {
	if it.upper != nil {
		return it.SeekLT(it.upper)
	}
	for i := range it.cursors {
		it.cursors[i].at = len(it.cursors[i].run) - 1
	}
	return it.backward()
}

// SeekGE moves to the first key at or behind key.
func (it *Iter) SeekGE(key []byte) bool {
	it.seek(key, 0)
	return it.forward()
}

// SeekLT moves to the last key before key.
func (it *Iter) SeekLT(key []byte) bool {
	it.seek(key, -1)
	return it.backward()
}

// seek puts every cursor so far from the first entry at or behind key. Beyond
// a bound it goes to the bound, from where Next and Prev lead back inside.
func (it *Iter) seek(key []byte, offset int) {
	if bytes.Compare(key, it.lower) < 0 {
		key = it.lower
	}
	if it.upper != nil && bytes.Compare(key, it.upper) > 0 {
		key = it.upper
	}
	for i := range it.cursors {
		at, _ := it.cursors[i].run.search(it.log, key, it.depth)
		it.cursors[i].at = at + offset
	}
}

// Next moves to the next key. Behind the last one it stays there.
func (it *Iter) Next() bool {
	switch {
	case it.direction == 0:
		return it.First()
	case it.direction < 0:
		// Every cursor is on the last entry up to the current key.
		for i := range it.cursors {
			it.cursors[i].at++
		}
	case it.current == nil:
		return false
	default:
		it.step(1)
	}
	return it.forward()
}

// Prev moves to the key before. Before the first one it stays there.
func (it *Iter) Prev() bool {
	switch {
	case it.direction == 0:
		return it.Last()
	case it.direction > 0:
		// Every cursor is on the first entry from the current key on.
		for i := range it.cursors {
			it.cursors[i].at--
		}
	case it.current == nil:
		return false
	default:
		it.step(-1)
	}
	return it.backward()
}

// Valid tells whether the iterator is on an operation.
func (it *Iter) Valid() bool { return it.current != nil }

// Key returns the current key. Like Value and Deleted it needs Valid, and hands
// out the slice that was appended.
func (it *Iter) Key() []byte { return it.current.keyBytes() }

// Value returns the current value.
func (it *Iter) Value() []byte { return it.current.valueBytes() }

// Deleted tells whether the current operation deleted its key.
func (it *Iter) Deleted() bool { return it.current.deleted() }

// step moves the cursors that stand on the current key.
func (it *Iter) step(by int) {
	for i := range it.cursors {
		if it.same>>i&1 != 0 {
			it.cursors[i].at += by
		}
	}
}

// forward makes the least key under the cursors the current one.
func (it *Iter) forward() bool {
	it.pick(1)
	if it.current != nil && it.upper != nil && bytes.Compare(it.current.keyBytes(), it.upper) >= 0 {
		it.current = nil
	}
	return it.current != nil
}

// backward makes the greatest key under the cursors the current one.
func (it *Iter) backward() bool {
	it.pick(-1)
	if it.current != nil && bytes.Compare(it.current.keyBytes(), it.lower) < 0 {
		it.current = nil
	}
	return it.current != nil
}

// pick chooses among the cursors. Of equal keys the newest run's wins, so the
// runs are tried from the newest on.
func (it *Iter) pick(direction int8) {
	var best entry
	it.direction, it.same = direction, 0
	for i := len(it.cursors) - 1; i >= 0; i-- {
		c := &it.cursors[i]
		if uint(c.at) >= uint(len(c.run)) {
			continue // outside, on either side
		}
		e := c.run[c.at]
		order := -1
		if it.same != 0 {
			order = compare(it.log, e, best, it.depth) * int(direction)
		}
		switch {
		case order < 0:
			best, it.same = e, 1<<i
		case order == 0:
			it.same |= 1 << i
		}
	}
	it.current = nil
	if it.same != 0 {
		it.current = it.log.at(best.op)
	}
}
