package sim

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/cleavekv/cleave/internal/patterns/watchbuffer"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/storage/wal"
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
	// cursor is behind all that followers were sent; nil while there is no reader.
	cursor    feedCursor
	followers []*follower
}

// follower makes a copy, writes it down with its cursor now and then, and dies now and
// then.
type follower struct {
	hub               *hub
	state, savedState followerState
	pending           watchbuffer.Buffer[feedCursor, *observedRow]
	knownUntil        feedCursor // it knows all before it, and the hub may not have come to it
	joinedAt          feedCursor // all before it is known when own is done; nil if the hub offers nothing
	hasOverflowed     bool       // there was no room. Invariant: then the queue is empty
	// catchUp reads up to where the hub takes over, into waits; nil if it has.
	catchUp        *feedTail
	catchUpPending watchbuffer.Buffer[feedCursor, *observedRow]
	// lastCommits are commits that keys were reported as of since it has read rows.
	lastCommits map[string]uint64
}

// observedRow is what a commit has done to a row.
type observedRow struct {
	rowChange
	serial uint64
}

// followerState is what a follower has made of the feed.
type followerState struct {
	cursor feedCursor        // nil if there is nothing
	rows   map[string][]byte // by position
	// next is where the next page of rows begins, nil if all were read.
	next partition.Position
}

func (c *followerState) clone() followerState {
	return followerState{slices.Clone(c.cursor), maps.Clone(c.rows), c.next}
}

func (c *followerState) apply(row *rowChange) {
	if row.deleted {
		delete(c.rows, row.key)
		return
	}
	c.rows[row.key] = row.value
}

// maxPendingKeys is how many keys wait for a follower: so few that there is often no room.
const maxPendingKeys = 6

func newHub(w *world) *hub {
	h := &hub{w: w, rng: rand.New(rand.NewPCG(w.cfg.Seed, 0x1ab))}
	for range 2 {
		h.followers = append(h.followers, &follower{hub: h})
	}
	return h
}

// crash takes away what is in memory.
func (h *hub) crash() {
	h.cursor = nil
	for _, f := range h.followers {
		f.crash()
	}
}

// runFollowers lets the hub and its followers do something.
func (h *hub) runFollowers() {
	if h.cursor == nil {
		h.cursor, _ = h.w.endCursor()
		return
	}
	for i := range h.cursor {
		if h.rng.IntN(4) == 0 { // so that several wait
			h.readStore(i, 1+h.rng.IntN(30))
		}
	}
	for _, f := range h.followers {
		for n := h.rng.IntN(4); n > 0; n-- {
			f.step()
		}
	}
}

// readStore offers what a store has to all.
func (h *hub) readStore(from, limit int) bool {
	t := feedTail{w: h.w, cursor: slices.Clone(h.cursor)}
	found := t.readStore(from, limit, func(c *observedCommit) bool {
		for i := range c.rows {
			for _, f := range h.followers {
				f.enqueueChange(from, c.endPosition, &observedRow{c.rows[i], c.serial}, h.cursor)
			}
		}
		h.cursor = slices.Clone(t.cursor) // when all were notified
		return true
	})
	h.cursor = t.cursor
	return found
}

// enqueueChange adds a change to what waits.
func (f *follower) enqueueChange(from int, end wal.Position, row *observedRow, before feedCursor) {
	if f.joinedAt == nil || f.hasOverflowed {
		return
	}
	if f.knownUntil != nil {
		if end <= f.knownUntil[from] {
			return
		}
		before = before.Join(f.knownUntil)
	}
	f.pending.GetOrAdd([]byte(row.key), before).Value = row
	if f.pending.Len() > maxPendingKeys {
		f.pending.Clear()
		f.hasOverflowed = true
		f.hub.w.addCount("followers without room")
	}
}

