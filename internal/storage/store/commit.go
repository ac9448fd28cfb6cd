package store

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/storage/memruns"
	"github.com/cleavekv/cleave/internal/storage/rowcache"
	"github.com/cleavekv/cleave/internal/storage/wal"
)

// maxPayloadBytes bounds an entry far above what a transaction may be, and far below
// what the row table, the log and Pebble can count.
const maxPayloadBytes = 256 << 20

// Commit writes the entries to the log, all or none of them, waits until they
// are committed by the durability class, makes them visible and returns the
// position of the log behind them. The payloads are effect batches; the caller
// gets them back. Urgent entries may use the room that is kept for them when
// the disk is full, unless they are larger than a quarter of a segment.
//
// After [ErrPayload], [ErrDiskFull] and [ErrClosed] nothing was logged. After
// an error that matches [ErrUnknown] the entries may be there at the next Open.
func (s *Store) Commit(urgent bool, es ...wal.Entry) (wal.Position, error) {
	var size int64
	for i := range es {
		size += int64(len(es[i].Payload))
		if n := len(es[i].Payload); n > maxPayloadBytes {
			return 0, fmt.Errorf("%w: entry %d has %d bytes, at most %d", ErrPayload, i, n, maxPayloadBytes)
		}
		if _, err := effect.Parse(es[i].Payload); err != nil {
			return 0, fmt.Errorf("%w: entry %d: %w", ErrPayload, i, err)
		}
	}
	if err := s.beginCall(); err != nil {
		return 0, err
	}
	defer s.endCall()
	s.chunks.waitForApplier(s.health.isImpaired)
	if !urgent || size > s.opts.SegmentBytes/4 {
		if err := s.checkFreeBytes(size); err != nil {
			s.reclaimInBackground()
			return 0, err
		}
	}
	pos, err := s.log.Append(urgent, es...)
	if urgent && err == nil {
		s.reclaimer.lastUrgent.Store(uint64(pos))
	}
	if errors.Is(err, wal.ErrFailed) {
		s.health.fail(err)
	}
	if dead := s.health.err(); err == nil && dead != nil {
		// It is in the log, but will not get into Pebble before the
		// next Open.
		return 0, fmt.Errorf("%w: %w", ErrUnknown, dead)
	}
	return pos, err
}

// CheckFreeSpace is [ErrDiskFull] if there is none for what is not urgent.
func (s *Store) CheckFreeSpace() error {
	if err := s.checkFreeBytes(0); err != nil {
		s.reclaimInBackground()
		return err
	}
	return nil
}

// isDiskFull reports whether Pebble has no room to flush. It may have met a full
// disk with work that it then gave up, and not notice that there is space
// again, so the disk is asked too.
func (s *Store) isDiskFull() bool {
	if !s.health.diskFull.Load() {
		return false
	}
	u, err := s.opts.FS.GetDiskUsage(s.opts.Dir)
	noFiles := s.health.outOfFiles.Load() // of which the disk does not know
	switch {
	case err == nil && u.AvailBytes < 2*uint64(s.opts.SegmentBytes):
		return true
	case (err != nil || noFiles) && time.Since(time.Unix(0, s.health.diskFullAt.Load())) < diskFullRetryPause:
		return true // unknown: Pebble is asked again after a while
	}
	s.health.recordSuccess()
	return false
}

// diskFullRetryPause is for how long a disk that does not report its room counts as full after Pebble
// has met that.
const diskFullRetryPause = 100 * time.Millisecond

// publishFrame is the log's call to make a frame visible. What it is given went
// through Commit, which had parsed it: that it does not parse now means that
// memory is damaged.
func (s *Store) publishFrame(memory *wal.Chunk, es []wal.Entry) {
	if err := s.chunks.publishFrame(memory, es); err != nil {
		s.health.fail(fmt.Errorf("a committed entry changed in memory: %w", err))
	}
}

// Sync returns when everything that was committed before is on stable storage,
// whatever the durability class.
func (s *Store) Sync() error {
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.endCall()
	err := s.log.Sync()
	if errors.Is(err, wal.ErrFailed) {
		s.health.fail(err)
	}
	return err
}

