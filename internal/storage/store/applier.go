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

	"github.com/cleavekv/cleave/internal/storage/memruns"
	"github.com/cleavekv/cleave/internal/storage/wal"
)

// applier is the state of the one goroutine that brings chunks into Pebble and
// recycles the log behind them.
//
// Three positions follow each other through the log, and recovery needs what is
// behind the last of them:
//
//	published >= applied >= durable >= recycled
type applier struct {
	wake     notifier // something changed: look again
	done     chan struct{}
	stopping atomic.Bool
	// giveUpIfFull lets chunks go unapplied if the disk is full: the store is
	// closing, and they are in the log.
	giveUpIfFull atomic.Bool
	// gaveUp means that a chunk was released without being applied, or is about to be: nothing is
	// applied any more, and a reader of the list and Pebble misses rows from now on.
	gaveUp  atomic.Bool
	flushes atomic.Uint64
	// waiters is how many wait for chunks to be applied.
	waiters atomic.Int64
	// lacksRoom reports that chunks wait for room on the disk, which may take the compactions of
	// those who wait for the chunks.
	lacksRoom atomic.Bool
	// level0Bytes is how large level 0 of the tables was at the last look.
	level0Bytes atomic.Int64

	applied, durable  atomic.Uint64
	unflushedBytes    atomic.Int64 // bytes of log between durable and applied
	unflushedRowBytes atomic.Int64 // bytes of rows that are in Pebble because of them
	stalls            atomic.Uint64
	stalledNS         atomic.Int64

	// Only the goroutine itself uses these.
	flushesSeen     uint64         // flushes looked at
	hadShortage     bool           // files, to look at the last one
	unflushedChunks []appliedChunk // not known to be durable, oldest first
	flushRequested  bool           // for a flush, since durable moved
	stalledAt       time.Time      // zero while there is room

	mu           sync.Mutex
	log          *wal.Log // nil until it is open
	logRetainers int      // backups that read the log
	recycled     wal.Position
}

// appliedChunk is a chunk in Pebble's memtables.
type appliedChunk struct {
	end         wal.Position
	bytes, rows int64
}

func (a *applier) init() {
	a.wake, a.done = make(notifier, 1), make(chan struct{})
}

// setStart sets the position that Pebble had when it was opened, which is durable.
func (a *applier) setStart(pos wal.Position) {
	a.applied.Store(uint64(pos))
	a.durable.Store(uint64(pos))
}

func (a *applier) appliedPosition() wal.Position { return wal.Position(a.applied.Load()) }

// notifier notifies one goroutine that something changed.
type notifier chan struct{}

// notify never blocks: Pebble calls it with its locks held. Signals that were not
// yet received are one.
func (s notifier) notify() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// onFlush notes that Pebble's durable state moved.
func (a *applier) onFlush() {
	a.flushes.Add(1)
	a.wake.notify()
}

// setLog hands over the log, whose segments may be recycled from now on.
func (a *applier) setLog(log *wal.Log) {
	a.mu.Lock()
	a.log = log
	a.mu.Unlock()
	a.recycleLog()
}

// stop ends the goroutine when all sealed chunks are dealt with.
func (a *applier) stop() {
	a.stopping.Store(true)
	a.wake.notify()
	<-a.done
}

func (s *Store) runApplier() {
	a := &s.applier
	defer close(a.done)
	s.makeReserve()
	for {
		stopping := a.stopping.Load() // before the last look
		if err := s.advanceDurable(); err != nil {
			s.health.fail(err)
		}
		if s.health.isImpaired() {
			s.chunks.wakeWaiters()
		}
		cs := s.chunks.listOldestSealed(maxApplyChunks, maxApplyChunks*s.opts.SegmentBytes)
		switch {
		case len(cs) == 0 && stopping:
			return
		case len(cs) == 1 && !stopping && s.shouldLinger(cs[0]):
		case len(cs) > 0 && s.tryApply(cs):
			continue
		}
		<-a.wake
	}
}

