package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/zeebo/xxh3"

	"github.com/cleavekv/cleave/internal/storage/memruns"
	"github.com/cleavekv/cleave/internal/storage/wal"
)

// Snapshot is everything that was committed up to one position of the log, and
// nothing else. Its methods may be called from any goroutine. Close it: it keeps
// memory, files of Pebble, and Close of the store waiting.
type Snapshot struct {
	store  *Store
	base   *pebble.Snapshot
	views  []memruns.View // of the chunks that were not applied, newest first
	chunks []*chunk       // keeps the memory that views look at
	pos    wal.Position

	closed atomic.Bool
}

// Snapshot returns the present state.
func (s *Store) Snapshot() (*Snapshot, error) {
	if err := s.beginCall(); err != nil {
		return nil, err
	}
	snap := &Snapshot{store: s}
	var cuts []memruns.Cut
	var err error
	snap.chunks, snap.pos, err = s.captureConsistent(false, func(held []*chunk) {
		cuts = appendCuts(cuts[:0], held)
		snap.base = s.db.NewSnapshot()
	}, func() { snap.base.Close() })
	if err != nil {
		s.endCall()
		return nil, err
	}
	snap.views = appendViews(nil, cuts)
	return snap, nil
}

// SnapshotAll returns the state of several stores at one moment. For that long, a few
// microseconds for each, nothing becomes visible in any of them.
func SnapshotAll(stores ...*Store) (snaps []*Snapshot, err error) {
	defer stopPublishing(stores)()
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

// PositionsOf returns up to where each of several stores is visible, all at one moment,
// also of closed stores. One by one they would not do for the feed: a range may go from
// one store to another in between.
func PositionsOf(stores ...*Store) (at []wal.Position) {
	defer stopPublishing(stores)()
	for _, s := range stores {
		at = append(at, s.Position())
	}
	return at
}

// stopPublishing keeps anything from becoming visible in stores until what it returns is called.
func stopPublishing(stores []*Store) (move func()) {
	if len(stores) == 1 {
		return func() {}
	}
	order := slices.Clone(stores) // one for all, so that two do not wait for each other
	slices.SortFunc(order, func(a, b *Store) int { return cmp.Compare(a.openOrder, b.openOrder) })
	for _, s := range order {
		s.chunks.publishMu.Lock()
	}
	return func() {
		for _, s := range order {
			s.chunks.publishMu.Unlock()
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
	p.store.chunks.releaseChunks(p.chunks)
	p.store.endCall()
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
	return getFromEngine(p.base, key, dst)
}

// Iter returns an iterator over start <= key < end, from the first row on or,
// in reverse, from the last. An empty end means no end.
func (p *Snapshot) Iter(start, end []byte, reverse bool) (*Iter, error) {
	if err := p.store.health.err(); err != nil {
		return nil, err
	}
	base, err := p.base.NewIter(iterBounds(start, end))
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
	return it.visitAndClose(visit)
}

// Scan is that of a snapshot taken now, at less cost.
func (s *Store) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	return s.scanRange(false, start, end, reverse, func(_ *pebble.Iterator, it *Iter) error { return it.visitAndClose(visit) })
}

// ScanBriefly is Scan of a few rows for a caller that must not be refused because others keep too
// many snapshots open: it holds what it needs for a moment. Nor is it refused because files are lacking,
// which passes: the rows visited by then are visited again.
func (s *Store) ScanBriefly(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	for {
		err := s.scanRange(true, start, end, reverse, func(_ *pebble.Iterator, it *Iter) error { return it.visitAndClose(visit) })
		if wal.ShortageOf(err) == nil {
			return err
		}
		time.Sleep(shortageRetryPause)
	}
}

// ScanNonBlocking is Scan for a caller that must not wait for a disk. It ends before it has visited all, or
// any, if that takes one: then fast is false. See [Store.GetMany].
func (s *Store) ScanNonBlocking(start, end []byte, reverse bool, visit func(key, value []byte) bool) (fast bool, err error) {
	if fast = s.IsStorageFast(); !fast {
		return false, nil
	}
	err = s.scanRange(false, start, end, reverse, func(base *pebble.Iterator, it *Iter) (err error) {
		defer func() {
			if closing := it.Close(); err == nil {
				err = closing
			}
		}()
		p, n, bytes, began := readBudget{s: s}, 0, 0, time.Now()
		for fast && it.Next() {
			bytes += len(it.key) + len(it.value)
			if n++; n%budgetCheckRows == 1 || bytes > budgetCheckBytes {
				fast, bytes = !p.isExceeded(base), 0
			}
			if fast && !visit(it.key, it.value) {
				break
			}
		}
		p.isExceeded(base) // an excess is recorded for the next reader, if not for this one
		if err = it.Err(); err != nil {
			s.recordReadTime(time.Since(began))
		}
		return err
	})
	return fast, err
}

// scanRange calls visit with an iterator that it closes.
func (s *Store) scanRange(brief bool, start, end []byte, reverse bool, visit func(base *pebble.Iterator, it *Iter) error) error {
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.endCall()
	var cutRoom [4]memruns.Cut // as many chunks as there are by default: no allocation
	var viewRoom [4]memruns.View
	cuts := cutRoom[:0]
	var base *pebble.Iterator
	var failed error
	held, _, err := s.captureConsistent(brief, func(held []*chunk) {
		cuts = appendCuts(cuts[:0], held)
		// An iterator of Pebble is a snapshot already.
		base, failed = s.db.NewIter(iterBounds(start, end))
	}, func() {
		if failed == nil {
			base.Close()
		}
	})
	if err != nil {
		return err
	}
	defer s.chunks.releaseChunks(held)
	if failed != nil {
		return readError(failed)
	}
	return visit(base, newIter(s, base, appendViews(viewRoom[:0], cuts), start, end, reverse))
}

// captureConsistent is that of the chunks, and fails if chunks were released by then that Pebble does
// not have: the store has died, or is closed on a full disk.
func (s *Store) captureConsistent(brief bool, look func(held []*chunk), undo func()) ([]*chunk, wal.Position, error) {
	held, pos, err := s.chunks.captureConsistent(brief, look, undo)
	if err != nil || !s.applier.gaveUp.Load() { // gaveUp is set before the first chunk is released
		return held, pos, err
	}
	undo()
	s.chunks.releaseChunks(held)
	if err := s.health.err(); err != nil {
		return nil, 0, err
	}
	return nil, 0, ErrClosed
}

func appendCuts(cuts []memruns.Cut, held []*chunk) []memruns.Cut {
	for _, c := range held {
		cuts = append(cuts, c.set.Cut())
	}
	return cuts
}

// appendViews appends what the cuts have, sorted, newest chunk first. It may take a
// while, and blocks no other goroutine.
func appendViews(views []memruns.View, cuts []memruns.Cut) []memruns.View {
	for _, c := range slices.Backward(cuts) {
		views = append(views, c.View())
	}
	return views
}

// rowsEnd is behind all rows.
var rowsEnd = []byte{rowPrefix + 1}

// iterBounds are Pebble's for start <= key < end of ours.
func iterBounds(start, end []byte) *pebble.IterOptions {
	room := make([]byte, 0, len(start)+len(end)+2)
	o := &pebble.IterOptions{LowerBound: appendEngineKey(room, start), UpperBound: rowsEnd}
	if len(end) > 0 {
		o.UpperBound = appendEngineKey(room[len(o.LowerBound):len(o.LowerBound)], end)
	}
	return o
}

// maxSnapshotChunks is how many chunks snapshots may keep in memory besides those that are
// not applied. Beyond that there are no new ones: the memory is finite, and it is
// better to refuse a snapshot that would take more of it than to let writers wait for the
// open ones.
//
// The log has maxSnapshotChunks chunks and two lists full of them: the last snapshot that
// was let in may add all chunks of the list to those that are kept, and then the
// list fills again. What does not fit on a list, as when many large commits are
// made at once, counts against the first.
const maxSnapshotChunks = 64

// retainChunks copies the list and takes a reference to the memory of each chunk. A brief caller is
// never refused.
func (u *chunkList) retainChunks(brief bool) ([]*chunk, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !brief && len(u.list) > 0 && u.snapshotChunks+len(u.list) > maxSnapshotChunks+int(u.maxSealed)+2 {
		return nil, fmt.Errorf("%w: they keep %d chunks of the log in memory", ErrTooManySnapshots, u.snapshotChunks)
	}
	held := make([]*chunk, len(u.list))
	for i, c := range u.list {
		c.memory.Retain()
		c.readers++
		held[i] = c
	}
	return held, nil
}

// releaseChunks gives back what hold took.
func (u *chunkList) releaseChunks(held []*chunk) {
	if len(held) == 0 {
		return
	}
	u.mu.Lock()
	for _, c := range held {
		if c.readers--; c.readers == 0 && c.applied {
			u.snapshotChunks--
		}
	}
	u.mu.Unlock()
	for _, c := range held {
		c.memory.Release()
	}
}

// maxOptimisticTries is how often capture looks before it stops the publisher.
const maxOptimisticTries = 4

// captureConsistent calls look until nothing became visible while it ran, and returns
// the chunks that look was given, held, and the position of the log at which it
// looked. look takes its cuts of the chunks first and asks Pebble second; undo
// throws away what it got.
func (u *chunkList) captureConsistent(brief bool, look func(held []*chunk), undo func()) ([]*chunk, wal.Position, error) {
	for try := 0; ; try++ {
		if try == maxOptimisticTries {
			u.publishMu.Lock()
			defer u.publishMu.Unlock()
		}
		before := u.sequence.Load()
		if before%2 != 0 {
			continue
		}
		pos := wal.Position(u.published.Load())
		held, err := u.retainChunks(brief)
		if err != nil {
			return nil, 0, err
		}
		look(held)
		if u.sequence.Load() == before {
			return held, pos, nil
		}
		undo()
		u.releaseChunks(held)
	}
}

// Digest sums up the rows of a range. Two ranges with the same rows have the
// same digest; two with the same digest have the same rows but for a chance of
// about one in 2^128, if the rows were not chosen to that end.
type Digest struct {
	Rows  uint64
	Bytes uint64 // of keys and values
	Hash  [16]byte
}

// Digest reads the rows of start <= key < end and sums them up.
func (p *Snapshot) Digest(start, end []byte) (Digest, error) {
	var d Digest
	h := xxh3.New()
	var head [2 * binary.MaxVarintLen64]byte
	err := p.Scan(start, end, false, func(key, value []byte) bool {
		d.Rows++
		d.Bytes += uint64(len(key) + len(value))
		// With both lengths no other split into rows has the same bytes.
		n := binary.PutUvarint(head[:], uint64(len(key)))
		n += binary.PutUvarint(head[n:], uint64(len(value)))
		h.Write(head[:n])
		h.Write(key)
		h.Write(value)
		return true
	})
	d.Hash = h.Sum128().Bytes()
	return d, err
}
