package store

import (
	"slices"
	"sync"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/wal"
)

// Changes remembers which of some rows have changed, and where in the log each did last, so
// that whoever copies them need not read all that became of them meanwhile. It is a memory
// and no record: it ends with the store, and where it has forgotten something [Store.Feed]
// tells.
type Changes struct {
	u        *unapplied
	concerns func(key []byte) bool
	most     int64

	mu    sync.Mutex
	since wal.Position
	rows  map[string]*changed
	// first and last are of the rows in the order in which they changed last.
	first, last *changed
	// bytes is how many all rows have, and memory about what it takes to remember them.
	bytes, memory int64
	lost          bool
}

// changed is a row that has changed.
type changed struct {
	key            string
	at             wal.Position
	bytes          int64 // of the row
	before, behind *changed
}

// Change is that a row has changed, and where in the log it did last.
type Change struct {
	Key []byte
	At  wal.Position
}

// changeBytes is about how much memory it takes to remember a change, besides its key.
const changeBytes = 160

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

// note remembers what a frame has changed. It is called before that is visible.
func (c *Changes) note(es []wal.Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range es {
		b, err := effect.Parse(es[i].Payload)
		if err != nil {
			c.lose() // whoever makes it visible says so
			return
		}
		for _, op := range b.All() {
			if c.concerns(op.Key) {
				c.see(op.Key, es[i].Pos, int64(len(op.Key)+len(op.Value)))
			}
		}
	}
}

// see puts a row at the end.
func (c *Changes) see(key []byte, at wal.Position, size int64) {
	if c.lost {
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
	} else {
		if plant.Bug("store-change-stays-where-it-was") {
			return
		}
		c.unlink(r)
	}
	c.bytes += size
	r.at, r.bytes = at, size
	if r.before = c.last; r.before != nil {
		r.before.behind = r
	} else {
		c.first = r
	}
	c.last = r
}

// unlink takes a row out of the order.
func (c *Changes) unlink(r *changed) {
	c.bytes -= r.bytes
	if r.before != nil {
		r.before.behind = r.behind
	} else {
		c.first = r.behind
	}
	if r.behind != nil {
		r.behind.before = r.before
	} else {
		c.last = r.before
	}
	r.before, r.behind = nil, nil
}

// lose gives up: there is too much to remember.
func (c *Changes) lose() {
	c.lost, c.rows, c.first, c.last, c.bytes, c.memory = true, nil, nil, nil, 0, 0
}

// Since returns the place in the log behind which all changes are remembered, and false if
// there were too many.
func (c *Changes) Since() (wal.Position, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since, !c.lost
}

// Forget forgets rows that have not changed behind a place.
func (c *Changes) Forget(upto wal.Position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = max(c.since, upto)
	for r := c.first; r != nil && r.at <= upto; r = c.first {
		delete(c.rows, r.key)
		c.unlink(r)
		c.memory -= changeBytes + int64(len(r.key))
	}
}

// Bytes returns how many bytes the rows have that changed and are not forgotten.
func (c *Changes) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// Next returns rows whose last change is behind a place, those first that have not changed
// for longest, until they and what they take to bring have about limit bytes. What one
// commit has changed last is not divided. It tells whether there are more, and false if it
// does not remember as much. Commits wait for it.
func (c *Changes) Next(after wal.Position, limit int64) (next []Change, more, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost || after < c.since {
		return nil, false, false
	}
	size := int64(0)
	for r := c.first; r != nil; r = r.behind {
		if r.at <= after {
			continue
		}
		if n := len(next); size > limit && r.at != next[n-1].At {
			return next, true, true
		}
		size += changeBytes + r.bytes
		next = append(next, Change{[]byte(r.key), r.at})
	}
	return next, false, true
}
