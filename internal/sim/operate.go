package sim

import (
	"slices"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/partition"
)

// operate asks for a job, or interferes with one.
func (w *world) operate() {
	if w.healing {
		return
	}
	if len(w.phases) > 0 && w.chance(w.cancelRate()) {
		w.interfere()
	}
	if len(w.phases) >= 6 {
		return
	}
	if r, ok := w.wish(); ok {
		w.admit(letter{"admitting", false}, r)
	}
}

// admit asks the catalog for a job.
func (w *world) admit(l letter, r mover.Request) {
	home := func(g partition.GroupID) uint64 { return uint64(w.home(g).number) }
	w.ask(l, catalogGroup, func() command.Command {
		return &admitted{Admit: drive.Admit{Catalog: meta, Request: r, Home: home, NowMS: w.wallMS()}, w: w}
	}, func(r command.Reply) {
		if r.Err != nil {
			w.count("jobs refused")
			w.refresh()
			return
		}
		w.count("jobs admitted")
		w.drivers[0].look()
	})
}

// admitted is an Admit of which the world hears.
type admitted struct {
	drive.Admit
	w *world
}

// Eval admits.
func (c *admitted) Eval(e *command.Env) command.Reply {
	r := c.Admit.Eval(e)
	if r.Err == nil {
		c.w.news = append(c.w.news, c.Job)
	}
	return r
}

// interfere cancels, pauses or throttles a job, as it is stored.
func (w *world) interfere() {
	d := pick(w, w.drivers)
	h := d.jobs[pick(w, w.byPhase()).ID]
	if h == nil || h.busy {
		return
	}
	next, effects, err := h.stored, []mover.Effect(nil), error(nil)
	what := ""
	switch n := w.rng.IntN(10); {
	case n < 2:
		what = "jobs paused"
		next, err = mover.Pause(h.stored, w.wallMS())
	case n < 4:
		what = "jobs throttled"
		next, err = mover.Throttle(h.stored, pick(w, []uint64{0, 64 << 10, 1 << 20}), w.wallMS())
	default:
		what = "jobs cancelled"
		next, effects, err = mover.Cancel(h.stored, w.wallMS())
	}
	if err == nil && next.Rev != h.stored.Rev {
		w.count(what)
		d.store(h, next, effects)
	}
}

// whats are what keys of a letter are for.
var whats = []string{"reg", "list", "bank", "cnt", "scan", "cab", "hash", "hcnt", "lease", "fence", "ros", "size"}

// wish is a change of the map at random, biased to where keys are.
func (w *world) wish() (r mover.Request, ok bool) {
	m := w.router
	var shards []partition.Shard
	for s := range m.Shards(space.Span()) {
		if s.ID != m.Find(system.Span().Start).ID { // the catalog stays
			shards = append(shards, s)
		}
	}
	if w.chance(w.compositeRate()) {
		return w.wishForMany(m)
	}
	i := w.rng.IntN(len(shards))
	p := at(key(pick(w, letters), pick(w, whats), w.rng.IntN(3)))
	if w.cfg.Load == "rounds" && w.chance(700) { // where visitors are
		p = at(visitor(w.rng.IntN(visitors)))
		i = max(slices.IndexFunc(shards, func(x partition.Shard) bool { return x.ID == m.Find(p).ID }), 0)
	}
	s := shards[i]
	switch n := w.rng.IntN(10); {
	case n < 3 && len(shards) < 14:
		s = m.Find(p)
		if !slices.ContainsFunc(shards, func(x partition.Shard) bool { return x.ID == s.ID }) {
			return r, false
		}
		return mover.Request{Kind: mover.Split, Shard: s.ID, Expect: s.Changed, In: &space, At: []partition.Position{p}}, true
	case n < 5 && i+1 < len(shards) && shards[i+1].Group == s.Group:
		return mover.Request{Kind: mover.Merge, Shard: s.ID, Right: shards[i+1].ID, Expect: s.Changed, ExpectRight: shards[i+1].Changed}, true
	}
	to := pick(w, w.groups)
	return mover.Request{Kind: mover.Move, Shard: s.ID, Expect: s.Changed, To: to}, to != s.Group
}
