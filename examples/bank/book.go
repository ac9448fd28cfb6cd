package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// outcome is what the auditor knows about an order.
type outcome uint8

const (
	unanswered   outcome = iota // it was asked, and that is all
	acknowledged                // the bank said that it was done
	refused                     // the bank said that it was not
	foundDone                   // the bank said nothing, but its log did
)

// entry is an order in the auditor's book.
type entry struct {
	order
	outcome outcome
	// killed is the step at which the bank was killed while it was unanswered;
	// never if it was not.
	killed step
	// victim means that it stood still at that step, so its outcome is known.
	victim bool
}

// line is what became of the orders that were under way at the kills at a step.
type line struct{ kills, acknowledged, unknown, done, undone int }

// book is what the auditor knows.
type book struct {
	orders map[string]*entry
	lines  [steps]line
	life   int // orders acknowledged since the last kill
	audits int
	again  int // orders that were asked again
}

func newBook() *book { return &book{orders: map[string]*entry{}} }

// asked notes that an order is going to be executed, the first time or again.
func (b *book) asked(o order) error {
	e := b.orders[o.id]
	switch {
	case e == nil:
		b.orders[o.id] = &entry{order: o, killed: never}
	case e.order != o:
		return fmt.Errorf("order %v was asked as %v before", o, e.order)
	default:
		b.again++
	}
	return nil
}

// answered notes what the bank said of an order.
func (b *book) answered(id string, o outcome) {
	e := b.orders[id]
	if e == nil {
		e = &entry{order: order{id: id}} // the audit will not find it as it was asked
		b.orders[id] = e
	}
	if o == acknowledged && e.outcome != acknowledged {
		b.life++
	}
	e.outcome, e.killed, e.victim = o, never, false
}

// kill notes that the bank was killed at a step. victim is the order that stood
// still there, or went on into its commit.
func (b *book) kill(at step, victim string) {
	l := &b.lines[at]
	l.kills++
	l.acknowledged += b.life
	b.life = 0
	for id, e := range b.orders {
		if e.outcome == unanswered && e.killed == never {
			e.killed, e.victim = at, id == victim && at.stops()
			l.unknown++
		}
	}
}

// audit compares what a bank has with what is known about it.
func (b *book) audit(s state) error {
	b.audits++
	return few(append(auditMoney(s), b.auditLog(s.log)...))
}

// auditMoney checks that the balances are what the log makes of the deposits.
func auditMoney(s state) (errs []error) {
	want := map[string]int64{}
	for i := range accounts {
		want[account(i)] = deposit
	}
	for _, o := range s.log {
		want[o.from] -= o.amount
		want[o.to] += o.amount
	}
	sum := int64(0)
	for _, name := range slices.Sorted(maps.Keys(s.balances)) {
		sum += s.balances[name]
		if s.balances[name] < 0 {
			errs = append(errs, fmt.Errorf("%s is overdrawn: %d", name, s.balances[name]))
		}
	}
	if sum != accounts*deposit {
		errs = append(errs, fmt.Errorf("all accounts together have %d, not %d", sum, accounts*deposit))
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if have, ok := s.balances[name]; !ok || have != want[name] {
			errs = append(errs, fmt.Errorf("%s has %d, the log says %d: a transfer is half done, or done twice", name, have, want[name]))
		}
	}
	return errs
}

// auditLog checks that the log has what it must have, and nothing else.
func (b *book) auditLog(log map[string]order) (errs []error) {
	for id, o := range log {
		if e := b.orders[id]; e == nil || e.order != o {
			errs = append(errs, fmt.Errorf("the log has %v, which nobody asked for", o))
		}
	}
	for id, e := range b.orders {
		_, done := log[id]
		switch {
		case !done && (e.outcome == acknowledged || e.outcome == foundDone):
			errs = append(errs, fmt.Errorf("order %v was acknowledged or seen, and is lost", e.order))
		case done && e.outcome == refused:
			errs = append(errs, fmt.Errorf("order %v was refused, and is done", e.order))
		case e.victim && done != e.killed.happened():
			errs = append(errs, fmt.Errorf("order %v was killed %v: done is %v", e.order, e.killed, done))
		}
	}
	return errs
}

// few joins errors, but not thousands of them.
func few(errs []error) error {
	const most = 8
	if len(errs) > most {
		errs = append(errs[:most:most], fmt.Errorf("and %d more", len(errs)-most))
	}
	return errors.Join(errs...)
}

// resolve notes what became of the orders that a kill left unanswered, and
// returns them: to be asked again, whatever it was.
func (b *book) resolve(s state) (again []order) {
	for id, e := range b.orders {
		if e.outcome != unanswered {
			continue
		}
		if _, done := s.log[id]; done {
			e.outcome = foundDone
			b.lines[e.killed].done++
		} else {
			b.lines[e.killed].undone++
		}
		e.killed, e.victim = never, false
		again = append(again, e.order)
	}
	slices.SortFunc(again, func(a, b order) int { return strings.Compare(a.id, b.id) })
	return again
}

// settled checks that every order has an outcome.
func (b *book) settled() error {
	var errs []error
	for _, e := range b.orders {
		if e.outcome == unanswered || e.outcome == foundDone {
			errs = append(errs, fmt.Errorf("order %v was asked again, and has no answer", e.order))
		}
	}
	return few(errs)
}
