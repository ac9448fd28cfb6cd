package store

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cleavekv/cleave/internal/storage/memruns"
)

// Iter walks over the rows of a range in one direction, merging what is not
// applied with what Pebble has. It is for one goroutine.
type Iter struct {
	store     *Store
	reverse   bool
	started   bool
	base      *pebble.Iterator
	baseValid bool   // base is on a row
	baseKey   []byte // of that row, as the store knows it
	overlays  []*memruns.Iter
	active    []overlay // those of all with operations left, newest first
	top       *overlay  // of over, the one that comes first; nil if none is left
	// What the current row was taken from, and must move on before the next.
	usedBase, usedTop bool
	key, value        []byte
	err               error

	overlaysBuf [2]*memruns.Iter // mostly enough, without another allocation
	activeBuf   [2]overlay
}

// overlay is an overlay on an operation.
type overlay struct {
	*memruns.Iter
	key []byte
}

func newIter(s *Store, base *pebble.Iterator, views []memruns.View, start, end []byte, reverse bool) *Iter {
	it := &Iter{store: s, base: base, reverse: reverse}
	it.overlays, it.active = it.overlaysBuf[:0], it.activeBuf[:0]
	if len(end) == 0 {
		end = nil
	}
	for _, v := range views {
		if o := v.Iter(start, end); !o.IsEmpty() {
			it.overlays = append(it.overlays, o)
		}
	}
	return it
}

// Next moves to the next row in the iterator's direction, the first one at
// first, and reports whether there is one.
func (it *Iter) Next() bool {
	if !it.started {
		it.started = true
		if it.reverse {
			return it.seekOverlays(it.base.Last(), (*memruns.Iter).Last)
		}
		return it.seekOverlays(it.base.First(), (*memruns.Iter).First)
	}
	it.advanceUsed()
	return it.loadRow()
}

// Seek moves to the first row at or behind key in the iterator's direction: in
// reverse that is the last one up to key. It may move against the direction.
func (it *Iter) Seek(key []byte) bool {
	it.started = true
	if it.reverse {
		after := append(bytes.Clone(key), 0) // the least key above
		return it.seekOverlays(it.base.SeekLT(appendEngineKey(nil, after)), func(o *memruns.Iter) bool { return o.SeekLT(after) })
	}
	return it.seekOverlays(it.base.SeekGE(appendEngineKey(nil, key)), func(o *memruns.Iter) bool { return o.SeekGE(key) })
}

// seekOverlays ends a jump of base by moving the others likewise.
func (it *Iter) seekOverlays(onBase bool, move func(*memruns.Iter) bool) bool {
	it.usedBase, it.usedTop, it.err = false, false, nil
	it.setBase(onBase)
	it.active = it.active[:0]
	for _, o := range it.overlays {
		if move(o) {
			it.active = append(it.active, overlay{o, o.Key()})
		}
	}
	it.findTop()
	return it.loadRow()
}

// setBase notes where base is.
func (it *Iter) setBase(onBase bool) {
	if it.baseValid = onBase; onBase {
		it.baseKey = it.base.Key()[1:]
	}
}

// advanceUsed moves the heads that the current row was taken from.
func (it *Iter) advanceUsed() {
	if it.usedBase {
		it.usedBase = false
		if it.reverse {
			it.setBase(it.base.Prev())
		} else {
			it.setBase(it.base.Next())
		}
	}
	if it.usedTop {
		it.usedTop = false
		it.skipKey(it.top.key)
	}
}

// skipKey moves every overlay beyond key.
func (it *Iter) skipKey(key []byte) {
	kept := it.active[:0]
	for _, h := range it.active {
		if bytes.Equal(h.key, key) {
			if it.reverse && !h.Prev() || !it.reverse && !h.Next() {
				continue
			}
			h.key = h.Key()
		}
		kept = append(kept, h)
	}
	it.active = kept
	it.findTop()
}

// findTop finds the overlay whose key comes first; of equal keys the newest one's,
// which stands first in over.
func (it *Iter) findTop() {
	it.top = nil
	for i := range it.active {
		if h := &it.active[i]; it.top == nil || it.compareKeys(h.key, it.top.key) < 0 {
			it.top = h
		}
	}
}

// compareKeys orders keys in the iterator's direction.
func (it *Iter) compareKeys(a, b []byte) int {
	if it.reverse {
		return bytes.Compare(b, a)
	}
	return bytes.Compare(a, b)
}

// loadRow makes the first of all heads the current row. An operation that is not
// applied hides what Pebble has for its key.
func (it *Iter) loadRow() bool {
	for it.top != nil {
		order := -1
		if it.baseValid {
			order = it.compareKeys(it.top.key, it.baseKey)
		}
		if order > 0 {
			break
		}
		it.usedTop, it.usedBase = true, order == 0
		if !it.top.IsDeleted() {
			it.key, it.value = it.top.key, it.top.Value()
			return true
		}
		it.advanceUsed()
	}
	if !it.baseValid {
		return it.finishIteration()
	}
	it.usedBase, it.key = true, it.baseKey
	it.value, it.err = it.base.ValueAndErr()
	return it.err == nil || it.finishIteration()
}

// finishIteration notes why there is no row.
func (it *Iter) finishIteration() bool {
	if it.err == nil {
		it.err = it.base.Error()
	}
	it.key, it.value, it.baseValid, it.top = nil, nil, false, nil
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

// visitAndClose calls visit with every row, and closes the iterator, also if visit
// panics: a caller that recovers goes on with a store that can be closed.
func (it *Iter) visitAndClose(visit func(key, value []byte) bool) (err error) {
	defer func() {
		if closing := it.Close(); err == nil {
			err = closing
		}
	}()
	for it.Next() && visit(it.key, it.value) {
	}
	return it.Err()
}
