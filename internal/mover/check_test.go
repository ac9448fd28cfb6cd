package mover

import (
	"slices"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

// check checks what must hold after every event.
func (w *world) check() {
	lists := make([]*own.List, len(w.groups))
	for i, g := range w.groups {
		lists[i] = w.peers[g].site.List
	}
	if !w.gap && slices.Equal(lists, w.checked) {
		return
	}
	w.checked, w.gap = lists, false
	for _, key := range allKeys {
		p := at(key)
		var owner *peer
		for _, g := range w.groups {
			if w.peers[g].site.Check(p, false) != nil {
				continue
			}
			if owner != nil {
				w.fatalf("%v and %v both serve %s", owner.id, g, key)
			}
			owner = w.peers[g]
		}
		if owner == nil {
			w.between(key, !w.gap)
			w.gap = true
		}
	}
}

// between checks that somebody hands over a key that nobody serves, and that
// whoever had it has not thrown it away. To look at one key is enough for that.
func (w *world) between(key string, first bool) {
	for _, j := range w.live() {
		if !j.Span.Contains(at(key)) || j.Kind != Move || !j.Decided() {
			continue
		}
		if first && !w.holds(w.peers[j.From], j.Span) {
			w.fatalf("%v has dropped %v before %v serves it", j.From, j.Span, j.To)
		}
		return
	}
	w.fatalf("nobody serves %s", key)
}

// holds tells whether a group's store has exactly the true rows of a span. It
// does not use the code that is tested.
func (w *world) holds(p *peer, s partition.Span) bool {
	rows := func(t *table) (found []string) {
		for _, key := range t.keys {
			if effect.Table(key[0]) != effect.State && s.Contains(partition.Position(key[1:])) {
				found = append(found, key, t.rows[key])
			}
		}
		return found
	}
	return slices.Equal(rows(p.disk.rows), rows(w.truth))
}

// contents checks that whoever serves a range has what was acknowledged.
func (w *world) contents() {
	for _, g := range w.groups {
		p := w.peers[g]
		for r := range p.site.List.All() {
			if r.Reads() && !w.holds(p, r.Span) {
				w.fatalf("%v serves %v, and has not what was acknowledged there", g, r)
			}
		}
	}
}

// heal lets everything come to rest.
func (w *world) heal() {
	w.healing = true
	w.net = append(w.net, w.late...)
	w.late = nil
	for range 400 {
		for n := 0; len(w.net) > 0; n++ {
			if w.deliver(); n > 100_000 {
				w.fatalf("the net does not run dry")
			}
			w.check()
		}
		w.unpause()
		if len(w.live()) == 0 {
			break
		}
		w.now += 5
		w.poke()
	}
	w.rest()
}

// rest checks a world in which nothing is left to do.
func (w *world) rest() {
	for _, j := range w.live() {
		w.fatalf("job %d, a %v, is %v for ever: %s", j.ID, j.Kind, j.Phase, j.Why)
	}
	w.check()
	w.contents()
	for _, g := range w.groups {
		for r := range w.peers[g].site.List.All() {
			if r.State == own.Frozen || r.State == own.Incoming || r.State == own.Foreign && r.Attempt != own.Dropped {
				w.fatalf("%v is left with %v of job %d", g, r, r.Job)
			}
		}
	}
	for s := range w.m.Shards(partition.Whole) {
		r, ok := w.peers[s.Group].site.List.One(s.Span)
		if !ok || !same(r.Span, s.Span) || r.State != own.Serving || r.Version != s.Changed {
			w.fatalf("%v has %v for %v of version %d", s.Group, r, s.ID, s.Changed)
		}
	}
	w.leftovers()
}

// leftovers checks that a store has no rows that none of its groups serves.
func (w *world) leftovers() {
	for _, d := range w.disks {
		for _, key := range d.rows.keys {
			if effect.Table(key[0]) == effect.State {
				continue
			}
			p := partition.Position(key[1:])
			if w.peers[w.m.Owner(p).Group].disk != d {
				w.fatalf("store %d has a row at %q left, which %v owns", d.id, key, w.m.Owner(p).Group)
			}
		}
	}
}
