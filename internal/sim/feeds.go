package sim

import (
	"bytes"
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/feed"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/wal"
	"github.com/cleavekv/cleave/partition"
)

// Somebody reads the feed, by package feed as package cleave does. What it is told is
// held against what the world has seen commits do: all of it, whole, once, and what was
// done to one key in its order. Others make something of it: see hub and cached.

// changed is what was done to a row.
type changed struct {
	key     string // its position
	deleted bool
	value   []byte
}

func changedBy(op effect.Op) changed {
	return changed{string(op.Key[1:]), op.Delete, bytes.Clone(op.Value)}
}

func (c changed) equal(x changed) bool {
	return c.key == x.key && c.deleted == x.deleted && bytes.Equal(c.value, x.value)
}

// ofUser tells whether an operation is on a row of the keyspace of clients.
func (w *world) ofUser(op effect.Op) bool {
	if op.Key[0] != byte(effect.Rows) {
		return false
	}
	id, err := partition.IDOf(op.Key[1:])
	w.must(err, "a position")
	return id == space.ID
}

// witnessed is a commit as the world has seen it.
type witnessed struct {
	serial uint64       // among those of all stores
	end    wal.Position // the place behind it
	rows   []changed
}

// witness notes what a commit has changed. Rows that a group does not serve are none
// of that: a job brings or removes them.
func (d *disk) witness(parts []group.JointPart) {
	w := d.w
	var rows []changed
	for _, part := range parts {
		b, err := effect.Parse(part.Effects)
		w.must(err, "effects of a commit")
		var list *own.List
		if p, ok := d.places[part.Log.(*diskLog).Group]; ok {
			list = p.Group.List()
		}
		for _, op := range b.All() {
			if list == nil || !w.ofUser(op) {
				continue
			}
			if r, ok := list.Find(op.Key[1:]); ok && r.Reads() {
				rows = append(rows, changedBy(op))
			}
		}
	}
	if len(rows) == 0 {
		return
	}
	w.witnessed++
	d.commits = append(d.commits, witnessed{w.witnessed, d.store.Position(), rows})
	for _, row := range rows {
		w.latest[row.key] = w.witnessed
	}
}

// behind returns the first commit behind a place.
func (d *disk) behind(at wal.Position) int {
	n, _ := slices.BinarySearchFunc(d.commits, at, func(c witnessed, at wal.Position) int { return cmp.Compare(c.end, at+1) })
	return n
}

// numberOf tells which store is which.
func (w *world) numberOf(s *store.Store) int {
	return slices.IndexFunc(w.disks, func(d *disk) bool { return d.store == s })
}

// places are a place in the feed, as a cursor is: one in the log of each store.
type places []wal.Position

// Covers implements [waiting.Place].
func (p places) Covers(x places) bool {
	for i := range x {
		if p[i] < x[i] {
			return false
		}
	}
	return true
}

// Join implements [waiting.Place].
func (p places) Join(x places) places {
	joined := slices.Clone(p)
	for i := range x {
		joined[i] = max(p[i], x[i])
	}
	return joined
}

// here is the place behind all that is committed, unless a store is down.
func (w *world) here() (here places, ok bool) {
	for _, d := range w.disks {
		if d.store == nil || d.dead {
			return nil, false
		}
		here = append(here, d.store.Position())
	}
	return here, true
}

// tail reads the feed from a place on, and perhaps up to another.
type tail struct {
	w      *world
	at, to places
}

// read reads commits of a store, and tells whether there were any. It goes on behind
// what was heard until somebody wants no more for now.
func (t *tail) read(from, limit int, hear func(*witnessed) bool) bool {
	d := t.w.disks[from]
	if d.store == nil || d.dead {
		return false
	}
	r := feed.Reader{At: t.at, To: t.to, MaxCommits: limit, MaxBytes: 1 << 20}
	if r.Ended(from) {
		return false
	}
	batch, err := feed.Read(&r, from, d.store, func() error { return nil }, func(rows *[]changed, op effect.Op) error {
		if t.w.ofUser(op) {
			*rows = append(*rows, changedBy(op))
		}
		return nil
	})
	t.w.must(err, "read the feed")
	before := t.at[from]
	feed.Tell(&r, from, batch, func(rows *[]changed) bool {
		c := t.w.compare(d, before, t.at[from], *rows)
		before = t.at[from]
		return c == nil || hear(c)
	})
	return len(batch) > 0
}

