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
	begun   bool
	base    *pebble.Iterator
	onBase  bool   // base is on a row
	baseKey []byte // of that row, as the store knows it
	all     []*runs.Iter
	over    []head // those of all with operations left, newest first
	top     *head  // of over, the one that comes first; nil if none is left
	// What the current row was taken from, and must move on before the next.
	usedBase, usedTop bool
	key, value        []byte
	err               error

	allRoom  [2]*runs.Iter // mostly enough, without another allocation
	overRoom [2]head
}

// head is an overlay on an operation.
type head struct {
	*runs.Iter
	key []byte
}

func newIter(s *Store, base *pebble.Iterator, views []runs.View, start, end []byte, reverse bool) *Iter {
	it := &Iter{store: s, base: base, reverse: reverse}
	it.all, it.over = it.allRoom[:0], it.overRoom[:0]
	if len(end) == 0 {
		end = nil
	}
	for _, v := range views {
		if o := v.Iter(start, end); !o.Empty() {
			it.all = append(it.all, o)
		}
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
	it.usedBase, it.usedTop, it.err = false, false, nil
	it.landed(onBase)
	it.over = it.over[:0]
	for _, o := range it.all {
		if move(o) {
			it.over = append(it.over, head{o, o.Key()})
		}
	}
	it.rank()
	return it.pick()
}

// landed notes where base is.
func (it *Iter) landed(onBase bool) {
	if it.onBase = onBase; onBase {
		it.baseKey = it.base.Key()[1:]
	}
}

// leave moves the heads that the current row was taken from.
func (it *Iter) leave() {
	if it.usedBase {
		it.usedBase = false
		if it.reverse {
			it.landed(it.base.Prev())
		} else {
			it.landed(it.base.Next())
		}
	}
	if it.usedTop {
		it.usedTop = false
		it.pass(it.top.key)
	}
}

// pass moves every overlay beyond key.
func (it *Iter) pass(key []byte) {
	kept := it.over[:0]
	for _, h := range it.over {
		if bytes.Equal(h.key, key) {
			if it.reverse && !h.Prev() || !it.reverse && !h.Next() {
				continue
			}
			h.key = h.Key()
		}
		kept = append(kept, h)
	}
	it.over = kept
	it.rank()
}

// rank finds the overlay whose key comes first; of equal keys the newest one's,
// which stands first in over.
func (it *Iter) rank() {
	it.top = nil
	for i := range it.over {
		if h := &it.over[i]; it.top == nil || it.before(h.key, it.top.key) < 0 {
			it.top = h
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
	for it.top != nil {
		order := -1
		if it.onBase {
			order = it.before(it.top.key, it.baseKey)
		}
		if order > 0 {
			break
		}
		it.usedTop, it.usedBase = true, order == 0
		if !it.top.Deleted() {
			it.key, it.value = it.top.key, it.top.Value()
			return true
		}
		it.leave()
	}
	if !it.onBase {
		return it.end()
	}
	it.usedBase, it.key = true, it.baseKey
	it.value, it.err = it.base.ValueAndErr()
	return it.err == nil || it.end()
}

// end notes why there is no row.
func (it *Iter) end() bool {
	if it.err == nil {
		it.err = it.base.Error()
	}
	it.key, it.value, it.onBase, it.top = nil, nil, false, nil
	it.usedBase, it.usedTop = false, false
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
