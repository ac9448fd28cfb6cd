package sim

import (
	"errors"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// run is a coordinator at work.
type run struct {
	w    *world
	c    *txn.Coordinator
	x    *tx // nil if nobody waits
	life int
	age  int
}

// deadlineMS is how long a transaction may take.
const deadlineMS = 1500

// coordinate begins to commit a transaction in two phases.
func (w *world) coordinate(x *tx, parts []txn.Part, decider partition.GroupID) {
	w.send(letter{"beginning", false}, func() {
		r := &run{w: w, x: x, life: w.life}
		plan := txn.Plan{ID: w.id(), DeadlineMS: w.deadline(), Parts: parts, Decider: decider}
		if x.id != (txn.ID{}) {
			plan.ID, plan.Patient = x.id, true
		}
		r.begin(txn.NewCoordinator(plan))
	})
}

// resume carries out a decision that was found.
func (w *world) resume(d txn.Decision, decider partition.GroupID) {
	w.count("decisions resumed")
	r := &run{w: w, life: w.life}
	r.begin(txn.Resume(d, decider))
}

func (r *run) begin(c *txn.Coordinator, effects []txn.Effect) {
	r.c = c
	r.w.runs = append(r.w.runs, r)
	r.w.entered("txn " + c.State().String())
	r.drive(effects)
	r.watch()
}

// watch lets the coordinator ask again, now and then, as long as it lives.
func (r *run) watch() {
	r.w.after(15*millisecond+r.w.rng.Int64N(10*millisecond), func() {
		if r.over() {
			return
		}
		if r.age++; r.x != nil && r.w.chance(r.w.cancelRate()) {
			r.step(txn.Cancel{})
		} else {
			r.step(txn.Timeout{})
		}
		r.watch()
	})
}

func (r *run) over() bool { return r.life != r.w.life || r.c.State() == txn.Done }

func (r *run) phase() string { return "txn " + r.c.State().String() }

// step tells the coordinator what has happened.
func (r *run) step(ev txn.Event) {
	if r.over() {
		return
	}
	before := r.phase()
	effects := r.c.Step(ev)
	if after := r.phase(); after != before {
		r.w.entered(after)
		if r.life != r.w.life {
			return
		}
		if after == "txn deciding" && r.x != nil && r.w.chance(r.w.cancelRate()) {
			r.drive(effects)
			effects = r.c.Step(txn.Cancel{})
			r.w.entered(r.phase())
		}
	}
	r.drive(effects)
}

// drive does what the coordinator wants.
func (r *run) drive(effects []txn.Effect) {
	w := r.w
	for _, e := range effects {
		if a, ok := e.(txn.Answer); ok {
			w.count("transactions " + a.Outcome.String())
			if x := r.x; x != nil {
				w.send(letter{"answering", false}, func() { x.answered(a) })
			}
			continue
		}
		for _, call := range drive.Calls(r.c, e, w.router) {
			if call.Gone != nil && drive.Removed(w.router, call.Group) {
				w.count("deciders that were removed")
				w.after(0, func() { r.step(call.Gone) })
				continue
			}
			w.ask(letter{r.phase(), true}, call.Group, call.Command, func(reply command.Reply) {
				if errors.Is(reply.Err, own.ErrWrongGroup) {
					w.refresh()
				}
				if ev := call.Event(reply); ev != nil {
					r.step(ev)
				}
			})
		}
	}
}

// settle asks what became of a transaction whose lock is in the way, and ends it
// there.
func (w *world) settle(l txn.Lock) {
	if drive.Removed(w.router, l.Decider) {
		w.count("locks of deciders that were removed")
		w.carryOut(l, txn.Aborted)
		return
	}
	w.ask(letter{"settling", true}, l.Decider, func() command.Command { return drive.Inquire(l) }, func(r command.Reply) {
		o := txn.OutcomeOf(r)
		if r.Err != nil {
			w.failf("%v does not know about %v: %w", l.Decider, l.Txn, r.Err)
		}
		if o != txn.Undecided {
			w.carryOut(l, o)
		}
	})
}

// carryOut ends a transaction where one of its locks is.
func (w *world) carryOut(l txn.Lock, o txn.Outcome) {
	w.count("locks settled by others")
	to, _ := drive.Settle(l, o, w.router)
	w.ask(letter{"settling", true}, to, func() command.Command {
		_, c := drive.Settle(l, o, w.router)
		return c
	}, func(r command.Reply) {
		if errors.Is(r.Err, own.ErrWrongGroup) {
			w.refresh()
		}
	})
}

// tend is what a node does for a group now and then.
func (w *world) tend(id partition.GroupID) {
	p, err := w.find(id)
	if err != nil || w.lists[id] == nil {
		return
	}
	if _, err = p.Group.Tend(ctx); w.home(id).dead || refused(err) {
		return
	}
	w.must(err, "housekeeping")
	for _, l := range p.Group.Overdue() {
		w.settle(l)
	}
	w.must(txn.Decisions(p.Store, id, func(d txn.Decision) bool {
		// Whoever made it a moment ago is still at it.
		if len(d.Spans) > 0 && w.seen[d.ID] {
			w.resume(d, id)
		}
		w.seen[d.ID] = true
		return true
	}), "look for decisions")
}
