package sim

import (
	"bytes"
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/cleavekv/cleave/internal/reshard/feed"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/partition"
)

// The feed has a reader, which uses package feed as package cleave does. What it gets is
// held against what the world has seen commits do: all of it, whole, once, and what was
// done to one key in its order. Others make something of it: see hub and cached.

// rowChange is what was done to a row.
type rowChange struct {
	key     string // its position
	deleted bool
	value   []byte
}

func newRowChange(op effect.Op) rowChange {
	return rowChange{string(op.Key[1:]), op.Delete, bytes.Clone(op.Value)}
}

func (c rowChange) equal(x rowChange) bool {
	return c.key == x.key && c.deleted == x.deleted && bytes.Equal(c.value, x.value)
}

// isUserRow reports whether an operation is on a row of the keyspace of clients.
func (w *world) isUserRow(op effect.Op) bool {
	if op.Key[0] != byte(effect.Rows) {
		return false
	}
	id, err := partition.IDOf(op.Key[1:])
	w.must(err, "a position")
	return id == dataKeyspace.ID
}

// observedCommit is a commit as the world has seen it.
type observedCommit struct {
	serial      uint64       // among those of all stores
	endPosition wal.Position // the place behind it
	rows        []rowChange
}

// recordCommit notes what a commit has changed. Rows that a group does not serve are none
// of that: a job brings or removes them.
func (d *disk) recordCommit(parts []group.JointEntry) {
	w := d.w
	var rows []rowChange
	for _, part := range parts {
		b, err := effect.Parse(part.Effects)
		w.must(err, "effects of a commit")
		var list *ownership.Table
		if p, ok := d.hosts[part.Log.(*diskLog).Group]; ok {
			list = p.Group.OwnershipTable()
		}
		for _, op := range b.All() {
			if list == nil || !w.isUserRow(op) {
				continue
			}
			if r, ok := list.Find(op.Key[1:]); ok && r.IsReadable() {
				rows = append(rows, newRowChange(op))
			}
		}
	}
	if len(rows) == 0 {
		return
	}
	w.commitCount++
	d.commits = append(d.commits, observedCommit{w.commitCount, d.store.Position(), rows})
	for _, row := range rows {
		w.lastCommits[row.key] = w.commitCount
	}
}

// findCommitAfter returns the first commit behind a place.
func (d *disk) findCommitAfter(at wal.Position) int {
	n, _ := slices.BinarySearchFunc(d.commits, at, func(c observedCommit, at wal.Position) int { return cmp.Compare(c.endPosition, at+1) })
	return n
}

// findStoreNumber returns the number of a store.
func (w *world) findStoreNumber(s *store.Store) int {
	return slices.IndexFunc(w.disks, func(d *disk) bool { return d.store == s })
}

// feedCursor are a place in the feed, as a cursor is: one in the log of each store.
type feedCursor []wal.Position

// Covers implements [waiting.Place].
func (p feedCursor) Covers(x feedCursor) bool {
	for i := range x {
		if p[i] < x[i] {
			return false
		}
	}
	return true
}

// Join implements [waiting.Place].
func (p feedCursor) Join(x feedCursor) feedCursor {
	joined := slices.Clone(p)
	for i := range x {
		joined[i] = max(p[i], x[i])
	}
	return joined
}

// endCursor is the place behind all that is committed, unless a store is down.
func (w *world) endCursor() (here feedCursor, ok bool) {
	for _, d := range w.disks {
		if d.store == nil || d.hasFailed {
			return nil, false
		}
		here = append(here, d.store.Position())
	}
	return here, true
}

// feedTail reads the feed from a place on, and perhaps up to another.
type feedTail struct {
	w             *world
	cursor, until feedCursor
}

// readStore reads commits of a store, and reports whether there were any. It goes on behind
// what was received until hear wants no more for now.
func (t *feedTail) readStore(from, limit int, hear func(*observedCommit) bool) bool {
	d := t.w.disks[from]
	if d.store == nil || d.hasFailed {
		return false
	}
	r := feed.Reader{Positions: t.cursor, Until: t.until, MaxCommits: limit, MaxBytes: 1 << 20}
	if r.IsStoreDone(from) {
		return false
	}
	batch, err := feed.ReadBatch(&r, from, d.store, func() error { return nil }, func(rows *[]rowChange, op effect.Op) error {
		if t.w.isUserRow(op) {
			*rows = append(*rows, newRowChange(op))
		}
		return nil
	})
	t.w.must(err, "read the feed")
	before := t.cursor[from]
	feed.Deliver(&r, from, batch, func(rows *[]rowChange) bool {
		c := t.w.compareWithCommits(d, before, t.cursor[from], *rows)
		before = t.cursor[from]
		return c == nil || hear(c)
	})
	return len(batch) > 0
}

