package sim

import (
	"slices"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// mostGroups is how many groups there are at most beyond those of the first map.
const mostGroups = 2

// wishForMany asks for a job that is done by others: boundaries in several shards,
// a group without shards, or another number of groups.
func (w *world) wishForMany(m *partition.Map) (r mover.Request, ok bool) {
	groups := m.Groups()
	first := w.cfg.Stores * w.cfg.Groups
	kind := w.rng.IntN(4)
	switch w.aimedAt() {
	case "hosting":
		kind = 3
	case "retiring", "removing":
		kind = 2
	case "unmarking", "marking":
		kind = 1
	}
	switch kind {
	case 0:
		var at []partition.Position
		for _, l := range w.some(3) {
			at = append(at, space.PrefixSpan([]byte(l+"/"+pick(w, whats))).Start)
		}
		return mover.Request{Kind: mover.PreSplit, In: &space, At: at}, m.Len() < 16
	case 1:
		g := pick(w, groups)
		if g.Draining { // refused while a job still drains it
			return mover.Request{Kind: mover.Undrain, Group: g.ID}, true
		}
		return mover.Request{Kind: mover.Drain, Group: g.ID, Parallel: 1 + w.rng.IntN(3)}, g.ID != catalogGroup
	case 2:
		return mover.Request{Kind: mover.Regroup, Groups: len(groups) - 1, Parallel: 1 + w.rng.IntN(3)}, len(groups) > 2
	}
	return mover.Request{
		Kind: mover.Regroup, Groups: len(groups) + 1, Labels: make([]partition.Labels, 1), Parallel: 1 + w.rng.IntN(3),
	}, len(groups) < first+mostGroups
}

// host opens groups that the map has got, as far as they are not removed again by
// the time the message comes.
func (d *driver) host(j mover.Job, x mover.Host) {
	w := d.w
	for _, id := range x.Groups {
		at := w.home(id)
		if at.store == nil {
			return // nobody is there to answer
		}
		if _, open := at.places[id]; open || w.removed[id] {
			continue
		}
		if !at.host(id) {
			return
		}
		at.groups = append(at.groups, id)
		w.groups = append(w.groups, id)
		slices.Sort(w.groups)
		w.every(100*millisecond, func() { w.tend(id) })
		w.count("groups added")
	}
	d.answer(j, mover.Published{Round: x.Round})
}

// survey looks at the map and all jobs.
func (d *driver) survey(j mover.Job, x mover.Survey) {
	w := d.w
	w.ask(letter{d.phase(&j), true}, catalogGroup, func() command.Command { return surveying{} }, func(r command.Reply) {
		jobs, err := drive.Records(r)
		w.must(err, "the records of jobs")
		m, err := partition.Decode(r.Bytes)
		w.must(err, "the map in the catalog")
		home := func(g partition.GroupID) uint64 { return uint64(w.home(g).number) }
		d.handle(j.ID, mover.Surveyed{Round: x.Round, View: mover.View{Map: m, Jobs: jobs, Home: home, Fixed: meta.Fixed}})
	})
}

// surveying reads the map and all jobs.
type surveying struct{}

// Eval reads.
func (surveying) Eval(e *command.Env) command.Reply {
	jobs, m := e.Do(meta.Jobs()), e.Do(&command.Get{Key: meta.Map()})
	if m.Err != nil {
		return m
	}
	jobs.Bytes = m.Bytes
	return jobs
}

// stop cancels a job for another, if this driver knows it.
func (d *driver) stop(id own.Job) {
	h := d.jobs[id]
	if h == nil || h.busy {
		return
	}
	if next, effects, err := mover.Cancel(h.stored, d.w.wallMS()); err == nil && next.Rev != h.stored.Rev {
		d.w.count("jobs stopped by others")
		d.store(h, next, effects)
	}
}

// retire looks whether groups keep decisions.
func (d *driver) retire(j mover.Job, x mover.Retire) {
	for _, id := range x.Groups {
		p, err := d.w.find(id)
		if err != nil {
			return
		}
		if d.w.decisions(p, id) > 0 {
			d.w.count("groups that could not be removed yet")
			d.answer(j, mover.Failed{Round: x.Round, Err: mover.ErrDecisions})
			return
		}
	}
	d.answer(j, mover.Published{Round: x.Round})
}

// decisions counts what a group has decided and keeps.
func (w *world) decisions(p drive.Place, id partition.GroupID) (n int) {
	w.must(txn.Decisions(p.Store, id, func(txn.Decision) bool { n++; return true }), "look for decisions")
	return n
}

// removeGroups closes groups that a map has no more, a little later: what was on
// its way to them comes to one that knows nothing of its end.
func (w *world) removeGroups(m *partition.Map) {
	for _, id := range w.groups {
		if _, there := m.Group(id); there || w.removed[id] || id >= m.NextGroup() {
			continue
		}
		w.removed[id] = true
		w.count("groups removed")
		w.mayGo(id)
		w.after(w.rng.Int64N(20*millisecond), func() { w.remove(id) })
	}
}

// remove closes a group for ever.
func (w *world) remove(id partition.GroupID) {
	w.mayGo(id)
	d := w.home(id)
	d.groups = slices.DeleteFunc(d.groups, func(g partition.GroupID) bool { return g == id })
	w.groups = slices.DeleteFunc(w.groups, func(g partition.GroupID) bool { return g == id })
	delete(d.places, id)
	delete(w.lists, id)
}

// mayGo checks that nobody needs a group any more.
func (w *world) mayGo(id partition.GroupID) {
	p, err := w.find(id)
	if err != nil {
		return
	}
	for r := range p.Group.List().All() {
		if r.State != own.Foreign {
			w.failf("%v is removed and has %v", id, r)
		}
	}
	w.must(txn.Decisions(p.Store, id, func(x txn.Decision) bool {
		if x.Outcome == txn.Committed {
			w.failf("%v is removed and keeps a decision: %+v", id, x)
		}
		return true
	}), "look for decisions")
}
