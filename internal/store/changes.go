package store

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/wal"
)

// Changes remembers which of some rows have changed, and where in the log each did last, so
// that whoever copies them need not read all that became of them meanwhile. It is a memory
// and no record: it ends with the store, and where it has forgotten something [Store.Feed]
// tells.
//
// Commits only say what they change. Whoever asks puts that in order: it would cost each
// commit more than to make its rows visible.
type Changes struct {
	u        *unapplied
	concerns func(key []byte) bool
	most     int64
	lost     atomic.Bool

	hearing sync.Mutex
	heard   notes

	// mu comes before hearing.
	mu    sync.Mutex
	since wal.Position
	rows  map[string]*changed
	// order has the rows as they changed, and some more than once: only the last place of
	// a row counts.
	order []place
	// bytes is how many all rows have, and memory about what it takes to remember them.
	bytes, memory int64
	spare         notes
}

// changed is a row that has changed.
type changed struct {
	key   string
	at    wal.Position
	bytes int64 // of the row
}

// place is where a row has changed, if it has not again.
type place struct {
	row *changed
	at  wal.Position
}

func (p place) last() bool { return p.row.at == p.at }

// notes are what commits have changed, as they came.
type notes struct {
	all  []note
	keys []byte
}

// note is one of them. Its key is behind that of the one before.
type note struct {
	at    wal.Position
	key   int // its length
	bytes int64
}

// Change is that a row has changed, and where in the log it did last.
type Change struct {
	Key []byte
	At  wal.Position
}

const (
	// changeBytes is about how much memory it takes to remember a change, besides its key.
	changeBytes = 160
	// heardMost is how many notes wait to be put in order, and heardBytes how many bytes
	// their keys have: then a commit does it.
	heardMost  = 1 << 16
	heardBytes = 4 << 20
)

// Follow begins to remember what changes among the rows that concern the caller. Of more
// than what takes most bytes of memory it remembers nothing. Concerns is called while
// commits become visible: it must be quick.
func (s *Store) Follow(concerns func(key []byte) bool, most int64) *Changes {
	c := &Changes{u: &s.chunks, concerns: concerns, most: most, rows: map[string]*changed{}}
	c.u.publishing.Lock()
	defer c.u.publishing.Unlock()
	if c.since = s.Position(); plant.Bug("store-follow-knows-before") {
		c.since = 0
	}
	c.u.followers = append(c.u.followers, c)
	return c
}

// Close ends it.
func (c *Changes) Close() {
	c.u.publishing.Lock()
	defer c.u.publishing.Unlock()
	c.u.followers = slices.DeleteFunc(c.u.followers, func(f *Changes) bool { return f == c })
}

// hear takes down what a commit changes. It is called before that is visible.
func (c *Changes) hear(ops []effect.Op, at wal.Position) {
	if c.lost.Load() {
		return
	}
	c.hearing.Lock()
	h := &c.heard
	for i := range ops {
		if op := &ops[i]; c.concerns(op.Key) {
			h.all = append(h.all, note{at, len(op.Key), int64(len(op.Key) + len(op.Value))})
			h.keys = append(h.keys, op.Key...)
		}
	}
	full := len(h.all) >= heardMost || len(h.keys) >= heardBytes
	c.hearing.Unlock()
	if full {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.settle()
	}
}

// settle puts in order what was heard. c.mu is held.
func (c *Changes) settle() {
	c.hearing.Lock()
	h := c.heard
	c.heard = c.spare
	c.hearing.Unlock()
	keys := h.keys
	for _, n := range h.all {
		c.see(keys[:n.key], n.at, n.bytes)
		keys = keys[n.key:]
	}
	c.spare = notes{h.all[:0], h.keys[:0]}
}

// see puts a row at the end.
func (c *Changes) see(key []byte, at wal.Position, size int64) {
	if c.lost.Load() {
		return
	}
	r := c.rows[string(key)]
	if r == nil {
		if c.memory += changeBytes + int64(len(key)); c.memory > c.most {
			c.lose()
			return
		}
		r = &changed{key: string(key)}
		c.rows[r.key] = r
	} else if plant.Bug("store-change-stays-where-it-was") {
		return
	}
	c.bytes += size - r.bytes
	if r.bytes = size; r.at == at {
		return // once more in the same commit
	}
	r.at = at
	if c.order = append(c.order, place{r, at}); len(c.order) > 2*len(c.rows)+heardMost {
		c.order = slices.DeleteFunc(c.order, func(p place) bool { return !p.last() })
	}
}

// lose gives up: there is too much to remember.
func (c *Changes) lose() {
	c.lost.Store(true)
	c.rows, c.order, c.bytes, c.memory = nil, nil, 0, 0
}

// Since returns the place in the log behind which all changes are remembered, and false if
// there were too many.
func (c *Changes) Since() (wal.Position, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	return c.since, !c.lost.Load()
}

// Forget forgets rows that have not changed behind a place.
func (c *Changes) Forget(upto wal.Position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	c.since = max(c.since, upto)
	n := 0
	for ; n < len(c.order) && c.order[n].at <= upto; n++ {
		if p := c.order[n]; p.last() {
			delete(c.rows, p.row.key)
			c.bytes -= p.row.bytes
			c.memory -= changeBytes + int64(len(p.row.key))
		}
	}
	c.order = slices.Delete(c.order, 0, n)
}

// Bytes returns how many bytes the rows have that changed and are not forgotten.
func (c *Changes) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	return c.bytes
}

// Next returns rows whose last change is behind a place, those first that have not changed
// for longest, until they and what they take to bring have about limit bytes. What one
// commit has changed last is not divided. It tells whether there are more, and false if it
// does not remember as much.
func (c *Changes) Next(after wal.Position, limit int64) (next []Change, more, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	if c.lost.Load() || after < c.since {
		return nil, false, false
	}
	size := int64(0)
	for _, p := range c.order {
		if p.at <= after || !p.last() {
			continue
		}
		if n := len(next); size > limit && p.at != next[n-1].At {
			return next, true, true
		}
		size += changeBytes + p.row.bytes
		next = append(next, Change{[]byte(p.row.key), p.at})
	}
	return next, false, true
}
