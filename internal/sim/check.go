package sim

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/internal/check"
	"github.com/cleavekv/cleave/internal/check/register"
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// inspect looks at what groups own, after each event: at most one serves each
// position. Their clocks never go back.
func (w *world) inspect() {
	changed := false
	for _, g := range w.groups {
		p, err := w.find(g)
		if err != nil {
			continue // what it owns stays what it is
		}
		if now := p.Group.NowMS(); now < w.clocks[g] {
			w.failf("the clock of %v went back from %d to %d", g, w.clocks[g], now)
		} else {
			w.clocks[g] = now
		}
		list := p.Group.List()
		if was := w.lists[g]; was != list {
			w.lists[g], changed = list, true
			w.cutover(g, was, list)
			w.floors(g, was, list)
		}
	}
	if changed {
		w.served(false)
	}
}

// served checks that no position is served twice, and at rest that each is served
// and may be written.
func (w *world) served(rest bool) {
	var ranges []own.Range
	for _, g := range w.groups {
		if w.lists[g] == nil {
			continue
		}
		for r := range w.lists[g].All() {
			if r.Reads() {
				ranges = append(ranges, r)
			}
		}
	}
	slices.SortFunc(ranges, func(a, b own.Range) int { return bytes.Compare(a.Span.Start, b.Span.Start) })
	var end partition.Position
	for i, r := range ranges {
		if i > 0 && (len(end) == 0 || bytes.Compare(r.Span.Start, end) < 0) {
			w.failf("two groups serve %v: %v and %v", r.Span, ranges[i-1], r)
		}
		if rest && (r.State != own.Serving || !bytes.Equal(r.Span.Start, end)) {
			w.failf("nobody takes writes from %q on, or of %v", []byte(end), r)
		}
		end = r.Span.End
	}
	if rest && len(end) > 0 {
		w.failf("nobody takes writes from %q on", []byte(end))
	}
}

// cutover compares both sides at the moment at which a copy begins to serve.
func (w *world) cutover(g partition.GroupID, was, list *own.List) {
	if was == nil {
		return
	}
	for r := range list.All() {
		before, ok := was.One(r.Span)
		if r.State != own.Serving || !ok || before.State != own.Incoming {
			continue
		}
		j, ok := w.phases[r.Job]
		if !ok {
			w.failf("%v serves %v for job %d, which is not under way", g, r, r.Job)
		}
		from, err := w.find(j.From)
		if err != nil {
			continue
		}
		to, err := w.find(g)
		w.must(err, "find a destination")
		a, errA := mover.Sum(from.Store, r.Span)
		b, errB := mover.Sum(to.Store, r.Span)
		if a != b || errA != nil || errB != nil {
			w.failf("at the cutover of job %d the source has %v, the destination %v, %v %v", r.Job, a, b, errA, errB)
		}
		w.count("cutovers compared")
		if a[1].Rows > 0 {
			w.count("cutovers with locks")
		}
	}
}

// floors checks that a group gives out no version that a key of a range that has
// come to it has had.
func (w *world) floors(g partition.GroupID, was, list *own.List) {
	p, err := w.find(g)
	if err != nil || was == nil {
		return
	}
	for r := range list.All() {
		if before, ok := was.Find(r.Span.Start); r.State != own.Serving || ok && before.Reads() {
			continue
		}
		reply, ok := w.do(g, requestOf(standing{}))
		if !ok {
			return
		}
		next := reply.Version
		from, to := effect.Rows.Between(r.Span.Start, r.Span.End)
		w.must(p.Store.Scan(from, to, false, func(key, value []byte) bool {
			row, err := command.DecodeRow(value)
			w.must(err, "a row")
			if row.Version >= next {
				w.failf("%v begins to serve %v at version %d, and %q has %d", g, r.Span, next, key, row.Version)
			}
			return true
		}), "look at rows")
		w.count("ranges taken over")
	}
}

// standing reads the version that the group gives out next.
type standing struct{}

// Eval reads it.
func (standing) Eval(e *command.Env) command.Reply {
	return command.Reply{Kind: command.Int, Version: e.NextVersion()}
}

// heal ends all faults and lets everything come to rest: within ten seconds.
func (w *world) heal() {
	w.healing = true
	for _, d := range w.disks {
		d.full, d.failing = 0, false
		w.raise(d)
	}
	w.inspect()
	w.refresh()
	w.play(w.now+10*second, func() bool { return false })
}

// settled checks that ten seconds were enough: all may be written, no lock is left,
// and no job is open but such as wait until decisions are old enough.
func (w *world) settled() {
	w.served(true)
	for _, j := range w.byPhase() {
		if j.Phase != mover.Retiring {
			w.failf("job %d is still %v after ten seconds: %s", j.ID, j.Phase, j.Why)
		}
	}
	m := w.decode(w.mustDo(catalogGroup, &command.Get{Key: meta.Map()}))
	for _, d := range w.disks {
		w.must(drive.EachLock(d.store, partition.Span{}, func(x txn.Lock) bool {
			to, _ := w.find(m.Owner(x.Start).Group)
			w.failf("a lock is left on store %d after ten seconds: %+v of %v, whose clock is at %d, the machine's at %d", d.number, x, m.Owner(x.Start).Group, to.Group.NowMS(), w.wallMS())
			return false
		}), "look for locks")
	}
}

// rest checks a world in which nothing is left to do.
func (w *world) rest() {
	w.settled()
	if len(w.phases) > 0 {
		w.jumpMS += 2 * txn.KeepMS
		w.play(w.now+5*second, func() bool { return len(w.phases) == 0 })
	}
	for _, j := range w.byPhase() {
		w.failf("job %d is still %v when decisions are old: %s", j.ID, j.Phase, j.Why)
	}
	w.served(true)
	m := w.decode(w.mustDo(catalogGroup, &command.Get{Key: meta.Map()}))
	for s := range m.Shards(partition.Span{}) {
		r, ok := w.lists[s.Group].Find(s.Span.Start)
		if !ok || r.State != own.Serving || r.Version != s.Changed || !bytes.Equal(r.Span.End, s.Span.End) {
			w.failf("the map gives %v to %v, which has %v", s.Span, s.Group, r)
		}
	}
	w.reader.judge()
	w.hub.judge()
	last{w, m}.read()
}

// judge hands the histories to their checkers.
func (w *world) judge(end check.Booked) {
	h := &w.history
	reports := map[string]*check.Report{
		"registers": register.Check(h.registers),
		"lists":     check.Lists(h.txns),
		"bank":      check.Bank(check.BankRules{Accounts: len(letters), Total: opening * int64(len(letters))}, h.balances),
		"bookings":  check.Bookings(h.claims, end),
		"scans":     check.Scans(h.changes, h.scans),
	}
	for k, calls := range h.counts {
		reports["counter "+k] = check.Counter(calls)
	}
	var bad []string
	for name, r := range reports {
		if err := r.Err(); err != nil {
			bad = append(bad, fmt.Sprintf("%s: %v", name, err))
		}
	}
	if len(bad) > 0 {
		slices.Sort(bad)
		w.failf("%s", bad[0])
	}
}
