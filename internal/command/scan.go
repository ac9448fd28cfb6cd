package command

import (
	"bytes"
	"slices"
)

// Scan visits the rows with start <= key < end, store keys both, as the next
// command of the batch would see them, in order or in reverse, until visit
// returns false. The visitor must not use the Env.
func (e *Env) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	e.sortWritten(start, end, reverse)
	if len(e.order) == 0 {
		return e.reader.Scan(start, end, reverse, visit)
	}
	pending, stopped := e.order, false
	// emit visits what the batch wrote before key, or all of it if key is nil.
	emit := func(key []byte) (replaced bool) {
		for len(pending) > 0 && !stopped {
			op := e.out.At(e.over.entries[pending[0]].ref)
			order := -1
			if key != nil {
				if order = bytes.Compare(op.Key, key); reverse {
					order = -order
				}
			}
			if order > 0 {
				return false
			}
			pending = pending[1:]
			if !op.Delete {
				stopped = !visit(op.Key, op.Value)
			}
			if order == 0 {
				return true
			}
		}
		return false
	}
	err := e.reader.Scan(start, end, reverse, func(key, value []byte) bool {
		if !emit(key) && !stopped {
			stopped = !visit(key, value)
		}
		return !stopped
	})
	if err == nil {
		emit(nil)
	}
	return err
}

// sortWritten gathers the newest operations on keys of the range in e.order. A
// batch is small against what it would cost to keep it sorted at every write.
func (e *Env) sortWritten(start, end []byte, reverse bool) {
	e.order = e.order[:0]
	for i := range e.over.entries {
		if !e.over.newest(i) {
			continue
		}
		if key := e.entryKey(i); bytes.Compare(key, start) >= 0 && bytes.Compare(key, end) < 0 {
			e.order = append(e.order, i)
		}
	}
	slices.SortFunc(e.order, func(a, b int) int {
		if reverse {
			a, b = b, a
		}
		return bytes.Compare(e.entryKey(a), e.entryKey(b))
	})
}

func (e *Env) entryKey(i int) []byte { return e.out.At(e.over.entries[i].ref).Key }
