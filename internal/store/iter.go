package store

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cleavekv/cleave/internal/runs"
)

// Iter walks over the rows of a range in one direction, merging what is not
// applied with what Pebble has. It is for one goroutine.
type Iter struct {
	store   *Store
	reverse bool
	base    *pebble.Iterator
	over    []*runs.Iter // those with operations left, newest first
	all     []*runs.Iter
	top     *runs.Iter // of over, the one that comes first; nil if none is left
	onBase  bool       // base is on a row
	begun   bool
	// What the current row was taken from, and must move on before the next.
	usedBase, usedTop bool
	key, value        []byte
	err               error
}

func newIter(s *Store, base *pebble.Iterator, views []runs.View, start, end []byte, reverse bool) *Iter {
	it := &Iter{store: s, base: base, reverse: reverse, all: make([]*runs.Iter, len(views))}
	if len(end) == 0 {
		end = nil
	}
	for i, v := range views {
		it.all[i] = v.Iter(start, end)
	}
	return it
}

// Next moves to the next row in the iterator's direction, the first one at
// first, and reports whether there is one.
func (it *Iter) Next() bool {
	if !it.begun {
		it.begun = true
		if it.reverse {
			return it.settle(it.base.Last(), (*runs.Iter).Last)
		}
		return it.settle(it.base.First(), (*runs.Iter).First)
	}
	it.leave()
	return it.pick()
}

// Seek moves to the first row at or behind key in the iterator's direction: in
// reverse that is the last one up to key. It may move against the direction.
func (it *Iter) Seek(key []byte) bool {
	it.begun = true
	if it.reverse {
		after := append(bytes.Clone(key), 0) // the least key above
		return it.settle(it.base.SeekLT(appendKey(nil, after)), func(o *runs.Iter) bool { return o.SeekLT(after) })
	}
	return it.settle(it.base.SeekGE(appendKey(nil, key)), func(o *runs.Iter) bool { return o.SeekGE(key) })
}

// settle ends a jump of base by moving the others likewise.
func (it *Iter) settle(onBase bool, move func(*runs.Iter) bool) bool {
	it.onBase, it.usedBase, it.usedTop, it.err = onBase, false, false, nil
	it.over = it.over[:0]
	for _, o := range it.all {
		if move(o) {
			it.over = append(it.over, o)
		}
	}
	it.rank()
	return it.pick()
}

// leave moves the heads that the current row was taken from.
func (it *Iter) leave() {
	if it.usedBase {
		it.usedBase = false
		if it.reverse {
			it.onBase = it.base.Prev()
		} else {
			it.onBase = it.base.Next()
		}
	}
	if it.usedTop {
		it.usedTop = false
		it.pass(it.top.Key())
	}
}

// pass moves every overlay beyond key.
func (it *Iter) pass(key []byte) {
	kept := it.over[:0]
	for _, o := range it.over {
		if bytes.Equal(o.Key(), key) {
			if it.reverse && !o.Prev() || !it.reverse && !o.Next() {
				continue
			}
		}
		kept = append(kept, o)
	}
	it.over = kept
	it.rank()
}

// rank finds the overlay whose key comes first; of equal keys the newest one's,
// which stands first in over.
func (it *Iter) rank() {
	it.top = nil
	for _, o := range it.over {
		if it.top == nil || it.before(o.Key(), it.top.Key()) < 0 {
			it.top = o
		}
	}
}

// before orders keys in the iterator's direction.
func (it *Iter) before(a, b []byte) int {
	if it.reverse {
		return bytes.Compare(b, a)
	}
	return bytes.Compare(a, b)
}

// pick makes the first of all heads the current row. An operation that is not
// applied hides what Pebble has for its key.
func (it *Iter) pick() bool {
	for {
		if it.top == nil {
			return it.onBase && it.takeBase() || it.end()
		}
		order := -1
		if it.onBase {
			order = it.before(it.top.Key(), it.base.Key()[1:])
		}
		if order > 0 {
			return it.takeBase() || it.end()
		}
		it.usedTop, it.usedBase = true, order == 0
		if !it.top.Deleted() {
			it.key, it.value = it.top.Key(), it.top.Value()
			return true
		}
		it.leave()
	}
}

func (it *Iter) takeBase() bool {
	it.usedBase = true
	it.key = it.base.Key()[1:]
	it.value, it.err = it.base.ValueAndErr()
	return it.err == nil
}

// end notes why there is no row.
func (it *Iter) end() bool {
	if it.err == nil {
		it.err = it.base.Error()
	}
	it.key, it.value, it.onBase, it.top = nil, nil, false, nil
	return false
}

// Key returns the current key, good until the iterator moves.
func (it *Iter) Key() []byte { return it.key }

// Value returns the current value, good until the iterator moves.
func (it *Iter) Value() []byte { return it.value }

// Err returns why the iteration ended, or nil if there were no more rows. The
// rows seen until then were right, but not all.
func (it *Iter) Err() error {
	if err := it.store.health.err(); err != nil {
		return err
	}
	return readError(it.err)
}

// Close ends the iteration.
func (it *Iter) Close() error { return readError(it.base.Close()) }

// each calls visit with every row, and closes the iterator, also if visit
// panics: whoever recovers goes on with a store that can be closed.
func (it *Iter) each(visit func(key, value []byte) bool) (err error) {
	defer func() {
		if closing := it.Close(); err == nil {
			err = closing
		}
	}()
	for it.Next() && visit(it.key, it.value) {
	}
	return it.Err()
}
