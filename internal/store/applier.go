package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cleavekv/cleave/internal/runs"
	"github.com/cleavekv/cleave/internal/wal"
)

// applier is the state of the one goroutine that brings chunks into Pebble and
// recycles the log behind them.
//
// Three positions follow each other through the log, and recovery needs what is
// behind the last of them:
//
//	published >= applied >= durable >= recycled
type applier struct {
	wake     signal // something changed: look again
	done     chan struct{}
	stopping atomic.Bool
	// giveUpIfFull lets chunks go unapplied if the disk is full: the store is
	// closing, and they are in the log.
	giveUpIfFull atomic.Bool
	// gaveUp means that a chunk was let go, or is about to be: nothing is applied any more, and
	// whoever looks at the list and Pebble from now on misses rows.
	gaveUp  atomic.Bool
	flushes atomic.Uint64
	// awaited is how many wait for chunks to be applied.
	awaited atomic.Int64

	applied, durable atomic.Uint64
	unflushed        atomic.Int64 // bytes of log between durable and applied
	unflushedRows    atomic.Int64 // bytes of rows that are in Pebble because of them
	stalls           atomic.Uint64
	stalledNS        atomic.Int64

	// Only the goroutine itself uses these.
	seen      uint64    // flushes looked at
	lacked    bool      // files, to look at the last one
	waiting   []applied // not known to be durable, oldest first
	asked     bool      // for a flush, since durable moved
	stalledAt time.Time // zero while there is room

	mu       sync.Mutex
	log      *wal.Log // nil until it is open
	holds    int      // backups that read the log
	recycled wal.Position
}

// applied is a chunk in Pebble's memtables.
type applied struct {
	end         wal.Position
	bytes, rows int64
}

func (a *applier) init() {
	a.wake, a.done = make(signal, 1), make(chan struct{})
}

// start sets the position that Pebble had when it was opened, which is durable.
func (a *applier) start(pos wal.Position) {
	a.applied.Store(uint64(pos))
	a.durable.Store(uint64(pos))
}

func (a *applier) position() wal.Position { return wal.Position(a.applied.Load()) }

// signal tells one goroutine that something changed.
type signal chan struct{}

// send never blocks: Pebble calls it with its locks held. Signals that were not
// yet received are one.
func (s signal) send() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// flushed notes that Pebble's durable state moved.
func (a *applier) flushed() {
	a.flushes.Add(1)
	a.wake.send()
}

// opened hands over the log, whose segments may be recycled from now on.
func (a *applier) opened(log *wal.Log) {
	a.mu.Lock()
	a.log = log
	a.mu.Unlock()
	a.recycle()
}

// stop ends the goroutine when all sealed chunks are dealt with.
func (a *applier) stop() {
	a.stopping.Store(true)
	a.wake.send()
	<-a.done
}

func (s *Store) applyLoop() {
	a := &s.applier
	defer close(a.done)
	for {
		stopping := a.stopping.Load() // before the last look
		if err := s.settle(); err != nil {
			s.health.die(err)
		}
		if s.health.impaired() {
			s.chunks.recheck()
		}
		cs := s.chunks.sealedFirst(applyMost)
		switch {
		case len(cs) == 0 && stopping:
			return
		case len(cs) == 1 && !stopping && s.lingers(cs[0]):
		case len(cs) > 0 && s.handle(cs):
			continue
		}
		<-a.wake
	}
}

// lingers tells whether a chunk is left to wait for the next one, and sees to it that it is
// looked at again. If commits wait for it, there is no next one.
func (s *Store) lingers(c *chunk) bool {
	left := s.opts.Linger - time.Since(c.sealedAt)
	if left <= 0 || s.applier.awaited.Load() > 0 || s.chunks.full() || s.health.impaired() {
		return false
	}
	time.AfterFunc(left, s.applier.wake.send)
	return true
}

// applyMost is how many chunks are brought into Pebble together, if so many wait: what was
// overwritten meanwhile is left out, and there are fewer tables to be merged.
const applyMost = 3

// handle brings chunks into Pebble and reports whether they are dealt with; if not,
// there is no room now.
func (s *Store) handle(cs []*chunk) bool {
	a := &s.applier
	full := s.health.full.Load()
	if s.health.err() != nil || full && a.giveUpIfFull.Load() {
		a.gaveUp.Store(true)
	}
	if a.gaveUp.Load() {
		// The rows stay in the log, and in the row table, as they are never
		// said to be applied. Letting the memory go keeps commits from waiting
		// for it for ever: they are told of the failure instead.
		s.chunks.drop(cs[0])
		return true
	}
	if full || !s.room() {
		return false
	}
	if err := s.apply(cs); err != nil {
		s.health.die(err)
		return true
	}
	return true
}

// room reports whether Pebble keeps up with its flushes and compactions.
func (s *Store) room() bool {
	a := &s.applier
	ok := a.unflushed.Load() < 2*s.opts.FlushBytes && s.db.Metrics().Levels[0].Sublevels < l0Stop
	switch now := time.Now(); {
	case !ok && a.stalledAt.IsZero():
		a.stalledAt = now
		a.stalls.Add(1)
	case ok && !a.stalledAt.IsZero():
		a.stalledNS.Add(int64(now.Sub(a.stalledAt)))
		a.stalledAt = time.Time{}
	}
	return ok
}