// crash takes away what it has not written down, and the hub forgets it.
func (f *follower) crash() {
	f.state, f.lastCommits = f.savedState.clone(), nil
	f.joinedAt, f.catchUp = nil, nil
	f.pending.Clear()
	f.catchUpPending.Clear()
	f.hub.w.addCount("followers that died")
}

// step goes on with the rows, or with what has changed.
func (f *follower) step() {
	rng := f.hub.rng
	switch {
	case f.state.cursor == nil || f.state.next != nil:
		f.readPage()
		return
	case f.joinedAt == nil:
		f.joinHub()
	case f.catchUp != nil:
		f.readCatchUp()
	case f.hasOverflowed:
		f.joinHub()
	case f.pending.Len() > 0:
		e, after := f.pending.Pop(f.offeredCursor())
		f.applyChange(e.Value, after)
	default:
		f.state.cursor = f.offeredCursor()
	}
	switch n := rng.IntN(60); {
	case n < 15:
		f.savedState = f.state.clone()
	case n < 19:
		f.crash()
	case n == 19 && rng.IntN(4) == 0: // the feed does not reach back so far
		f.crash()
		f.state, f.savedState = followerState{}, followerState{}
	}
}

// offeredCursor is the place behind all that was offered.
func (f *follower) offeredCursor() feedCursor {
	if f.knownUntil != nil && !f.hub.cursor.Covers(f.knownUntil) {
		return f.knownUntil.Join(f.hub.cursor)
	}
	f.knownUntil = nil
	return slices.Clone(f.hub.cursor)
}

// joinHub lets it go on from its cursor.
func (f *follower) joinHub() {
	if f.joinedAt != nil {
		f.lastCommits = nil // it may receive again what it has received
	}
	f.pending.Clear()
	f.hasOverflowed, f.knownUntil, f.catchUp = false, nil, nil
	known, skip, own := watchbuffer.PlanJoin(f.state.cursor, f.hub.cursor)
	if f.joinedAt = known; skip {
		f.knownUntil = known
	}
	if own {
		f.catchUp = &feedTail{w: f.hub.w, cursor: slices.Clone(f.state.cursor), until: slices.Clone(f.hub.cursor)}
		f.hub.w.addCount("followers that read by themselves")
	}
}

// readCatchUp reads by itself up to where the hub has taken over.
func (f *follower) readCatchUp() {
	if f.catchUpPending.Len() > 0 {
		e, after := f.catchUpPending.Pop(slices.Clone(f.catchUp.cursor))
		f.applyChange(e.Value, after)
		return
	}
	more := false
	for i := range f.catchUp.cursor {
		before := slices.Clone(f.catchUp.cursor)
		more = f.catchUp.readStore(i, 1+f.hub.rng.IntN(8), func(c *observedCommit) bool {
			for i := range c.rows {
				f.catchUpPending.GetOrAdd([]byte(c.rows[i].key), before).Value = &observedRow{c.rows[i], c.serial}
			}
			before = slices.Clone(f.catchUp.cursor)
			return true
		}) || more
	}
	if more || f.catchUpPending.Len() > 0 || !f.catchUp.cursor.Covers(f.joinedAt) {
		return
	}
	f.catchUp, f.state.cursor = nil, slices.Clone(f.joinedAt)
	if f.hasOverflowed {
		f.joinHub()
	}
}

// applyChange makes the copy what a row has become.
func (f *follower) applyChange(row *observedRow, after feedCursor) {
	if f.lastCommits != nil {
		if last := f.lastCommits[row.key]; row.serial <= last {
			f.hub.w.failf("a follower hears of commit %d to %q after that of %d", row.serial, row.key, last)
		}
		f.lastCommits[row.key] = row.serial
	}
	f.state.apply(&row.rowChange)
	f.state.cursor = after
	f.hub.w.addCount("changes told to followers")
}

