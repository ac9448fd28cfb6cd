package store

import (
	"cmp"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/runs"
	"github.com/cleavekv/cleave/internal/wal"
)

// Snapshot is everything that was committed up to one position of the log, and
// nothing else. Its methods may be called from any goroutine. Close it: it keeps
// memory, files of Pebble, and Close of the store waiting.
type Snapshot struct {
	store *Store
	base  *pebble.Snapshot
	views []runs.View // of the chunks that were not applied, newest first
	held  []*chunk    // keeps the memory that views look at
	pos   wal.Position

	closed atomic.Bool
}

// Snapshot returns the present state.
func (s *Store) Snapshot() (*Snapshot, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	snap := &Snapshot{store: s}
	var cuts []runs.Cut
	var err error
	snap.held, snap.pos, err = s.capture(false, func(held []*chunk) {
		cuts = cutsOf(cuts[:0], held)
		snap.base = s.db.NewSnapshot()
	}, func() { snap.base.Close() })
	if err != nil {
		s.leave()
		return nil, err
	}
	snap.views = viewsOf(nil, cuts)
	return snap, nil
}

// Snapshots returns the state of several stores at one moment. For that long, a few
// microseconds for each, nothing becomes visible in any of them.
func Snapshots(stores ...*Store) (snaps []*Snapshot, err error) {
	defer still(stores)()
	for _, s := range stores {
		snap, err := s.Snapshot()
		if err != nil {
			for _, taken := range snaps {
				err = errors.Join(err, taken.Close())
			}
			return nil, err
		}
		snaps = append(snaps, snap)
	}
	return snaps, nil
}

// Positions returns up to where each of several stores is visible, all at one moment,
// also of closed stores. One by one they would not do for the feed: a range may go from
// one store to another in between.
func Positions(stores ...*Store) (at []wal.Position) {
	defer still(stores)()
	for _, s := range stores {
		at = append(at, s.Position())
	}
	return at
}

// still keeps anything from becoming visible in stores until what it returns is called.
func still(stores []*Store) (move func()) {
	if len(stores) == 1 || plant.Bug("store-snapshots-one-by-one") {
		return func() {}
	}
	order := slices.Clone(stores) // one for all, so that two do not wait for each other
	slices.SortFunc(order, func(a, b *Store) int { return cmp.Compare(a.number, b.number) })
	for _, s := range order {
		s.chunks.publishing.Lock()
	}
	return func() {
		for _, s := range order {
			s.chunks.publishing.Unlock()
		}
	}
}

// Position is the place of the log that the snapshot shows: the feed goes on
// from here.
func (p *Snapshot) Position() wal.Position { return p.pos }

// Close gives back what the snapshot holds. Iterators must be closed before, and
// nothing be called after it.
func (p *Snapshot) Close() error {
	if p.closed.Swap(true) {
		return ErrClosed
	}
	err := p.base.Close()
	p.store.chunks.release(p.held)
	p.store.leave()
	return err
}

// Get appends the value that key had to dst.
func (p *Snapshot) Get(key, dst []byte) (value []byte, ok bool, err error) {
	if err := p.store.health.err(); err != nil {
		return dst, false, err
	}
	for _, v := range p.views {
		if op, ok := v.Get(key); ok {
			return append(dst, op.Value...), !op.Deleted, nil
		}
	}
	return getFrom(p.base, key, dst)
}

// Iter returns an iterator over start <= key < end, from the first row on or,
// in reverse, from the last. An empty end means no end.
func (p *Snapshot) Iter(start, end []byte, reverse bool) (*Iter, error) {
	if err := p.store.health.err(); err != nil {
		return nil, err
	}
	base, err := p.base.NewIter(bounds(start, end))
	if err != nil {
		return nil, readError(err)
	}
	return newIter(p.store, base, p.views, start, end, reverse), nil
}

// Scan calls visit with the rows of start <= key < end, in order or in reverse,
// until it returns false. The slices are good during the call only.
func (p *Snapshot) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	it, err := p.Iter(start, end, reverse)
	if err != nil {
		return err
	}
	return it.each(visit)
}

