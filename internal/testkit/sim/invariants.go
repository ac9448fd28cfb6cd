package sim

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/testkit/check"
	"github.com/cleavekv/cleave/internal/testkit/check/register"
	"github.com/cleavekv/cleave/partition"
)

// checkInvariants looks at what groups own, after each event: at most one serves each
// position. Their clocks do not go back while they are open.
func (w *world) checkInvariants() {
	changed := false
	for _, g := range w.groups {
		p, err := w.findHost(g)
		if err != nil {
			continue // what it owns stays what it is
		}
		if now := p.Group.NowMS(); now < w.clocksMS[g] {
			w.failf("the clock of %v went back from %d to %d", g, w.clocksMS[g], now)
		} else {
			w.clocksMS[g] = now
		}
		list := p.Group.OwnershipTable()
		if was := w.tables[g]; was != list {
			w.tables[g], changed = list, true
			w.compareCutover(g, was, list)
			w.checkVersionFloors(g, was, list)
		}
	}
	if changed {
		w.checkServing(false)
	}
}

// checkServing checks that no position is served twice, and at rest that each is served
// and may be written.
func (w *world) checkServing(rest bool) {
	var ranges []ownership.Range
	for _, g := range w.groups {
		if w.tables[g] == nil {
			continue
		}
		for r := range w.tables[g].All() {
			if r.IsReadable() {
				ranges = append(ranges, r)
			}
		}
	}
	slices.SortFunc(ranges, func(a, b ownership.Range) int { return bytes.Compare(a.Span.Start, b.Span.Start) })
	var end partition.Position
	for i, r := range ranges {
		if i > 0 && (len(end) == 0 || bytes.Compare(r.Span.Start, end) < 0) {
			w.failf("two groups serve %v: %v and %v", r.Span, ranges[i-1], r)
		}
		if rest && (r.State != ownership.Serving || !bytes.Equal(r.Span.Start, end)) {
			w.failf("nobody takes writes from %q on, or of %v", []byte(end), r)
		}
		end = r.Span.End
	}
	if rest && len(end) > 0 {
		w.failf("nobody takes writes from %q on", []byte(end))
	}
}

// compareCutover compares both sides at the moment at which a copy begins to serve.
func (w *world) compareCutover(g partition.GroupID, was, list *ownership.Table) {
	if was == nil {
		return
	}
	for r := range list.All() {
		before, ok := was.FindContaining(r.Span)
		if r.State != ownership.Serving || !ok || before.State != ownership.Incoming {
			continue
		}
		j, ok := w.openJobs[r.Job]
		if !ok {
			w.failf("%v serves %v for job %d, which is not under way", g, r, r.Job)
		}
		from, err := w.findHost(j.From)
		if err != nil {
			continue
		}
		to, err := w.findHost(g)
		w.must(err, "find a destination")
		a, errA := mover.SumSpan(from.Store, r.Span)
		b, errB := mover.SumSpan(to.Store, r.Span)
		if a != b || errA != nil || errB != nil {
			w.failf("at the cutover of job %d the source has %v, the destination %v, %v %v", r.Job, a, b, errA, errB)
		}
		w.addCount("cutovers compared")
		if a[1].Rows > 0 {
			w.addCount("cutovers with locks")
		}
	}
}

// checkVersionFloors checks that a group gives out no version that a key of a range that has
// come to it has had.
func (w *world) checkVersionFloors(g partition.GroupID, was, list *ownership.Table) {
	p, err := w.findHost(g)
	if err != nil || was == nil {
		return
	}
	for r := range list.All() {
		if before, ok := was.Find(r.Span.Start); r.State != ownership.Serving || ok && before.IsReadable() {
			continue
		}
		reply, ok := w.tryRequest(g, newRequest(nextVersionProbe{}))
		if !ok {
			return
		}
		next := reply.Version
		from, to := effect.Rows.SpanBetween(r.Span.Start, r.Span.End)
		w.must(p.Store.Scan(from, to, false, func(key, value []byte) bool {
			row, err := command.DecodeRow(value)
			w.must(err, "a row")
			if row.Version >= next {
				w.failf("%v begins to serve %v at version %d, and %q has %d", g, r.Span, next, key, row.Version)
			}
			return true
		}), "look at rows")
		w.addCount("ranges taken over")
	}
}

// nextVersionProbe reads the version that the group gives out next.
type nextVersionProbe struct{}