// chunk is what is known about one segment of the log that is not in Pebble
// yet.
type chunk struct {
	memory *wal.Chunk // the bytes that the operations of set are views of
	set    memruns.Set
	gen    uint64 // of its rows in the row table
	// end is the position of the last entry that was published; once sealed, that
	// of the segment's end.
	end wal.Position
	// payloadBytes is how many bytes of operations were published to it. The log takes more:
	// each of its frames begins a block.
	payloadBytes int64
	// sealed means that nothing is published to it any more. Chunks are sealed
	// in order, so all but the newest one or few are.
	sealed   bool
	sealedAt time.Time // by the clock of the machine
	// readers are the snapshots that look at it, and applied reports whether it is off
	// the list: only they keep it in memory.
	readers int
	applied bool
}

// logBytes is how many bytes of log are kept for the chunk: all of its segment, of which a crash may have
// left most unused. Were that not counted, a store that dies again and again soon after Open would
// keep a segment for each time.
func (c *chunk) logBytes() int64 {
	return int64(c.memory.SegmentBytes())
}

// chunkList is the list of chunks that are not applied, oldest first, and the
// place where commits become visible.
//
// A chunk leaves the list after its rows are in Pebble, so a row may be found several
// times in both. A reader that copies the list first and asks Pebble second misses
// nothing. The list holds one reference to the memory of each of its chunks.
type chunkList struct {
	table *rowcache.Cache

	// publishMu is held while a frame becomes visible. sequence is odd during
	// that time, for readers that would rather look twice than wait.
	publishMu    sync.Mutex
	sequence     atomic.Uint64
	published    atomic.Uint64    // position of the last entry that is visible
	lastDelete   atomic.Uint64    // position of the last entry that deletes something
	trackers     []*ChangeTracker // guarded by publishing
	waits        atomic.Uint64    // calls of waitForApplier that had to wait
	waitedNS     atomic.Int64     // how long these waited
	payloadBytes atomic.Int64     // bytes of operations of all chunks of the list

	mu          sync.Mutex
	list        []*chunk
	lastGen     uint64       // the newest generation
	maxSealed   int64        // how many chunks may be sealed before writers wait
	sealedCount atomic.Int64 // how many of list are
	// maxSealedBytes bounds the operations of sealed chunks, sealedBytes: writers wait above it. A write
	// that is larger than a segment is a chunk of its own size, so to count chunks does not bound memory.
	maxSealedBytes int64
	sealedBytes    atomic.Int64
	roomCond       sync.Cond // there are fewer
	snapshotChunks int       // chunks that are off the list and that snapshots keep
}

func (u *chunkList) init(table *rowcache.Cache, o *Options) {
	u.table, u.roomCond.L = table, &u.mu
	u.maxSealed = int64(o.Chunks) - 1 // one is being filled
	// Rows that are not applied are in the row table too: a quarter of it for those of sealed
	// chunks, and about as much for the chunk that is being filled, is the half that they may take.
	u.maxSealedBytes = max(o.SegmentBytes, min(u.maxSealed*o.SegmentBytes, o.CacheBytes/4))
}

// waitForApplier holds writers back while the applier is behind, but not after stop
// reports a change for the worse. The chunks are counted here and not by the
// log, for which a chunk is in use as long as a snapshot looks at it: a snapshot
// that is held long must not hold up commits.
func (u *chunkList) waitForApplier(stop func() bool) {
	if !u.isFull() {
		return
	}
	began := time.Now()
	u.waits.Add(1)
	defer func() { u.waitedNS.Add(int64(time.Since(began))) }()
	u.mu.Lock()
	defer u.mu.Unlock()
	for u.isFull() && !stop() {
		u.roomCond.Wait()
	}
}

// isFull reports whether writers wait.
func (u *chunkList) isFull() bool {
	return u.sealedCount.Load() >= u.maxSealed || u.sealedBytes.Load() > u.maxSealedBytes
}

// wakeWaiters makes the waiting goroutines ask again whether to stop.
func (u *chunkList) wakeWaiters() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.roomCond.Broadcast()
}

// publishFrame makes the entries of one frame visible. The log calls it in log
// order and one at a time, after the frame is committed.
func (u *chunkList) publishFrame(memory *wal.Chunk, es []wal.Entry) error {
	if len(es) == 0 {
		return nil
	}
	u.publishMu.Lock()
	defer u.publishMu.Unlock()
	c := u.getOrAddChunk(memory)
	u.sequence.Add(1)
	defer u.sequence.Add(1)
	u.table.BeginBatch()
	defer u.table.RevealBatch() // after the last row, and whatever happens: readers wait for it
	var w opWindow
	for i := range es {
		if err := u.publishEntry(c, &w, &es[i]); err != nil {
			return err
		}
	}
	u.publishOps(c, w.ops[:w.n])
	c.set.Reveal()
	c.end = es[len(es)-1].Pos
	u.published.Store(uint64(c.end))
	return nil
}

