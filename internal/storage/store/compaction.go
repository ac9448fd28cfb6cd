package store

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cleavekv/cleave/internal/storage/wal"
)

// applyPollInterval is how long Compact waits before it looks again whether the applier has come
// along.
const applyPollInterval = 5 * time.Millisecond

// Compact gives back the room of what was deleted and overwritten before it was called. That
// comes about by itself while others write; Compact is for when they may not until there is
// room. It rewrites tables, which costs time, and for a while room too.
func (s *Store) Compact(ctx context.Context) error {
	return s.CompactRange(ctx, []byte{0}, []byte{0xff})
}

// CompactRange is Compact for the store keys from start up to end: a scan of them then does not step
// over what was deleted there before.
func (s *Store) CompactRange(ctx context.Context, start, end []byte) error {
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.endCall()
	if err := s.flushAll(ctx); err != nil {
		return fmt.Errorf("tidy: %w", err)
	}
	if err := s.db.Compact(ctx, start, end, false); err != nil {
		return fmt.Errorf("tidy: %w", err)
	}
	return s.health.err()
}

// DropRange removes rows with start <= key < end without logging a delete for each: tables that have
// no others are removed whole, which takes no room, and memory of rows is given back. It is for
// rows that are out of reach for every caller, and a first step only: what was written a moment ago may be
// left, so delete what a scan still finds. When it returns, a crash brings back nothing of what the
// scan does not find. Snapshots that are open keep what they see.
//
// A reader of the feed would miss these removals: while there is one, DropRange removes nothing.
func (s *Store) DropRange(ctx context.Context, start, end []byte) error {
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.endCall()
	if s.hasTrackers() {
		return nil
	}
	if err := s.applyAll(ctx); err != nil {
		return fmt.Errorf("drop a range: %w", err)
	}
	from, to := appendEngineKey(nil, start), appendEngineKey(nil, end)
	if err := s.db.DeleteRange(from, to, pebble.NoSync); err != nil {
		return fmt.Errorf("drop a range: %w", err)
	}
	// The rows of the log that it covers must not be replayed without it.
	if err := s.flushApplied(ctx); err != nil {
		return fmt.Errorf("drop a range: %w", err)
	}
	s.table.DropDeletedRange(start, end)
	s.table.ReclaimFree()
	return s.health.err()
}

// hasTrackers reports whether changes are tracked.
func (s *Store) hasTrackers() bool {
	s.chunks.publishMu.Lock()
	defer s.chunks.publishMu.Unlock()
	return len(s.chunks.trackers) > 0
}

