package sim

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/waiting"
	"github.com/cleavekv/cleave/internal/wal"
	"github.com/cleavekv/cleave/partition"
)

// Followers have a copy of all rows, made as package watch does it: from rows, page by
// page, and then from changes that a hub offers to all of them. What waits for a follower
// and what it has to do when it joins is decided by package waiting. How rows are paged and
// what becomes of an offer follows watch/rows.go and watch/watcher.go, whose events and
// transactions are those of package cleave.

// hub reads the feed for all followers.
type hub struct {
	w   *world
	rng *rand.Rand
	// place is behind all that followers were told of; nil while nobody reads.
	place places
	all   []*follower
}

// follower makes a copy, writes it down with its cursor now and then, and dies now and
// then.
type follower struct {
	h         *hub
	now, kept copied
	queue     waiting.Queue[places, *witnessedRow]
	skip      places // it knows all before it, and the hub may not have come to it
	joined    places // all before it is known when own is done; nil if the hub offers nothing
	lost      bool   // there was no room. Invariant: then the queue is empty
	// own reads up to where the hub takes over, into waits; nil if it has.
	own   *tail
	waits waiting.Queue[places, *witnessedRow]
	// last are commits that keys were told as of since it has read rows.
	last map[string]uint64
}

// witnessedRow is what a commit has done to a row.
type witnessedRow struct {
	changed
	serial uint64
}

// copied is what a follower has made of the feed.
type copied struct {
	cursor places            // nil if there is nothing
	rows   map[string][]byte // by position
	// next is where the next page of rows begins, nil if all were read.
	next partition.Position
}

func (c *copied) clone() copied {
	return copied{slices.Clone(c.cursor), maps.Clone(c.rows), c.next}
}

func (c *copied) apply(row *changed) {
	if row.deleted {
		delete(c.rows, row.key)
		return
	}
	c.rows[row.key] = row.value
}

// followerRoom is how many keys wait for a follower: so few that there is often no room.
const followerRoom = 6

func newHub(w *world) *hub {
	h := &hub{w: w, rng: rand.New(rand.NewPCG(w.cfg.Seed, 0x1ab))}
	for range 2 {
		h.all = append(h.all, &follower{h: h})
	}
	return h
}

// die takes away what is in memory.
func (h *hub) die() {
	h.place = nil
	for _, f := range h.all {
		f.die()
	}
}

// look lets the hub and its followers do something.
func (h *hub) look() {
	if h.place == nil {
		h.place, _ = h.w.here()
		return
	}
	for i := range h.place {
		if h.rng.IntN(4) == 0 { // so that several wait
			h.read(i, 1+h.rng.IntN(30))
		}
	}
	for _, f := range h.all {
		for n := h.rng.IntN(4); n > 0; n-- {
			f.step()
		}
	}
}

// read offers what a store has to all.
func (h *hub) read(from, limit int) bool {
	t := tail{w: h.w, at: slices.Clone(h.place)}
	found := t.read(from, limit, func(c *witnessed) bool {
		for i := range c.rows {
			for _, f := range h.all {
				f.offer(from, c.end, &witnessedRow{c.rows[i], c.serial}, h.place)
			}
		}
		h.place = slices.Clone(t.at) // when all were told
		return true
	})
	h.place = t.at
	return found
}

// offer adds a change to what waits.
func (f *follower) offer(from int, end wal.Position, row *witnessedRow, before places) {
	if f.joined == nil || f.lost {
		return
	}
	if f.skip != nil {
		if end <= f.skip[from] {
			return
		}
		before = before.Join(f.skip)
	}
	f.queue.Of([]byte(row.key), before).Value = row
	if f.queue.Len() > followerRoom {
		f.queue.Clear()
		f.lost = true
		f.h.w.count("followers without room")
	}
}

// die takes away what it has not written down, and the hub forgets it.
func (f *follower) die() {
	f.now, f.last = f.kept.clone(), nil
	f.joined, f.own = nil, nil
	f.queue.Clear()
	f.waits.Clear()
	f.h.w.count("followers that died")
}

// step goes on with the rows, or with what has changed.
func (f *follower) step() {
	rng := f.h.rng
	switch {
	case f.now.cursor == nil || f.now.next != nil:
		f.page()
		return
	case f.joined == nil:
		f.join()
	case f.own != nil:
		f.readOn()
	case f.lost:
		f.join()
	case f.queue.Len() > 0:
		e, after := f.queue.Take(f.behind())
		f.tell(e.Value, after)
	default:
		f.now.cursor = f.behind()
	}
	switch n := rng.IntN(60); {
	case n < 15:
		f.kept = f.now.clone()
	case n < 19:
		f.die()
	case n == 19 && rng.IntN(4) == 0: // the feed does not reach back so far
		f.die()
		f.now, f.kept = copied{}, copied{}
	}
}

// behind is the place behind all that was offered.
func (f *follower) behind() places {
	if f.skip != nil && !f.h.place.Covers(f.skip) {
		return f.skip.Join(f.h.place)
	}
	f.skip = nil
	return slices.Clone(f.h.place)
}

// join lets it go on from its cursor.
func (f *follower) join() {
	if f.joined != nil {
		f.last = nil // it may hear again what it has heard
	}
	f.queue.Clear()
	f.lost, f.skip, f.own = false, nil, nil
	known, skip, own := waiting.Join(f.now.cursor, f.h.place)
	if f.joined = known; skip {
		f.skip = known
	}
	if own {
		f.own = &tail{w: f.h.w, at: slices.Clone(f.now.cursor), to: slices.Clone(f.h.place)}
		f.h.w.count("followers that read by themselves")
	}
}

