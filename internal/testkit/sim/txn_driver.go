package sim

import (
	"errors"

	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/partition"
)

// txnDriver is a coordinator at work.
type txnDriver struct {
	w           *world
	coordinator *txn.Coordinator
	x           *tx // nil if no client waits
	life        int
	age         int
}

// txnTimeoutMS is how long a transaction may take.
const txnTimeoutMS = 1500

// startCommit begins to commit a transaction in two phases.
func (w *world) startCommit(x *tx, parts []txn.Participant, coordinatorGroup partition.GroupID) {
	w.sendMessage(message{"beginning", false}, func() {
		r := &txnDriver{w: w, x: x, life: w.life}
		plan := txn.Plan{ID: w.newID(), DeadlineMS: w.txnDeadlineMS(), Participants: parts, CoordinatorGroup: coordinatorGroup}
		if x.id != (txn.ID{}) {
			plan.ID, plan.Patient = x.id, true
		}
		r.startDriver(txn.NewCoordinator(plan))
	})
}

// resumeDecision carries out a decision that was found.
func (w *world) resumeDecision(d txn.Decision, coordinatorGroup partition.GroupID) {
	w.addCount("decisions resumed")
	r := &txnDriver{w: w, life: w.life}
	r.startDriver(txn.ResumeCoordinator(d, coordinatorGroup))
}

func (r *txnDriver) startDriver(c *txn.Coordinator, effects []txn.Effect) {
	r.coordinator = c
	r.w.txnDrivers = append(r.w.txnDrivers, r)
	r.w.onPhaseEntered("txn " + c.State().String())
	r.runEffects(effects)
	r.scheduleTimeouts()
}

// scheduleTimeouts lets the coordinator ask again, now and then, as long as it lives.
func (r *txnDriver) scheduleTimeouts() {
	r.w.scheduleAfter(15*millisecond+r.w.rng.Int64N(10*millisecond), func() {
		if r.isDone() {
			return
		}
		if r.age++; r.x != nil && r.w.drawChance(r.w.cancelPerMille()) {
			r.step(txn.Cancel{})
		} else {
			r.step(txn.Timeout{})
		}
		r.scheduleTimeouts()
	})
}

func (r *txnDriver) isDone() bool { return r.life != r.w.life || r.coordinator.State() == txn.Done }

func (r *txnDriver) phaseName() string { return "txn " + r.coordinator.State().String() }

// step gives the coordinator an event.
func (r *txnDriver) step(ev txn.Event) {
	if r.isDone() {
		return
	}
	before := r.phaseName()
	effects := r.coordinator.Step(ev)
	if after := r.phaseName(); after != before {
		r.w.onPhaseEntered(after)
		if r.life != r.w.life {
			return
		}
		if after == "txn deciding" && r.x != nil && r.w.drawChance(r.w.cancelPerMille()) {
			r.runEffects(effects)
			effects = r.coordinator.Step(txn.Cancel{})
			r.w.onPhaseEntered(r.phaseName())
		}
	}
	r.runEffects(effects)
}

// runEffects does what the coordinator wants.
func (r *txnDriver) runEffects(effects []txn.Effect) {
	w := r.w
	for _, e := range effects {
		if a, ok := e.(txn.Answer); ok {
			w.addCount("transactions " + a.Outcome.String())
			if x := r.x; x != nil {
				w.sendMessage(message{"answering", false}, func() { x.handleOutcome(a) })
			}
			continue
		}
		for _, call := range protocol.CallsFor(r.coordinator, e, w.router) {
			if call.RemovedEvent != nil && protocol.IsGroupRemoved(w.router, call.Group) {
				w.addCount("deciders that were removed")
				w.scheduleAfter(0, func() { r.step(call.RemovedEvent) })
				continue
			}
			w.sendCommand(message{r.phaseName(), true}, call.Group, call.Command, func(reply command.Reply) {
				if errors.Is(reply.Err, ownership.ErrWrongGroup) {
					w.refreshMap()
				}
				if ev := call.Event(reply); ev != nil {
					r.step(ev)
				}
			})
		}
	}
}

// resolveIfDecided asks what became of a transaction whose lock is in the way, and ends it
// there.
func (w *world) resolveIfDecided(l txn.Lock) {
	if protocol.IsGroupRemoved(w.router, l.CoordinatorGroup) {
		w.addCount("locks of deciders that were removed")
		w.resolveLock(l, txn.Aborted)
		return
	}
	w.sendCommand(message{"settling", true}, l.CoordinatorGroup, func() command.Command { return protocol.NewOutcomeQuery(l) }, func(r command.Reply) {
		o := txn.ParseOutcome(r)
		if r.Err != nil {
			w.failf("%v does not know about %v: %w", l.CoordinatorGroup, l.Txn, r.Err)
		}
		if o != txn.Undecided {
			w.resolveLock(l, o)
		}
	})
}

// resolveLock ends a transaction where one of its locks is.
func (w *world) resolveLock(l txn.Lock, o txn.Outcome) {
	w.addCount("locks settled by others")
	to, _ := protocol.NewResolve(l, o, w.router)
	w.sendCommand(message{"settling", true}, to, func() command.Command {
		_, c := protocol.NewResolve(l, o, w.router)
		return c
	}, func(r command.Reply) {
		if errors.Is(r.Err, ownership.ErrWrongGroup) {
			w.refreshMap()
		}
	})
}

// housekeep is what a node does for a group now and then.
func (w *world) housekeep(id partition.GroupID) {
	p, err := w.findHost(id)
	if err != nil || w.tables[id] == nil {
		return
	}
	if _, err = p.Group.Housekeep(ctx); w.homeDisk(id).hasFailed || isDiskFull(err) {
		return
	}
	w.must(err, "housekeeping")
	for _, l := range p.Group.ListOverdueLocks() {
		w.resolveIfDecided(l)
	}
	w.must(txn.ScanDecisions(p.Store, id, func(d txn.Decision) bool {
		// The maker of a recent one is still at it.
		if len(d.Spans) > 0 && w.seenDecisions[d.ID] {
			w.resumeDecision(d, id)
		}
		w.seenDecisions[d.ID] = true
		return true
	}), "look for decisions")
}