// Eval reads it.
func (nextVersionProbe) Eval(e *command.Env) command.Reply {
	return command.Reply{Kind: command.Int, Version: e.NextVersion()}
}

// settleFaults ends all faults and lets everything come to rest: within ten seconds.
func (w *world) settleFaults() {
	w.isQuiescing = true
	for _, d := range w.disks {
		d.fullReasons, d.failNextWrite = 0, false
		w.reopenDisk(d)
	}
	w.checkInvariants()
	w.refreshMap()
	w.runUntil(w.now+10*second, func() bool { return false })
}

// checkSettled checks that ten seconds were enough: all may be written, no lock is left,
// and no job is open but such as wait until decisions are old enough.
func (w *world) checkSettled() {
	w.checkServing(true)
	for _, j := range w.listOpenJobs() {
		if j.Phase != mover.Retiring {
			w.failf("job %d is still %v after ten seconds: %s", j.ID, j.Phase, j.Reason)
		}
	}
	m := w.decodeMap(w.mustDo(catalogGroup, &command.Get{Key: catalogKeys.MapKey()}))
	for _, d := range w.disks {
		w.must(protocol.ScanLocks(d.store, partition.Span{}, func(x txn.Lock) bool {
			to, _ := w.findHost(m.Owner(x.Start).Group)
			w.failf("a lock is left on store %d after ten seconds: %+v of %v, whose clock is at %d, the machine's at %d", d.number, x, m.Owner(x.Start).Group, to.Group.NowMS(), w.wallMS())
			return false
		}), "look for locks")
	}
}

// checkFinalState checks a world in which nothing is left to do.
func (w *world) checkFinalState() {
	w.checkSettled()
	if len(w.openJobs) > 0 {
		w.clockOffsetMS += 2 * txn.DecisionKeepMS
		w.runUntil(w.now+5*second, func() bool { return len(w.openJobs) == 0 })
	}
	for _, j := range w.listOpenJobs() {
		w.failf("job %d is still %v when decisions are old: %s", j.ID, j.Phase, j.Reason)
	}
	w.checkServing(true)
	m := w.decodeMap(w.mustDo(catalogGroup, &command.Get{Key: catalogKeys.MapKey()}))
	for s := range m.Shards(partition.Span{}) {
		r, ok := w.tables[s.Group].Find(s.Span.Start)
		if !ok || r.State != ownership.Serving || r.Version != s.Changed || !bytes.Equal(r.Span.End, s.Span.End) {
			w.failf("the map gives %v to %v, which has %v", s.Span, s.Group, r)
		}
	}
	w.feedReader.checkComplete()
	w.hub.checkFollowers()
	finalReader{w, m}.readEverything()
}