// readToEnd reads all that there is.
func (t *feedTail) readToEnd(hear func(*observedCommit) bool) {
	for more := true; more; {
		more = false
		for i := range t.cursor {
			more = t.readStore(i, 1000, hear) || more
		}
	}
}

// compareWithCommits holds what the feed tells between two places against what was seen: one commit,
// or nil for none.
func (w *world) compareWithCommits(d *disk, before, after wal.Position, rows []rowChange) *observedCommit {
	n := d.findCommitAfter(before)
	switch {
	case n == len(d.commits) || d.commits[n].endPosition > after:
		if len(rows) > 0 {
			w.failf("the feed of store %d tells %+v, which was not done behind %v", d.number, rows, before)
		}
		return nil
	case d.commits[n].endPosition != after || !slices.EqualFunc(rows, d.commits[n].rows, rowChange.equal):
		w.failf("behind %v of store %d the feed tells %+v, and what was done is %+v", before, d.number, rows, d.commits[n])
	}
	return &d.commits[n]
}

// feedState is what a reader knows.
type feedState struct {
	cursor      feedCursor        // its cursor
	lastCommits map[string]uint64 // the last commit to each key
}

func (s *feedState) clone() feedState {
	return feedState{slices.Clone(s.cursor), maps.Clone(s.lastCommits)}
}

// feedReader reads the feed of all stores. Now and then it writes down what it knows,
// with its cursor, and now and then it dies, and goes on from there.
type feedReader struct {
	w *world
	// rng is its own, so that the luck of others does not depend on it.
	rng               *rand.Rand
	state, savedState feedState
}

func newFeedReader(w *world) *feedReader {
	s := feedState{make(feedCursor, len(w.disks)), map[string]uint64{}}
	return &feedReader{w: w, rng: rand.New(rand.NewPCG(w.cfg.Seed, 0xfeed)), state: s, savedState: s.clone()}
}

// scheduleEveryWith lets something happen again and again, with a generator of its own.
func (w *world) scheduleEveryWith(rng *rand.Rand, period int64, do func()) {
	delay := rng.Int64N(period)
	if w.isQuiescing {
		delay *= 10 // there is no hurry
	}
	w.scheduleAfter(delay, func() {
		do()
		w.scheduleEveryWith(rng, period, do)
	})
}

// crash takes away what it has not written down.
func (r *feedReader) crash() {
	r.state = r.savedState.clone()
	r.w.addCount("readers of the feed that died")
}

// readSome reads some of what is there, of some stores.
func (r *feedReader) readSome() {
	for i := range r.w.disks {
		if r.rng.IntN(3) == 0 {
			continue // others get ahead of it
		}
		t := feedTail{w: r.w, cursor: r.state.cursor}
		t.readStore(i, 1+r.rng.IntN(8), func(c *observedCommit) bool {
			r.checkCommit(c)
			if r.rng.IntN(8) == 0 {
				r.savedState = r.state.clone()
			}
			return r.rng.IntN(30) > 0 // or it stops there
		})
		if r.rng.IntN(40) == 0 {
			r.crash()
		}
	}
}

// checkCommit checks that what is done to a key comes in its order.
func (r *feedReader) checkCommit(c *observedCommit) {
	for _, row := range c.rows {
		if last := r.state.lastCommits[row.key]; last >= c.serial {
			r.w.failf("the feed tells of commit %d to %q after that of %d", c.serial, row.key, last)
		}
	}
	for _, row := range c.rows {
		r.state.lastCommits[row.key] = c.serial
	}
	r.w.addCount("commits told by the feed")
}

// checkComplete checks that all has come, when there is no more to come.
func (r *feedReader) checkComplete() {
	t := feedTail{w: r.w, cursor: r.state.cursor}
	t.readToEnd(func(c *observedCommit) bool {
		r.checkCommit(c)
		return true
	})
	for i, d := range r.w.disks {
		if n := d.findCommitAfter(t.cursor[i]); n != len(d.commits) {
			r.w.failf("the feed has told of %d commits of store %d, of %d", n, i, len(d.commits))
		}
	}
}
