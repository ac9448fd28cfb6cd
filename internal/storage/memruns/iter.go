package memruns

// Iter walks over a View in the order of keys, in both directions, showing of
// each key the newest operation. It is not for concurrent use.
type Iter struct {
	view      View
	cursors   []runCursor // of runs that have keys within the bounds, oldest first
	direction int8        // +1, -1, or 0 before the first move
	current   *packedOp   // nil if not on an operation
	onCurrent uint64      // which cursors stand on the current key
}

// runCursor is a position in one run. Going forwards it is on the first entry at or
// behind the current key; going backwards on the last at or before it.
// It may be one step outside the run on either side.
type runCursor struct {
	run run // what is within the bounds
	at  int
}

// Iter returns an iterator over lower <= key < upper, before its first
// move: Next begins at the first key, Prev at the last. Nil bounds are none.
func (v View) Iter(lower, upper []byte) *Iter {
	it := &Iter{view: v}
	if len(v.runs) == 0 {
		return it
	}
	from, to := v.newSearchKey(lower), v.newSearchKey(upper)
	for i, r := range v.runs {
		if upper != nil {
			end, _ := r.search(v.log, &to)
			r = r[:end]
		}
		begin, _ := r.search(v.log, &from)
		if r = r[begin:]; len(r) > 0 {
			if it.cursors == nil {
				it.cursors = make([]runCursor, 0, len(v.runs)-i)
			}
			it.cursors = append(it.cursors, runCursor{run: r})
		}
	}
	return it
}

// IsEmpty reports whether there is nothing within the bounds.
func (it *Iter) IsEmpty() bool { return len(it.cursors) == 0 }

// First moves to the first key.
func (it *Iter) First() bool {
	for i := range it.cursors {
		it.cursors[i].at = 0
	}
	return it.setCurrent(1)
}

// Last moves to the last key.
func (it *Iter) Last() bool {
	for i := range it.cursors {
		it.cursors[i].at = len(it.cursors[i].run) - 1
	}
	return it.setCurrent(-1)
}

// SeekGE moves to the first key at or behind key.
func (it *Iter) SeekGE(key []byte) bool {
	it.seekCursors(key, 0)
	return it.setCurrent(1)
}

// SeekLT moves to the last key before key.
func (it *Iter) SeekLT(key []byte) bool {
	it.seekCursors(key, -1)
	return it.setCurrent(-1)
}

// seekCursors puts every cursor so far from the first entry at or behind key. Beyond
// a bound it goes one step outside, from where Next and Prev lead back inside.
func (it *Iter) seekCursors(key []byte, offset int) {
	if len(it.cursors) == 0 {
		return
	}
	to := it.view.newSearchKey(key)
	for i := range it.cursors {
		at, _ := it.cursors[i].run.search(it.view.log, &to)
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
		it.stepCursors(1)
	}
	return it.setCurrent(1)
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
		it.stepCursors(-1)
	}
	return it.setCurrent(-1)
}

// Valid reports whether the iterator is on an operation.
func (it *Iter) Valid() bool { return it.current != nil }

// Key returns the current key. Like Value and Deleted it needs Valid, and hands
// out the slice that was appended.
func (it *Iter) Key() []byte { return it.current.keyBytes() }

// Value returns the current value.
func (it *Iter) Value() []byte { return it.current.valueBytes() }

// IsDeleted reports whether the current operation deleted its key.
func (it *Iter) IsDeleted() bool { return it.current.isDeleted() }

// stepCursors moves the cursors that stand on the current key.
func (it *Iter) stepCursors(by int) {
	for i := range it.cursors {
		if it.onCurrent>>i&1 != 0 {
			it.cursors[i].at += by
		}
	}
}

// setCurrent makes the first key under the cursors in a direction the current one. Of
// equal keys the newest run's wins, so the runs are tried from the newest on.
func (it *Iter) setCurrent(direction int8) bool {
	it.direction, it.onCurrent, it.current = direction, 0, nil
	var best *entry
	for i := len(it.cursors) - 1; i >= 0; i-- {
		c := &it.cursors[i]
		if uint(c.at) >= uint(len(c.run)) {
			continue // outside, on either side
		}
		e := &c.run[c.at]
		order := -1
		if best != nil {
			order = compareEntries(it.view.log, e, best, it.view.depth) * int(direction)
		}
		switch {
		case order < 0:
			best, it.onCurrent = e, 1<<i
		case order == 0:
			it.onCurrent |= 1 << i
		}
	}
	if best == nil {
		return false
	}
	it.current = it.view.log.opAt(best.op)
	return true
}