// shouldLinger reports whether a chunk is left to wait for the next one, and sees to it that it is
// looked at again. If commits wait for it, there is no next one.
func (s *Store) shouldLinger(c *chunk) bool {
	left := s.opts.Linger - time.Since(c.sealedAt)
	if left <= 0 || s.applier.waiters.Load() > 0 || s.chunks.isFull() || s.health.isImpaired() {
		return false
	}
	time.AfterFunc(left, s.applier.wake.notify)
	return true
}

// maxApplyChunks is how many chunks are brought into Pebble together, if so many wait: what was
// overwritten meanwhile is left out, and there are fewer tables to be merged.
const maxApplyChunks = 3

// tryApply brings chunks into Pebble and reports whether they are dealt with; if not,
// there is no room now.
func (s *Store) tryApply(cs []*chunk) bool {
	a := &s.applier
	// If a compaction met the full disk, deletes have to come to the tables all the same.
	full := s.health.diskFull.Load() && !s.hasSpaceToFlush(cs)
	if s.health.err() != nil || full && a.giveUpIfFull.Load() {
		a.gaveUp.Store(true)
	}
	if a.gaveUp.Load() {
		// The rows stay in the log, and in the row table, as they are never
		// reported as applied. Releasing the memory keeps commits from waiting
		// for it for ever: they get the failure instead.
		s.chunks.dropOldest(cs[0])
		return true
	}
	if full {
		s.releaseReserve()
		time.AfterFunc(diskFullRetryPause, a.wake.notify)
	}
	if full || !s.canApply() {
		a.lacksRoom.Store(s.health.diskFull.Load())
		return false
	}
	a.lacksRoom.Store(false)
	if err := s.applyChunks(cs); err != nil {
		s.health.fail(err)
		return true
	}
	return true
}