// opWindow is operations of a frame that are about to become visible. Their rows are asked for together,
// so that they wait for memory once: that is most of the time it takes.
type opWindow struct {
	ops [rowcache.MaxPrefetchKeys]effect.Op
	n   int
}

// publishEntry makes the operations of an entry visible, but for the last ones, which it leaves in w.
func (u *chunkList) publishEntry(c *chunk, w *opWindow, e *wal.Entry) error {
	b, err := effect.Parse(e.Payload)
	if err != nil {
		return err
	}
	untracked, deletes := w.n, false
	for _, op := range b.All() {
		if op.Key[0] == byte(effect.Events) {
			continue // for readers of the log
		}
		deletes = deletes || op.Delete
		w.ops[w.n] = op
		if w.n++; w.n == len(w.ops) {
			u.trackOps(w.ops[untracked:], e.Pos)
			u.publishOps(c, w.ops[:])
			w.n, untracked = 0, 0
		}
	}
	u.trackOps(w.ops[untracked:w.n], e.Pos)
	if deletes {
		u.lastDelete.Store(uint64(e.Pos))
	}
	c.payloadBytes += int64(len(e.Payload))
	u.payloadBytes.Add(int64(len(e.Payload)))
	return nil
}

// trackOps notes operations of the entry at a position for those who follow changes.
func (u *chunkList) trackOps(ops []effect.Op, at wal.Position) {
	for _, f := range u.trackers {
		f.recordOps(ops, at)
	}
}

// publishOps makes operations visible.
func (u *chunkList) publishOps(c *chunk, ops []effect.Op) {
	if len(ops) > maxUnprefetchedOps {
		var hints [rowcache.MaxPrefetchKeys]rowcache.Hint
		for i := range ops {
			hints[i] = u.table.PrefetchIndex(ops[i].Key)
		}
		for _, h := range hints[:len(ops)] {
			u.table.PrefetchRow(h)
		}
	}
	for i := range ops {
		op := &ops[i]
		u.table.Publish(c.gen, op.Key, op.Value, op.Delete)
		c.set.Stage(op.Key, op.Value, op.Delete)
	}
}

// maxUnprefetchedOps are not worth asking for their rows beforehand.
const maxUnprefetchedOps = 3

// getOrAddChunk returns the chunk of memory, which is the last of the list or is added
// to it.
func (u *chunkList) getOrAddChunk(memory *wal.Chunk) *chunk {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n := len(u.list); n > 0 && u.list[n-1].memory == memory {
		return u.list[n-1]
	}
	u.lastGen++
	c := &chunk{memory: memory, gen: u.lastGen}
	u.list = append(u.list, c)
	return c
}

// sealChunk notes that nothing more comes for memory.
func (u *chunkList) sealChunk(memory *wal.Chunk) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.list {
		if c.memory == memory {
			// A frame without entries may follow the last one with some.
			c.end = memory.End()
			c.sealed, c.sealedAt = true, time.Now()
			u.sealedCount.Add(1)
			u.sealedBytes.Add(c.payloadBytes)
			return
		}
	}
	memory.Release() // nothing was ever published to it
}

// listOldestSealed returns the first chunks of the list that are sealed: most of them at most, and as
// many as have no more than some bytes of operations, but one in any case.
func (u *chunkList) listOldestSealed(most int, bytes int64) []*chunk {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := 0
	for n < min(most, len(u.list)) && u.list[n].sealed && (n == 0 || u.list[n].payloadBytes <= bytes) {
		bytes -= u.list[n].payloadBytes
		n++
	}
	return slices.Clone(u.list[:n])
}

// dropOldest takes the first chunk off the list.
func (u *chunkList) dropOldest(c *chunk) {
	u.mu.Lock()
	if c.applied = true; c.readers > 0 {
		u.snapshotChunks++
	}
	u.list[0] = nil
	u.list = u.list[1:]
	u.sealedCount.Add(-1)
	u.sealedBytes.Add(-c.payloadBytes)
	u.payloadBytes.Add(-c.payloadBytes)
	u.roomCond.Broadcast()
	u.mu.Unlock()
	c.memory.Release()
}

// SyncsEachCommit reports whether a commit waits for the disk.
func (s *Store) SyncsEachCommit() bool { return s.opts.Durability == wal.Always }
