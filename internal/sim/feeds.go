package sim

import (
	"bytes"
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
// done to one key in its order.

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
	serial uint64 // among those of all stores
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
	if len(rows) > 0 {
		w.serial++
		d.commits = append(d.commits, witnessed{w.serial, rows})
	}
}

// numberOf tells which store is which.
func (w *world) numberOf(s *store.Store) int {
	return slices.IndexFunc(w.disks, func(d *disk) bool { return d.store == s })
}

// feedState is what a reader knows.
type feedState struct {
	at   []wal.Position    // its cursor
	told []int             // how many commits of each store
	last map[string]uint64 // the last commit to each key
}

func (s *feedState) clone() feedState {
	return feedState{slices.Clone(s.at), slices.Clone(s.told), maps.Clone(s.last)}
}

// feedReader reads the feed of all stores. Now and then it writes down what it knows,
// with its cursor, and now and then it dies, and goes on from there.
type feedReader struct {
	w *world
	// rng is its own, so that a world is the same with it and without.
	rng  *rand.Rand
	now  feedState
	kept feedState
}

func newFeedReader(w *world) *feedReader {
	s := feedState{make([]wal.Position, len(w.disks)), make([]int, len(w.disks)), map[string]uint64{}}
	return &feedReader{w: w, rng: rand.New(rand.NewPCG(w.cfg.Seed, 0xfeed)), now: s, kept: s.clone()}
}

// begin lets it read again and again.
func (r *feedReader) begin() {
	period := 16 * millisecond
	if r.w.healing {
		period *= 10 // nobody is in a hurry
	}
	r.w.after(r.rng.Int64N(period), func() {
		r.look()
		r.begin()
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
		if r.read(i, 1+r.rng.IntN(8)); r.rng.IntN(40) == 0 {
			r.die()
		}
	}
}

// read reads commits of a store, and tells whether there were any.
func (r *feedReader) read(from, limit int) bool {
	d := r.w.disks[from]
	if d.store == nil || d.dead {
		return false
	}
	reader := feed.Reader{At: r.now.at, MaxCommits: limit, MaxBytes: 1 << 20}
	batch, err := feed.Read(&reader, from, d.store, func() error { return nil }, func(rows *[]changed, op effect.Op) error {
		if r.w.ofUser(op) {
			*rows = append(*rows, changedBy(op))
		}
		return nil
	})
	r.w.must(err, "read the feed")
	feed.Tell(&reader, from, batch, func(rows *[]changed) bool {
		r.hear(d, *rows)
		if r.rng.IntN(8) == 0 {
			r.kept = r.now.clone()
		}
		return r.rng.IntN(30) > 0 || r.w.healing // or it stops there
	})
	return len(batch) > 0
}

// hear holds a commit against what was seen of it.
func (r *feedReader) hear(d *disk, rows []changed) {
	if len(rows) == 0 {
		return
	}
	w, n := r.w, r.now.told[d.number]
	if n >= len(d.commits) {
		w.failf("the feed tells of %q in store %d, and nothing was done that it has not told", rows[0].key, d.number)
	}
	c := d.commits[n]
	if !slices.EqualFunc(rows, c.rows, changed.equal) {
		w.failf("commit %d of store %d is %+v, and the feed tells %+v", n, d.number, c.rows, rows)
	}
	for _, row := range rows {
		if last := r.now.last[row.key]; last > c.serial {
			w.failf("the feed tells of commit %d to %q after that of %d", c.serial, row.key, last)
		}
		r.now.last[row.key] = c.serial
	}
	r.now.told[d.number]++
	w.count("commits told by the feed")
}

// judge checks that all was told, when there is no more to come.
func (r *feedReader) judge() {
	for more := true; more; {
		more = false
		for i := range r.w.disks {
			more = r.read(i, 1000) || more
		}
	}
	for i, d := range r.w.disks {
		if n := r.now.told[i]; n != len(d.commits) {
			r.w.failf("the feed has told of %d commits of store %d, of %d", n, i, len(d.commits))
		}
	}
}