// checkHistories hands the histories to their checkers.
func (w *world) checkHistories(end check.Booked) {
	h := &w.history
	reports := map[string]*check.Report{
		"registers": register.Check(h.registers),
		"lists":     check.Lists(h.txns),
		"bank":      check.Bank(check.BankRules{Accounts: len(letters), Total: openingBalance * int64(len(letters))}, h.balances),
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

// finalReader reads everything once more when all is at rest, as part of the histories.
type finalReader struct {
	w *world
	m *partition.Map
}

// readEverything reads all that clients have worked on, and hands it to the checkers.
func (l finalReader) readEverything() {
	w := l.w
	h := &w.history
	for _, letter := range letters {
		l.readRegisters(letter)
		l.readCounters(letter)
		l.checkRoster(letter)
	}
	for i := range w.edgeKeys + 1 {
		l.readRegister(edgeKey(i))
	}
	h.txns = append(h.txns, l.readLists())
	h.balances, h.scans = append(h.balances, l.readBank()), append(h.scans, l.scanKeys())
	w.checkLeases(l.getValue)
	w.checkRounds(l.getValue)
	w.checkSaltedRows(l.getValue)
	w.checkIndex(l.getValue, l.listPrefix)
	w.checkSagas(l.m, l.getValue)
	l.recordCounter(splitCounter, w.sumAtRest(l.getValue))
	w.checkQueue(l.listPrefix, l.getValue(queueManifestKey))
	w.checkHistories(l.readBookings())
}

func (l finalReader) getValue(k string) []byte {
	p, err := l.w.findHost(l.m.Owner(positionOf(k)).Group)
	l.w.must(err, "the last reads")
	row, _, err := p.Group.Read(ctx, positionOf(k), nil)
	l.w.must(err, "the last reads")
	return row.Payload
}

func (l finalReader) evalCommand(k string, c command.Command) command.Reply {
	return l.w.mustDo(l.m.Owner(positionOf(k)).Group, c)
}

// readField reads the first field of a hash.
func (l finalReader) readField(k string) []byte {
	return l.evalCommand(k, &command.HGet{Key: positionOf(k), Field: hashFields[0]}).Bytes
}

// newCall is a call without a client, after all others.
func (l finalReader) newCall() check.Call {
	return check.Call{Client: -1, Invoke: l.w.nextTick(), Return: l.w.nextTick(), Status: check.OK}
}

func (l finalReader) readRegisters(letter string) {
	for i := range 2 {
		l.readRegister(makeKey(letter, "reg", i))
	}
	k := makeKey(letter, "hash", 0)
	l.recordRegister(k, l.w.checkWholeHash(k, l.evalCommand(k, &command.HGetAll{Key: positionOf(k)})))
}

func (l finalReader) readRegister(k string) {
	l.recordRegister(k, register.Value(decodeUint64(l.getValue(k))))
}

// recordRegister notes what a register holds.
func (l finalReader) recordRegister(k string, v register.Value) {
	l.w.history.registers = append(l.w.history.registers, register.Call{Call: l.newCall(), Key: k, Kind: register.Get, Got: v})
}

func (l finalReader) readCounters(letter string) {
	k := makeKey(letter, "cnt", 0)
	l.recordCounter(k, parseDecimal(l.getValue(k)))
	k = makeKey(letter, "hcnt", 0)
	l.recordCounter(k, parseDecimal(l.readField(k)))
}

// recordCounter notes what a counter holds.
func (l finalReader) recordCounter(k string, n int64) {
	counts := l.w.history.counts
	counts[k] = append(counts[k], check.Count{Call: l.newCall(), Told: true, Value: n})
}

// checkRoster compares one with its size.
func (l finalReader) checkRoster(letter string) {
	members := int64(0)
	for i := range 3 {
		if l.getValue(makeKey(letter, "ros", i)) != nil {
			members++
		}
	}
	if size := parseDecimal(l.getValue(rosterSizeKey(letter))); size != members {
		l.w.failf("at rest the roster of %s has %d members, and its size is %d", letter, members, size)
	}
}

func (l finalReader) readLists() (t check.Txn) {
	for _, letter := range letters {
		k := makeKey(letter, "list", 0)
		t.Ops = append(t.Ops, check.Read(k, decodeElements(l.getValue(k))...))
	}
	t.Call = l.newCall()
	return t
}

func (l finalReader) readBank() check.Balances {
	b := check.Balances{Call: l.newCall(), Of: map[string]int64{}}
	for _, letter := range letters {
		k := makeKey(letter, "bank", 0)
		if isHashAccount(k) {
			b.Of[k] = parseBalance(l.readField(k))
		} else {
			b.Of[k] = parseBalance(l.getValue(k))
		}
	}
	return b
}

func (l finalReader) scanKeys() check.Scan {
	s := check.Scan{Call: l.newCall()}
	for _, letter := range letters {
		for i := range 4 {
			if k := makeKey(letter, "scan", i); l.getValue(k) != nil {
				s.Keys = append(s.Keys, k)
			}
		}
	}
	return s
}

func (l finalReader) readBookings() check.Booked {
	b := check.Booked{Counter: parseDecimal(l.getValue(bookingsKey)), Owners: map[string]uint64{}}
	for _, letter := range letters {
		for i := range 20 {
			if k := makeKey(letter, "cab", i); l.getValue(k) != nil {
				b.Owners[k] = decodeUint64(l.getValue(k))
			}
		}
	}
	return b
}

// listPrefix are all keys with a prefix, with their values.
func (l finalReader) listPrefix(prefix string) map[string]string {
	found := map[string]string{}
	for _, piece := range protocol.SplitByGroup(l.m, dataKeyspace.PrefixSpan([]byte(prefix))) {
		r := l.w.mustDo(piece.Group, &command.Range{Start: piece.Span.Start, End: piece.Span.End, Limit: 10000})
		for _, item := range r.Items {
			k, _, err := dataKeyspace.Split(nil, item.Field)
			l.w.must(err, "a position")
			found[string(k)] = string(item.Value)
		}
	}
	return found
}