// apply brings the newest operation on each key of chunks, which are in their order, into
// Pebble, in one batch with the applied position.
func (s *Store) apply(cs []*chunk) error {
	a := &s.applier
	last := cs[len(cs)-1]
	sets := make([]*runs.Set, len(cs))
	for i, c := range cs {
		sets[i] = &c.set
	}
	var p polite
	b := batchOf(s.db, runs.Drain(p.giveWay, sets...), last.end)
	rows := int64(b.Len())
	at(s.hooks.beforeApply)
	if err := errors.Join(s.db.Apply(b, pebble.NoSync), b.Close()); err != nil {
		return err
	}
	if err := s.health.err(); err != nil {
		return err // Apply does not return what went to Fatalf
	}
	// Only now may readers be sent to Pebble for these rows.
	a.applied.Store(uint64(last.end))
	s.table.Applied(last.gen)
	var size int64
	for _, c := range cs {
		size += c.size()
	}
	a.waiting = append(a.waiting, applied{last.end, size, rows})
	a.unflushed.Add(size)
	a.unflushedRows.Add(rows)
	for _, c := range cs {
		s.chunks.drop(c)
	}
	return s.askForFlush()
}

// batchOf writes drained operations as a batch of Pebble, as large as it has to be: Pebble
// keeps it until it is flushed.
func batchOf(db *pebble.DB, ops runs.Drained, end wal.Position) *pebble.Batch {
	b := db.NewBatchWithSize(64 + ops.Bytes() + 16*len(ops))
	var pos [8]byte
	binary.BigEndian.PutUint64(pos[:], uint64(end))
	// A batch in memory takes what it is given: Set fails on a closed batch only.
	_ = b.Set(appliedKey, pos[:], nil)
	var p polite
	for some := range slices.Chunk(ops, runs.DrainSteps) {
		p.giveWay()
		some.Touch()
		for i := range some {
			add(b, some.At(i))
		}
	}
	return b
}

// add adds an operation to a batch in memory, which takes what it is given.
func add(b *pebble.Batch, op runs.Op) {
	if op.Deleted {
		d := b.DeleteDeferred(1 + len(op.Key))
		putKey(d.Key, op.Key)
		_ = d.Finish()
		return
	}
	d := b.SetDeferred(1+len(op.Key), len(op.Value))
	putKey(d.Key, op.Key)
	copy(d.Value, op.Value)
	_ = d.Finish()
}

func putKey(dst, key []byte) {
	dst[0] = replicaPrefix
	copy(dst[1:], key)
}

// askForFlush asks Pebble for a flush if it does not flush by itself: when few
// keys are overwritten all the time its memtable never fills, but the log does.
func (s *Store) askForFlush() error {
	a := &s.applier
	if a.asked || a.unflushed.Load() < s.opts.FlushBytes {
		return nil
	}
	a.asked = true
	_, err := s.db.AsyncFlush()
	return err
}

// lackPause is after what time that is read again which could not be for want of files.
const lackPause = 10 * time.Millisecond

// settle learns what became durable, and recycles the log behind it. Of a dead
// store nothing more is believed.
func (s *Store) settle() error {
	a := &s.applier
	if s.health.err() != nil {
		return nil
	}
	if n := a.flushes.Load(); n != a.seen {
		at(s.hooks.beforeDurable)
		pos, err := position(s.db, true)
		if lack := wal.LackOf(err); lack != nil { // of files that may be open: that passes
			a.lacked = true
			s.health.lacks(lack)
			time.AfterFunc(lackPause, a.wake.send)
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the durable position: %w", err)
		}
		a.seen = n
		if a.lacked {
			a.lacked = false
			s.health.succeeded() // or Pebble says so again
		}
		// Once more: when Pebble begins a new manifest it goes on behind a sync of its directory
		// that failed. What was read may stand on that sync, and then the store was dead before.
		if s.health.err() != nil {
			return nil
		}
		if uint64(pos) > a.durable.Load() {
			a.durable.Store(uint64(pos))
			a.asked = false
			for len(a.waiting) > 0 && a.waiting[0].end <= pos {
				a.unflushed.Add(-a.waiting[0].bytes)
				a.unflushedRows.Add(-a.waiting[0].rows)
				a.waiting = a.waiting[1:]
			}
			if err := s.askForFlush(); err != nil {
				return err
			}
		}
	}
	a.recycle()
	return nil
}

// recycle gives the log back what Pebble is sure to have, unless a backup is
// reading it.
func (a *applier) recycle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	pos := wal.Position(a.durable.Load())
	if a.log == nil || a.holds > 0 || pos <= a.recycled {
		return
	}
	a.recycled = pos
	a.log.Recycle(pos)
}

// hold keeps the log from being recycled until the returned function is called.
func (a *applier) hold() (release func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holds++
	return func() {
		a.mu.Lock()
		a.holds--
		a.mu.Unlock()
		a.wake.send()
	}
}

// flush makes everything that was applied durable. The applier has ended.
func (s *Store) flush() error {
	a := &s.applier
	err := s.health.err()
	switch {
	case err != nil || a.applied.Load() == a.durable.Load() && !a.gaveUp.Load():
		return err
	case a.gaveUp.Load():
		err = s.health.lack()
	default:
		err = flushAll(context.Background(), s.db, &s.health, a.wake)
	}
	if errors.Is(err, ErrDiskFull) {
		err = fmt.Errorf("close: the next Open has to replay: %w", err)
	}
	return err
}
