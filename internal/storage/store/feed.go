package store

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/storage/wal"
)

// FeedEntry is one entry of the feed.
type FeedEntry struct {
	Pos   wal.Position // resume behind it
	Group uint64
	Batch effect.Batch // good during the call only
}

// Feed calls visit with what was committed after from, in order, up to what is
// committed now, and returns the position to go on from. If visit returns an
// error, Feed returns that and the position before the commit that the entry
// belongs to: all of it comes again. [ErrGone] means that from is no longer
// retained: take a [Snapshot], use it, and go on from its position.
func (s *Store) Feed(from wal.Position, visit func(FeedEntry) error) (wal.Position, error) {
	if err := s.beginCall(); err != nil {
		return from, err
	}
	defer s.endCall()
	return s.readFeed(from, visit)
}

func (s *Store) readFeed(from wal.Position, visit func(FeedEntry) error) (wal.Position, error) {
	// A row is visible a moment before the log counts it as committed. A reader that saw
	// it must find it in the feed.
	for at := s.Position(); s.log.Committed() < at; {
		runtime.Gosched()
	}
	return s.log.ReadFrom(from, func(e wal.Entry) error {
		b, err := effect.Parse(e.Payload)
		if err != nil {
			return fmt.Errorf("%w: entry at %v: %w", ErrCorrupt, e.Pos, err)
		}
		return visit(FeedEntry{Pos: e.Pos, Group: e.Group, Batch: b})
	})
}

// RetainLog keeps all of the log that is there now, and what comes, until the
// returned function is called: for readers of the feed behind a copy, as a move
// does. The log grows meanwhile, so the caller must watch [Store.LogBytesAfter].
func (s *Store) RetainLog() (release func()) { return sync.OnceFunc(s.applier.retainLog()) }

// LogBytesAfter returns about how many bytes of log there are behind a position, of what is kept.
func (s *Store) LogBytesAfter(pos wal.Position) int64 { return s.log.BytesAfter(pos) }

// ChangeTracker remembers which of some rows have changed, and where in the log each did last, so
// that a copier need not read all that became of them meanwhile. It is a memory
// and no record: it ends with the store, and where it has forgotten something [Store.Feed]
// reports so.
//
// Commits only record what they change. The reader puts that in order: it would cost each
// commit more than to make its rows visible.
type ChangeTracker struct {
	chunks     *chunkList
	matches    func(key []byte) bool
	maxMemory  int64
	overflowed atomic.Bool

	pendingMu sync.Mutex
	pending   changeNotes

	// mu comes before hearing.
	mu    sync.Mutex
	since wal.Position
	rows  map[string]*changedRow
	// order has the rows as they changed, and some more than once: only the last place of
	// a row counts.
	order []changePosition
	// bytes is how many all rows have, and memory about what it takes to remember them.
	bytes, memory int64
	spare         changeNotes
}

// changedRow is a row that has changed.
type changedRow struct {
	key   string
	at    wal.Position
	bytes int64 // of the row
}

// changePosition is where a row has changed, if it has not again.
type changePosition struct {
	row *changedRow
	at  wal.Position
}

func (p changePosition) isLast() bool { return p.row.at == p.at }

// changeNotes are what commits have changed, as they came.
type changeNotes struct {
	all  []changeNote
	keys []byte
}

// changeNote is one of them. Its key is behind that of the one before.
type changeNote struct {
	at     wal.Position
	keyLen int // its length
	bytes  int64
}

// Change is that a row has changed, and where in the log it did last.
type Change struct {
	Key []byte
	At  wal.Position
}

const (
	// changeOverhead is about how much memory it takes to remember a change, besides its key.
	changeOverhead = 160
	// maxPendingNotes is how many notes wait to be put in order, and maxPendingKeyBytes how many bytes
	// their keys have: then a commit does it.
	maxPendingNotes    = 1 << 16
	maxPendingKeyBytes = 4 << 20
)

// TrackChanges begins to remember what changes among the rows that concern the caller. Of more
// than what takes most bytes of memory it remembers nothing. Concerns is called while
// commits become visible: it must be quick.
func (s *Store) TrackChanges(concerns func(key []byte) bool, most int64) *ChangeTracker {
	c := &ChangeTracker{chunks: &s.chunks, matches: concerns, maxMemory: most, rows: map[string]*changedRow{}}
	c.chunks.publishMu.Lock()
	defer c.chunks.publishMu.Unlock()
	c.since = s.Position()
	c.chunks.trackers = append(c.chunks.trackers, c)
	return c
}