// canApply reports whether Pebble keeps up with its flushes and compactions.
func (s *Store) canApply() bool {
	a := &s.applier
	ok := s.measureEngine().Levels[0].Sublevels < maxL0Sublevels && a.unflushedBytes.Load() < 2*s.opts.FlushBytes
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

// applyChunks brings the newest operation on each key of chunks, which are in their order, into
// Pebble, in one batch with the applied position.
func (s *Store) applyChunks(cs []*chunk) error {
	a := &s.applier
	last := cs[len(cs)-1]
	sets := make([]*memruns.Set, len(cs))
	for i, c := range cs {
		sets[i] = &c.set
	}
	var p cpuYielder
	b := newEngineBatch(s.db, memruns.Drain(p.maybeYield, sets...), last.end)
	rows := int64(b.Len())
	callHook(s.hooks.beforeApply)
	if err := errors.Join(s.db.Apply(b, pebble.NoSync), b.Close()); err != nil {
		return err
	}
	if err := s.health.err(); err != nil {
		return err // Apply does not return what went to Fatalf
	}
	// Only now may readers be sent to Pebble for these rows.
	a.applied.Store(uint64(last.end))
	s.table.SetApplied(last.gen)
	var size int64
	for _, c := range cs {
		size += c.logBytes()
	}
	a.unflushedChunks = append(a.unflushedChunks, appliedChunk{last.end, size, rows})
	a.unflushedBytes.Add(size)
	a.unflushedRowBytes.Add(rows)
	for _, c := range cs {
		s.chunks.dropOldest(c)
	}
	// Now, and not when the next rows come to their stripes: large ones may be the last for long.
	s.table.Trim()
	return s.requestFlush()
}

// newEngineBatch writes drained operations as a batch of Pebble, as large as it has to be: Pebble
// keeps it until it is flushed.
func newEngineBatch(db *pebble.DB, ops memruns.DrainedOps, end wal.Position) *pebble.Batch {
	b := db.NewBatchWithSize(64 + ops.SizeBytes() + 16*len(ops))
	var pos [8]byte
	binary.BigEndian.PutUint64(pos[:], uint64(end))
	// A batch in memory takes what it is given: Set fails on a closed batch only.
	_ = b.Set(appliedKey, pos[:], nil)
	var p cpuYielder
	for some := range slices.Chunk(ops, memruns.DrainBatchOps) {
		p.maybeYield()
		some.Prefetch()
		for i := range some {
			addToBatch(b, some.At(i))
		}
	}
	return b
}

// addToBatch adds an operation to a batch in memory, which takes what it is given.
func addToBatch(b *pebble.Batch, op memruns.Op) {
	if op.Deleted {
		d := b.DeleteDeferred(1 + len(op.Key))
		putEngineKey(d.Key, op.Key)
		_ = d.Finish()
		return
	}
	d := b.SetDeferred(1+len(op.Key), len(op.Value))
	putEngineKey(d.Key, op.Key)
	copy(d.Value, op.Value)
	_ = d.Finish()
}

func putEngineKey(dst, key []byte) {
	dst[0] = rowPrefix
	copy(dst[1:], key)
}

// requestFlush asks Pebble for a flush if it does not flush by itself: when few
// keys are overwritten all the time its memtable never fills, but the log does.
func (s *Store) requestFlush() error {
	a := &s.applier
	if a.flushRequested || a.unflushedBytes.Load() < s.opts.FlushBytes {
		return nil
	}
	a.flushRequested = true
	_, err := s.db.AsyncFlush()
	return err
}

// shortageRetryPause is after what time that is read again which could not be for want of files.
const shortageRetryPause = 10 * time.Millisecond

// advanceDurable learns what became durable, and recycles the log behind it. Of a dead
// store nothing more is believed.
func (s *Store) advanceDurable() error {
	a := &s.applier
	if s.health.err() != nil {
		return nil
	}
	if n := a.flushes.Load(); n != a.flushesSeen {
		callHook(s.hooks.beforeDurable)
		pos, err := readAppliedPosition(s.db, true)
		if lack := wal.ShortageOf(err); lack != nil { // of files that may be open: that passes
			a.hadShortage = true
			s.health.recordShortage(lack)
			time.AfterFunc(shortageRetryPause, a.wake.notify)
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the durable position: %w", err)
		}
		a.flushesSeen = n
		if a.hadShortage {
			a.hadShortage = false
			s.health.recordSuccess() // or Pebble says so again
		}
		// Once more: when Pebble begins a new manifest it goes on behind a sync of its directory
		// that failed. What was read may stand on that sync, and then the store was dead before.
		if s.health.err() != nil {
			return nil
		}
		s.makeReserve()
		if uint64(pos) > a.durable.Load() {
			a.durable.Store(uint64(pos))
			a.flushRequested = false
			for len(a.unflushedChunks) > 0 && a.unflushedChunks[0].end <= pos {
				a.unflushedBytes.Add(-a.unflushedChunks[0].bytes)
				a.unflushedRowBytes.Add(-a.unflushedChunks[0].rows)
				a.unflushedChunks = a.unflushedChunks[1:]
			}
			if err := s.requestFlush(); err != nil {
				return err
			}
		}
	}
	a.recycleLog()
	return nil
}

// recycleLog gives the log back what Pebble is sure to have, unless a backup is
// reading it.
func (a *applier) recycleLog() {
	a.mu.Lock()
	defer a.mu.Unlock()
	pos := wal.Position(a.durable.Load())
	if a.log == nil || a.logRetainers > 0 || pos <= a.recycled {
		return
	}
	a.recycled = pos
	a.log.Recycle(pos)
}

// retainLog keeps the log from being recycled until the returned function is called.
func (a *applier) retainLog() (release func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.logRetainers++
	return func() {
		a.mu.Lock()
		a.logRetainers--
		a.mu.Unlock()
		a.wake.notify()
	}
}

// flushOnClose makes everything that was applied durable. The applier has ended.
func (s *Store) flushOnClose() error {
	a := &s.applier
	err := s.health.err()
	switch {
	case err != nil || a.applied.Load() == a.durable.Load() && !a.gaveUp.Load():
		return err
	case a.gaveUp.Load():
		err = s.health.shortage()
	default:
		err = flushEngine(context.Background(), s.db, &s.health, a.wake)
	}
	if errors.Is(err, ErrDiskFull) {
		err = fmt.Errorf("close: the next Open has to replay: %w", err)
	}
	return err
}