// readOn reads by itself up to where the hub has taken over.
func (f *follower) readOn() {
	if f.waits.Len() > 0 {
		e, after := f.waits.Take(slices.Clone(f.own.at))
		f.tell(e.Value, after)
		return
	}
	more := false
	for i := range f.own.at {
		before := slices.Clone(f.own.at)
		more = f.own.read(i, 1+f.h.rng.IntN(8), func(c *witnessed) bool {
			for i := range c.rows {
				f.waits.Of([]byte(c.rows[i].key), before).Value = &witnessedRow{c.rows[i], c.serial}
			}
			before = slices.Clone(f.own.at)
			return true
		}) || more
	}
	if more || f.waits.Len() > 0 || !f.own.at.Covers(f.joined) {
		return
	}
	f.own, f.now.cursor = nil, slices.Clone(f.joined)
	if f.lost {
		f.join()
	}
}

// tell makes the copy what a row has become.
func (f *follower) tell(row *witnessedRow, after places) {
	if f.last != nil {
		if last := f.last[row.key]; row.serial <= last {
			f.h.w.failf("a follower hears of commit %d to %q after that of %d", row.serial, row.key, last)
		}
		f.last[row.key] = row.serial
	}
	f.now.apply(&row.changed)
	f.now.cursor = after
	f.h.w.count("changes told to followers")
}

// page reads the next rows, at one moment, and what has changed until then of those of
// the pages before.
func (f *follower) page() {
	w := f.h.w
	here, ok := w.here()
	if !ok {
		return
	}
	s := partition.Span{Start: f.now.next, End: at(pick2(f.h.rng, letters))}
	if f.now.next == nil {
		s.Start = space.Span().Start
		f.now = copied{rows: map[string][]byte{}}
	}
	if bytes.Compare(s.End, s.Start) <= 0 {
		s.End = space.Span().End
	}
	rows, ok := w.rowsOf(s)
	if !ok {
		return
	}
	if f.now.cursor != nil {
		t := tail{w: w, at: f.now.cursor, to: here}
		t.readAll(func(c *witnessed) bool {
			for i := range c.rows {
				if c.rows[i].key < string(s.Start) {
					f.now.apply(&c.rows[i])
				}
			}
			return true
		})
		if !t.at.Covers(here) {
			w.failf("the feed up to %v ends at %v", here, t.at)
		}
	}
	maps.Copy(f.now.rows, rows)
	f.now.cursor, f.now.next = here, s.End
	if bytes.Equal(s.End, space.Span().End) {
		f.now.next = nil
		f.last = maps.Clone(w.latest)
		w.count("followers that have read all rows")
	}
}

// pick2 is pick with another generator.
func pick2[T any](rng *rand.Rand, list []T) T { return list[rng.IntN(len(list))] }

// rowsOf returns the rows of a span as they are committed, unless some of it is served by
// nobody at the moment.
func (w *world) rowsOf(s partition.Span) (rows map[string][]byte, ok bool) {
	rows = map[string][]byte{}
	reached := s.Start
	var served []own.Range
	stores := map[string]*disk{}
	for _, g := range w.groups {
		p, err := w.find(g)
		if err != nil {
			continue
		}
		for r := range p.Group.List().Over(s) {
			if r.Reads() {
				served, stores[string(r.Span.Start)] = append(served, r), w.home(g)
			}
		}
	}
	slices.SortFunc(served, func(a, b own.Range) int { return bytes.Compare(a.Span.Start, b.Span.Start) })
	for _, r := range served {
		if bytes.Compare(r.Span.Start, reached) > 0 {
			return nil, false
		}
		reached = r.Span.End
		piece := r.Span.Intersect(s)
		from, to := effect.Rows.Between(piece.Start, piece.End)
		w.must(stores[string(r.Span.Start)].store.Scan(from, to, false, func(key, value []byte) bool {
			rows[string(key[1:])] = bytes.Clone(value)
			return true
		}), "read rows")
	}
	return rows, len(reached) == 0 || bytes.Compare(reached, s.End) >= 0
}

// judge checks that followers end with what there is.
func (h *hub) judge() {
	if h.place == nil {
		h.place, _ = h.w.here()
	}
	for more := true; more; {
		more = false
		for i := range h.place {
			more = h.read(i, 1000) || more
		}
	}
	want, ok := h.w.rowsOf(space.Span())
	if !ok {
		h.w.failf("at rest some rows are served by nobody")
	}
	for _, f := range h.all {
		for range 10_000 {
			if f.step(); f.now.cursor != nil && f.joined != nil && f.own == nil && !f.lost && f.queue.Len() == 0 && f.now.cursor.Covers(h.place) {
				break
			}
		}
		if !maps.EqualFunc(f.now.rows, want, bytes.Equal) {
			for k := range f.now.rows {
				if !bytes.Equal(f.now.rows[k], want[k]) || want[k] == nil {
					h.w.failf("a follower ends with %q as %q, and it is %q", k, f.now.rows[k], want[k])
				}
			}
			h.w.failf("a follower ends with %d rows, and there are %d", len(f.now.rows), len(want))
		}
	}
}