// Close ends it.
func (c *ChangeTracker) Close() {
	c.chunks.publishMu.Lock()
	defer c.chunks.publishMu.Unlock()
	c.chunks.trackers = slices.DeleteFunc(c.chunks.trackers, func(f *ChangeTracker) bool { return f == c })
}

// recordOps takes down what a commit changes. It is called before that is visible.
func (c *ChangeTracker) recordOps(ops []effect.Op, at wal.Position) {
	if c.overflowed.Load() {
		return
	}
	c.pendingMu.Lock()
	h := &c.pending
	for i := range ops {
		if op := &ops[i]; c.matches(op.Key) {
			h.all = append(h.all, changeNote{at, len(op.Key), int64(len(op.Key) + len(op.Value))})
			h.keys = append(h.keys, op.Key...)
		}
	}
	full := len(h.all) >= maxPendingNotes || len(h.keys) >= maxPendingKeyBytes
	c.pendingMu.Unlock()
	if full {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.mergePending()
	}
}

// mergePending puts in order what was recorded. c.mu is held.
func (c *ChangeTracker) mergePending() {
	c.pendingMu.Lock()
	h := c.pending
	c.pending = c.spare
	c.pendingMu.Unlock()
	keys := h.keys
	for _, n := range h.all {
		c.recordChange(keys[:n.keyLen], n.at, n.bytes)
		keys = keys[n.keyLen:]
	}
	c.spare = changeNotes{h.all[:0], h.keys[:0]}
}

// recordChange puts a row at the end.
func (c *ChangeTracker) recordChange(key []byte, at wal.Position, size int64) {
	if c.overflowed.Load() {
		return
	}
	r := c.rows[string(key)]
	if r == nil {
		if c.memory += changeOverhead + int64(len(key)); c.memory > c.maxMemory {
			c.discardAll()
			return
		}
		r = &changedRow{key: string(key)}
		c.rows[r.key] = r
	}
	c.bytes += size - r.bytes
	if r.bytes = size; r.at == at {
		return // once more in the same commit
	}
	r.at = at
	if c.order = append(c.order, changePosition{r, at}); len(c.order) > 2*len(c.rows)+maxPendingNotes {
		c.order = slices.DeleteFunc(c.order, func(p changePosition) bool { return !p.isLast() })
	}
}

// discardAll gives up: there is too much to remember.
func (c *ChangeTracker) discardAll() {
	c.overflowed.Store(true)
	c.rows, c.order, c.bytes, c.memory = nil, nil, 0, 0
}

// Since returns the place in the log behind which all changes are remembered, and false if
// there were too many.
func (c *ChangeTracker) Since() (wal.Position, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mergePending()
	return c.since, !c.overflowed.Load()
}

// Forget forgets rows that have not changed behind a place.
func (c *ChangeTracker) Forget(upto wal.Position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mergePending()
	c.since = max(c.since, upto)
	n := 0
	for ; n < len(c.order) && c.order[n].at <= upto; n++ {
		if p := c.order[n]; p.isLast() {
			delete(c.rows, p.row.key)
			c.bytes -= p.row.bytes
			c.memory -= changeOverhead + int64(len(p.row.key))
		}
	}
	c.order = slices.Delete(c.order, 0, n)
}

// Bytes returns how many bytes the rows have that changed and are not forgotten.
func (c *ChangeTracker) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mergePending()
	return c.bytes
}

// Next returns rows whose last change is behind a place, those first that have not changed
// for longest, until they and what they take to bring have about limit bytes. What one
// commit has changed last is not divided. It reports whether there are more, and false if it
// does not remember as much.
func (c *ChangeTracker) Next(after wal.Position, limit int64) (next []Change, more, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mergePending()
	if c.overflowed.Load() || after < c.since {
		return nil, false, false
	}
	size := int64(0)
	for _, p := range c.order {
		if p.at <= after || !p.isLast() {
			continue
		}
		if n := len(next); size > limit && p.at != next[n-1].At {
			return next, true, true
		}
		size += changeOverhead + p.row.bytes
		next = append(next, Change{[]byte(p.row.key), p.at})
	}
	return next, false, true
}