// readAll reads all that there is.
func (t *tail) readAll(hear func(*witnessed) bool) {
	for more := true; more; {
		more = false
		for i := range t.at {
			more = t.read(i, 1000, hear) || more
		}
	}
}

// compare holds what the feed tells between two places against what was seen: one commit,
// or nil for none.
func (w *world) compare(d *disk, before, after wal.Position, rows []changed) *witnessed {
	n := d.behind(before)
	switch {
	case n == len(d.commits) || d.commits[n].end > after:
		if len(rows) > 0 {
			w.failf("the feed of store %d tells %+v, which was not done behind %v", d.number, rows, before)
		}
		return nil
	case d.commits[n].end != after || !slices.EqualFunc(rows, d.commits[n].rows, changed.equal):
		w.failf("behind %v of store %d the feed tells %+v, and what was done is %+v", before, d.number, rows, d.commits[n])
	}
	return &d.commits[n]
}

// feedState is what a reader knows.
type feedState struct {
	at   places            // its cursor
	last map[string]uint64 // the last commit to each key
}

func (s *feedState) clone() feedState { return feedState{slices.Clone(s.at), maps.Clone(s.last)} }

// feedReader reads the feed of all stores. Now and then it writes down what it knows,
// with its cursor, and now and then it dies, and goes on from there.
type feedReader struct {
	w *world
	// rng is its own, so that the luck of others does not depend on it.
	rng       *rand.Rand
	now, kept feedState
}

func newFeedReader(w *world) *feedReader {
	s := feedState{make(places, len(w.disks)), map[string]uint64{}}
	return &feedReader{w: w, rng: rand.New(rand.NewPCG(w.cfg.Seed, 0xfeed)), now: s, kept: s.clone()}
}

// anon lets something happen again and again, with a generator of its own.
func (w *world) anon(rng *rand.Rand, period int64, do func()) {
	delay := rng.Int64N(period)
	if w.healing {
		delay *= 10 // nobody is in a hurry
	}
	w.after(delay, func() {
		do()
		w.anon(rng, period, do)
	})
}

// die takes away what it has not written down.
func (r *feedReader) die() {
	r.now = r.kept.clone()
	r.w.count("readers of the feed that died")
}

// look reads some of what is there, of some stores.
func (r *feedReader) look() {
	for i := range r.w.disks {
		if r.rng.IntN(3) == 0 {
			continue // others get ahead of it
		}
		t := tail{w: r.w, at: r.now.at}
		t.read(i, 1+r.rng.IntN(8), func(c *witnessed) bool {
			r.hear(c)
			if r.rng.IntN(8) == 0 {
				r.kept = r.now.clone()
			}
			return r.rng.IntN(30) > 0 // or it stops there
		})
		if r.rng.IntN(40) == 0 {
			r.die()
		}
	}
}

// hear checks that what is done to a key is told in its order.
func (r *feedReader) hear(c *witnessed) {
	for _, row := range c.rows {
		if last := r.now.last[row.key]; last >= c.serial {
			r.w.failf("the feed tells of commit %d to %q after that of %d", c.serial, row.key, last)
		}
	}
	for _, row := range c.rows {
		r.now.last[row.key] = c.serial
	}
	r.w.count("commits told by the feed")
}

// judge checks that all was told, when there is no more to come.
func (r *feedReader) judge() {
	t := tail{w: r.w, at: r.now.at}
	t.readAll(func(c *witnessed) bool {
		r.hear(c)
		return true
	})
	for i, d := range r.w.disks {
		if n := d.behind(t.at[i]); n != len(d.commits) {
			r.w.failf("the feed has told of %d commits of store %d, of %d", n, i, len(d.commits))
		}
	}
}