// readPage reads the next rows, at one moment, and what has changed until then of those of
// the pages before.
func (f *follower) readPage() {
	w := f.hub.w
	here, ok := w.endCursor()
	if !ok {
		return
	}
	s := partition.Span{Start: f.state.next, End: positionOf(pickWith(f.hub.rng, letters))}
	if f.state.next == nil {
		s.Start = dataKeyspace.Span().Start
		f.state = followerState{rows: map[string][]byte{}}
	}
	if bytes.Compare(s.End, s.Start) <= 0 {
		s.End = dataKeyspace.Span().End
	}
	rows, ok := w.readCommittedRows(s)
	if !ok {
		return
	}
	if f.state.cursor != nil {
		t := feedTail{w: w, cursor: f.state.cursor, until: here}
		t.readToEnd(func(c *observedCommit) bool {
			for i := range c.rows {
				if c.rows[i].key < string(s.Start) {
					f.state.apply(&c.rows[i])
				}
			}
			return true
		})
		if !t.cursor.Covers(here) {
			w.failf("the feed up to %v ends at %v", here, t.cursor)
		}
	}
	maps.Copy(f.state.rows, rows)
	f.state.cursor, f.state.next = here, s.End
	if bytes.Equal(s.End, dataKeyspace.Span().End) {
		f.state.next = nil
		f.lastCommits = maps.Clone(w.lastCommits)
		w.addCount("followers that have read all rows")
	}
}

// pickWith is pick with another generator.
func pickWith[T any](rng *rand.Rand, list []T) T { return list[rng.IntN(len(list))] }

// readCommittedRows returns the rows of a span as they are committed, unless some of it is served by
// no group at the moment.
func (w *world) readCommittedRows(s partition.Span) (rows map[string][]byte, ok bool) {
	rows = map[string][]byte{}
	reached := s.Start
	var served []ownership.Range
	stores := map[string]*disk{}
	for _, g := range w.groups {
		p, err := w.findHost(g)
		if err != nil {
			continue
		}
		for r := range p.Group.OwnershipTable().ScanOverlapping(s) {
			if r.IsReadable() {
				served, stores[string(r.Span.Start)] = append(served, r), w.homeDisk(g)
			}
		}
	}
	slices.SortFunc(served, func(a, b ownership.Range) int { return bytes.Compare(a.Span.Start, b.Span.Start) })
	for _, r := range served {
		if bytes.Compare(r.Span.Start, reached) > 0 {
			return nil, false
		}
		reached = r.Span.End
		piece := r.Span.Intersect(s)
		from, to := effect.Rows.SpanBetween(piece.Start, piece.End)
		w.must(stores[string(r.Span.Start)].store.Scan(from, to, false, func(key, value []byte) bool {
			rows[string(key[1:])] = bytes.Clone(value)
			return true
		}), "read rows")
	}
	return rows, len(reached) == 0 || bytes.Compare(reached, s.End) >= 0
}

// checkFollowers checks that followers end with what there is.
func (h *hub) checkFollowers() {
	if h.cursor == nil {
		h.cursor, _ = h.w.endCursor()
	}
	for more := true; more; {
		more = false
		for i := range h.cursor {
			more = h.readStore(i, 1000) || more
		}
	}
	want, ok := h.w.readCommittedRows(dataKeyspace.Span())
	if !ok {
		h.w.failf("at rest some rows are served by nobody")
	}
	for _, f := range h.followers {
		for range 10_000 {
			if f.step(); f.state.cursor != nil && f.joinedAt != nil && f.catchUp == nil && !f.hasOverflowed && f.pending.Len() == 0 && f.state.cursor.Covers(h.cursor) {
				break
			}
		}
		if !maps.EqualFunc(f.state.rows, want, bytes.Equal) {
			for k := range f.state.rows {
				if !bytes.Equal(f.state.rows[k], want[k]) || want[k] == nil {
					h.w.failf("a follower ends with %q as %q, and it is %q", k, f.state.rows[k], want[k])
				}
			}
			h.w.failf("a follower ends with %d rows, and there are %d", len(f.state.rows), len(want))
		}
	}
}