// applyAll waits until what was committed before is in Pebble, or as much of it as the disk has room
// for: without room for another segment that is what is in sealed chunks.
func (s *Store) applyAll(ctx context.Context) error {
	until := s.Position()
	s.applier.waiters.Add(1)
	defer s.applier.waiters.Add(-1)
	if err := s.log.Rotate(); wal.ShortageOf(err) != nil {
		return nil
	} else if err != nil {
		return err
	}
	s.applier.lacksRoom.Store(false) // it looks again
	s.applier.wake.notify()
	for s.applier.appliedPosition() < until {
		if err := s.health.err(); err != nil || s.applier.lacksRoom.Load() {
			return err
		}
		select {
		case <-time.After(applyPollInterval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// flushApplied waits until what is in Pebble is durable.
func (s *Store) flushApplied(ctx context.Context) error {
	flushed, err := s.db.AsyncFlush()
	if err != nil {
		return err
	}
	for {
		select {
		case <-flushed:
			return nil
		case <-time.After(diskFullRetryPause): // a store that dies flushes no more
			if err := s.health.err(); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// reclaimer gives the room of deleted rows back. Pebble does that too, but only when it writes tables
// anyway: not while commits are refused, and not after a FLUSHALL that nothing follows.
type reclaimer struct {
	lastUrgent  atomic.Uint64 // position behind the last urgent commit
	reclaimedTo atomic.Uint64 // position up to which it was looked for
	running     atomic.Bool
	// shortAt is how much was free when the last pass had no room for a part of its work, 0 if it
	// had: with more, it is worth another pass.
	shortAt atomic.Int64

	stop chan struct{} // closed by Close
	// Only runReclaimer uses these.
	flush, compact backoff

	releaseMu    sync.Mutex   // held while memory is released
	lastPosition wal.Position // at the last look
}

// backoff spaces attempts: each waits twice as long as the last one, until one succeeds.
type backoff struct {
	next  time.Time
	pause time.Duration
}

func (b *backoff) isDue(now time.Time) bool { return !now.Before(b.next) }

func (b *backoff) recordAttempt(now time.Time) {
	b.pause = min(max(2*b.pause, reclaimInterval), maxReclaimInterval)
	b.next = now.Add(b.pause)
}

const (
	// reclaimInterval is how often the tables are checked for garbage. maxReclaimInterval bounds the
	// pause after attempts that found little: each writes a small table, which is compacted later.
	reclaimInterval    = time.Second
	maxReclaimInterval = 16 * time.Second
	// minGarbageBytes is how much deletes must have left in the tables to compact them, beside a
	// garbageDivisor-th of the tables: Pebble removes less with its next compactions.
	minGarbageBytes = 32 << 20
	garbageDivisor  = 4
	// minShortGarbageBytes is that beside a freeDivisor-th of what is free, on a disk that is nearly full.
	minShortGarbageBytes = 1 << 20
	freeDivisor          = 8
)

// runReclaimer reclaims the room of deleted rows in the background until Close.
func (s *Store) runReclaimer() {
	tick := time.NewTicker(reclaimInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.reclaimer.stop:
			return
		case <-tick.C:
			s.maybeReclaimGarbage(time.Now())
			s.maybeReleaseMemory()
		}
	}
}

const (
	// maxIdleBytes is how much log an idle store gets between two looks.
	maxIdleBytes = 64 << 10
	// idleChunkDivisor is the part of a segment that an idle store leaves unapplied. To apply a chunk
	// ends its segment, which stays as large as it is.
	idleChunkDivisor = 8
	// maxIdleApply is how long that may take.
	maxIdleApply = 10 * time.Second
)

// maybeReleaseMemory gives back what only commits need, if there were hardly any since it was called
// last: rows that wait to be applied are in memory three times, as log, in the row cache and in order.
func (s *Store) maybeReleaseMemory() {
	r := &s.reclaimer
	r.releaseMu.Lock()
	defer r.releaseMu.Unlock()
	before := r.lastPosition
	r.lastPosition = s.Position()
	if r.lastPosition > before+maxIdleBytes || s.beginCall() != nil {
		return
	}
	defer s.endCall()
	if s.chunks.payloadBytes.Load() >= s.opts.SegmentBytes/idleChunkDivisor && !s.health.isImpaired() {
		// What cannot be applied or flushed soon stays in memory: a full disk needs the reclaimer.
		_ = s.runUntilClose(func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, maxIdleApply)
			defer cancel()
			if err := s.applyAll(ctx); err != nil || s.health.isImpaired() {
				return err
			}
			return s.forgetFlushed(ctx)
		})
	}
	s.log.ReleaseMemory()
	s.table.ReclaimFree()
	if m, ok := s.opts.FS.(*memoryFS); ok {
		m.releaseMemory()
	}
}

// forgetFlushed makes Pebble give up the memory of batches that it has flushed. Its queue of them is an
// array of up to four, which it uses to the end before it takes a new one.
func (s *Store) forgetFlushed(ctx context.Context) error {
	for range 2 {
		if err := s.db.Set(idleKey, nil, pebble.NoSync); err != nil {
			return err
		}
		if err := s.flushApplied(ctx); err != nil {
			return err
		}
	}
	return nil
}

// maybeReclaimGarbage compacts the tables if deletes have left much in them. Pebble estimates that, but
// only of deletes that are flushed: a store that is written to little is flushed first. So is a write that
// is larger than a segment: its chunk would stay in memory until something else is written.
func (s *Store) maybeReclaimGarbage(now time.Time) {
	r := &s.reclaimer
	if s.beginCall() != nil {
		return
	}
	defer s.endCall()
	tables, garbage := s.measureGarbage()
	switch {
	case s.checkFreeBytes(0) != nil:
		s.reclaimInBackground() // whatever the estimate is: there may be no room to flush the deletes for it
	case s.hasMuchGarbage(tables, garbage) && r.compact.isDue(now):
		if !r.running.CompareAndSwap(false, true) {
			return
		}
		defer r.running.Store(false)
		r.compact.recordAttempt(now)
		if s.reclaim() != nil {
			return // health reports what matters
		}
		if left, _ := s.measureGarbage(); left <= tables-garbage/2 {
			r.flush, r.compact = backoff{}, backoff{}
		}
	case r.flush.isDue(now) && (tables >= min(minGarbageBytes, s.shortGarbageBytes()) && s.applier.durable.Load() < s.chunks.lastDelete.Load() || s.chunks.payloadBytes.Load() > s.opts.SegmentBytes):
		r.flush.recordAttempt(now)
		_ = s.runUntilClose(s.flushAll)
	}
}

// hasMuchGarbage reports whether deletes have left much in the tables: beside these, or beside what is
// free on the disk.
func (s *Store) hasMuchGarbage(tables, garbage int64) bool {
	return garbage >= max(minGarbageBytes, tables/garbageDivisor) || garbage >= s.shortGarbageBytes()
}

// shortGarbageBytes is how much garbage is much on this disk, whatever the tables have: the less is
// free, the less it is.
func (s *Store) shortGarbageBytes() int64 {
	free, known := s.space.freeBytes()
	if !known {
		return math.MaxInt64
	}
	return max(minShortGarbageBytes, free/freeDivisor)
}

// measureEngine returns Pebble's metrics, and notes how large level 0 is. The reclaimer asks each
// second: merged without anything to apply, level 0 must not keep room any longer.
func (s *Store) measureEngine() *pebble.Metrics {
	m := s.db.Metrics()
	s.applier.level0Bytes.Store(m.Levels[0].TablesSize)
	return m
}

// measureGarbage returns the size of the tables, and Pebble's estimate of what deletes free in them.
func (s *Store) measureGarbage() (tables, garbage int64) {
	m := s.measureEngine()
	for i := range m.Levels {
		tables += m.Levels[i].TablesSize
	}
	return tables, int64(m.Table.Garbage.PointDeletionsBytesEstimate + m.Table.Garbage.RangeDeletionsBytesEstimate)
}

const (
	// reclaimPause is how long nothing is done after room was looked for: that costs more than what
	// one delete leaves.
	reclaimPause = 500 * time.Millisecond
	// maxReclaimPasses bounds the passes of one search. Each but the last gave room back, or had
	// the reserve.
	maxReclaimPasses = 8
)

// needsReclaim reports whether there may be room to give back since the last search.
func (s *Store) needsReclaim() bool {
	r := &s.reclaimer
	if r.lastUrgent.Load() > r.reclaimedTo.Load() {
		return true
	}
	short := r.shortAt.Load()
	free, known := s.space.freeBytes()
	return short > 0 && known && free > short+s.opts.SegmentBytes
}

// reclaimInBackground looks for room in the background if something was deleted since the last time,
// or if there is more room to work with. The caller is inside of the store.
func (s *Store) reclaimInBackground() {
	r := &s.reclaimer
	if !s.needsReclaim() || !r.running.CompareAndSwap(false, true) {
		return
	}
	if s.beginCall() != nil {
		r.running.Store(false)
		return
	}
	go func() {
		defer s.endCall()
		defer r.running.Store(false)
		_ = s.reclaim() // health reports what matters
		s.pauseReclaim()
	}()
}

// reclaim makes one search. The caller has set running.
func (s *Store) reclaim() error {
	upTo := s.Position()
	err := s.reclaimDeleted()
	if err == nil {
		// Without room for another segment, deletes are left in the log: they are looked for again.
		s.reclaimer.reclaimedTo.Store(uint64(min(upTo, s.applier.appliedPosition())))
	}
	return err
}

func (s *Store) pauseReclaim() {
	for began := time.Now(); time.Since(began) < reclaimPause && !s.closing.Load(); {
		time.Sleep(reclaimPause / 50)
	}
}

// reclaimDeleted brings deletes into the tables and merges those with the tables below them, a piece at a
// time: each piece needs room for what is left of it until its old tables are removed.
func (s *Store) reclaimDeleted() error { return s.runUntilClose(s.compactDeleted) }

// runUntilClose calls f with a context that Close cancels.
func (s *Store) runUntilClose(f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-s.reclaimer.stop:
			cancel() // Close waits for f
		case <-ctx.Done():
		}
	}()
	return f(ctx)
}

// flushAll brings what was committed before into durable tables.
func (s *Store) flushAll(ctx context.Context) error {
	if err := s.applyAll(ctx); err != nil {
		return err
	}
	return s.flushApplied(ctx)
}

// compactDeleted is reclaimDeleted until ctx ends.
func (s *Store) compactDeleted(ctx context.Context) error {
	until := s.Position()
	if err := s.applyAll(ctx); err != nil {
		return err
	}
	if s.applier.appliedPosition() < until && s.releaseReserve() { // it is room for a segment
		if err := s.applyAll(ctx); err != nil {
			return err
		}
	}
	if err := s.flushApplied(ctx); err != nil {
		return err
	}
	if s.health.diskFull.Load() {
		// Pebble prefers compactions of its own, and tries one that has no room again and again.
		s.releaseReserve()
	}
	for range maxReclaimPasses {
		free, _ := s.space.freeBytes()
		isShort, err := s.compactDeletedRanges(ctx)
		if err != nil {
			return err
		}
		if !isShort {
			s.reclaimer.shortAt.Store(0)
			return s.health.err()
		}
		// What was merged, or the reserve, may be the room that the rest needs.
		released := s.releaseReserve()
		now, _ := s.space.freeBytes()
		s.reclaimer.shortAt.Store(max(now, 1))
		if !released && now <= free {
			break
		}
	}
	return s.health.err()
}

// compactDeletedRanges makes one pass over the ranges that have deletes. isShort means that the disk had
// no room for some of them.
func (s *Store) compactDeletedRanges(ctx context.Context) (isShort bool, err error) {
	pieces, err := s.listDeletedRanges()
	if err != nil {
		return false, err
	}
	for _, p := range pieces {
		err := s.db.Compact(ctx, p.start, p.end, false)
		switch {
		case err == nil:
		case wal.ShortageOf(err) != nil: // the next ones may give room back
			isShort = true
		default:
			return isShort, err
		}
	}
	return isShort || s.health.diskFull.Load(), nil // Pebble's own compactions may have had none
}

// keyRange is a range of keys of Pebble.
type keyRange struct{ start, end []byte }

// listDeletedRanges returns ranges that have deletes above tables, each as large as a few tables.
func (s *Store) listDeletedRanges() (pieces []keyRange, err error) {
	levels, err := s.db.SSTables(pebble.WithProperties())
	if err != nil {
		return nil, readError(err)
	}
	type coveredTable struct {
		pebble.SSTableInfo
		covered bool // by deletes of the levels above
	}
	var deletes []pebble.SSTableInfo
	var tables []coveredTable
	for i, level := range levels {
		for _, t := range level {
			if i > 0 {
				tables = append(tables, coveredTable{t, slices.ContainsFunc(deletes, func(d pebble.SSTableInfo) bool {
					return bytes.Compare(d.Smallest.UserKey, t.Largest.UserKey) <= 0 && bytes.Compare(t.Smallest.UserKey, d.Largest.UserKey) <= 0
				})})
			}
		}
		for _, t := range level {
			if t.Properties != nil && t.Properties.NumDeletions > 0 {
				deletes = append(deletes, t)
			}
		}
	}
	slices.SortFunc(tables, func(a, b coveredTable) int { return bytes.Compare(a.Smallest.UserKey, b.Smallest.UserKey) })
	free, _ := s.space.freeBytes()
	most := max(uint64(max(free, 0))/4, 1)
	size := uint64(0)
	for _, t := range tables {
		if !t.covered {
			size = most // the next one begins a piece
			continue
		}
		start, end := t.Smallest.UserKey, append(bytes.Clone(t.Largest.UserKey), 0)
		if n := len(pieces); n > 0 && size+t.Size <= most {
			if bytes.Compare(pieces[n-1].end, end) < 0 {
				pieces[n-1].end = end
			}
			size += t.Size
			continue
		}
		pieces, size = append(pieces, keyRange{start, end}), t.Size
	}
	return pieces, nil
}
