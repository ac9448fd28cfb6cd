package sim

import (
	"errors"
	"maps"
	"slices"

	"github.com/cleavekv/cleave/internal/check"
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// mostTries is after how many failures a transaction has starved. In a calm world
// those that lock first commit then, with few exceptions: a key may expire under a hold,
// and a hold when its queue is long. Faults may take holds away, and a range that moves
// has none at its new owner.
func (w *world) mostTries() int {
	if w.calm() {
		return patienceToLock + 3
	}
	return 10 * patienceToLock
}

// calm tells that nothing takes a hold away.
func (w *world) calm() bool { return w.cfg.Faults == 0 && !w.cfg.Jobs && !w.healing }

// hold asks the groups for all that is claimed, in the order of their ids, and goes
// on when it has it.
func (x *tx) hold(claims []txn.Claim, then func()) {
	w := x.o.c.w
	w.count("transactions that lock first")
	x.id, x.held = w.id(), nil
	byGroup := map[partition.GroupID][]txn.Claim{}
	for _, c := range claims {
		for _, p := range drive.Pieces(x.o.c.m, c.Span) {
			byGroup[p.Group] = append(byGroup[p.Group], txn.Claim{Span: p.Span, Write: c.Write})
		}
	}
	x.holdNext(slices.Sorted(maps.Keys(byGroup)), byGroup, w.deadline(), func(wrong bool) {
		if wrong { // ranges have changed hands: all over again, under another name
			x.release()
			x.hold(claims, then)
			return
		}
		then()
	})
}

// holdNext asks the first of groups until it has given all, and goes on with the
// others.
func (x *tx) holdNext(groups []partition.GroupID, claims map[partition.GroupID][]txn.Claim, deadlineMS int64, then func(wrong bool)) {
	if len(groups) == 0 {
		then(false)
		return
	}
	w, g := x.o.c.w, groups[0]
	if !slices.Contains(x.held, g) {
		x.held = append(x.held, g)
	}
	x.o.attempt++
	attempt := x.o.attempt
	again := func() {
		if !x.o.over && x.o.attempt == attempt {
			x.holdNext(groups, claims, deadlineMS, then)
		}
	}
	w.after(20*millisecond, again)
	c := func() command.Command { return &txn.Hold{ID: x.id, Claims: claims[g], DeadlineMS: deadlineMS} }
	w.ask(letter{"holding", true}, g, c, func(r command.Reply) {
		if x.o.over || x.o.attempt != attempt {
			return
		}
		switch {
		case txn.HeldBy(r):
			x.holdNext(groups[1:], claims, deadlineMS, then)
		case errors.Is(r.Err, own.ErrWrongGroup):
			x.o.c.relearn()
			w.after(w.backoff(x.o), func() {
				if !x.o.over && x.o.attempt == attempt {
					then(true)
				}
			})
		case errors.Is(r.Err, txn.ErrDeadline):
			x.o.finish(check.Failed)
		default:
			w.after(w.backoff(x.o), again)
		}
	})
}

// release leaves all queues. If that is lost, the others wait for the deadline.
func (x *tx) release() {
	w, id := x.o.c.w, x.id
	for _, g := range x.held {
		for range 2 {
			w.ask(letter{"holding", true}, g, func() command.Command { return &txn.Unhold{ID: id} }, func(command.Reply) {})
		}
	}
	x.held = nil
}

// deadline is that of a transaction that begins now, by all clocks.
func (w *world) deadline() int64 {
	deadline := w.wallMS()
	for _, g := range w.groups {
		if p, err := w.find(g); err == nil {
			deadline = max(deadline, p.Group.NowMS())
		}
	}
	return deadline + deadlineMS
}