// Scan is that of a snapshot taken now, at less cost.
func (s *Store) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	return s.scan(false, start, end, reverse, func(_ *pebble.Iterator, it *Iter) error { return it.each(visit) })
}

// ScanBriefly is Scan of a few rows by somebody who must not be refused because others keep too
// many snapshots open: it holds what it needs for a moment. Nor is he because files are lacking,
// which passes: what he has visited by then he visits again.
func (s *Store) ScanBriefly(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	for {
		err := s.scan(true, start, end, reverse, func(_ *pebble.Iterator, it *Iter) error { return it.each(visit) })
		if wal.LackOf(err) == nil {
			return err
		}
		time.Sleep(lackPause)
	}
}

// ScanNear is Scan for one who must not wait for a disk. It ends before it has visited all, or
// any, if that takes one: then near is false. See [Store.GetNear].
func (s *Store) ScanNear(start, end []byte, reverse bool, visit func(key, value []byte) bool) (near bool, err error) {
	if near = s.IsNear(); !near {
		return false, nil
	}
	err = s.scan(false, start, end, reverse, func(base *pebble.Iterator, it *Iter) (err error) {
		defer func() {
			if closing := it.Close(); err == nil {
				err = closing
			}
		}()
		p, n, bytes, began := patience{s: s}, 0, 0, time.Now()
		for near && it.Next() {
			bytes += len(it.key) + len(it.value)
			if n++; n%patienceRows == 1 || bytes > patienceBytes {
				near, bytes = !p.ends(base), 0
			}
			if near && !visit(it.key, it.value) {
				break
			}
		}
		p.ends(base) // whoever comes next is told, if not this one
		if err = it.Err(); err != nil {
			s.waited(time.Since(began))
		}
		return err
	})
	return near, err
}

// scan calls visit with an iterator that it closes.
func (s *Store) scan(brief bool, start, end []byte, reverse bool, visit func(base *pebble.Iterator, it *Iter) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	var cutRoom [4]runs.Cut // as many chunks as there are by default: no allocation
	var viewRoom [4]runs.View
	cuts := cutRoom[:0]
	var base *pebble.Iterator
	var failed error
	held, _, err := s.capture(brief, func(held []*chunk) {
		cuts = cutsOf(cuts[:0], held)
		// An iterator of Pebble is a snapshot already.
		base, failed = s.db.NewIter(bounds(start, end))
	}, func() {
		if failed == nil {
			base.Close()
		}
	})
	if err != nil {
		return err
	}
	defer s.chunks.release(held)
	if failed != nil {
		return readError(failed)
	}
	return visit(base, newIter(s, base, viewsOf(viewRoom[:0], cuts), start, end, reverse))
}

// capture is that of the chunks, and refuses who came when some were let go that Pebble does
// not have: the store has died, or is closed on a full disk.
func (s *Store) capture(brief bool, look func(held []*chunk), undo func()) ([]*chunk, wal.Position, error) {
	held, pos, err := s.chunks.capture(brief, look, undo)
	if err != nil || !s.applier.gaveUp.Load() { // it is said before the first is let go
		return held, pos, err
	}
	undo()
	s.chunks.release(held)
	if err := s.health.err(); err != nil {
		return nil, 0, err
	}
	return nil, 0, ErrClosed
}

func cutsOf(cuts []runs.Cut, held []*chunk) []runs.Cut {
	for _, c := range held {
		cuts = append(cuts, c.set.Cut())
	}
	return cuts
}

// viewsOf appends what the cuts have, sorted, newest chunk first. It may take a
// while, and holds nobody up.
func viewsOf(views []runs.View, cuts []runs.Cut) []runs.View {
	for _, c := range slices.Backward(cuts) {
		views = append(views, c.View())
	}
	return views
}

// rowsEnd is behind all rows.
var rowsEnd = []byte{replicaPrefix + 1}

// bounds are Pebble's for start <= key < end of ours.
func bounds(start, end []byte) *pebble.IterOptions {
	room := make([]byte, 0, len(start)+len(end)+2)
	o := &pebble.IterOptions{LowerBound: appendKey(room, start), UpperBound: rowsEnd}
	if len(end) > 0 {
		o.UpperBound = appendKey(room[len(o.LowerBound):len(o.LowerBound)], end)
	}
	return o
}
