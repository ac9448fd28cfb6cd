package sim

import (
	"bytes"
	"errors"
	"maps"
	"slices"

	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/testkit/check"
	"github.com/cleavekv/cleave/partition"
)

func positionsOf(keys ...string) (list []partition.Position) {
	for _, k := range keys {
		list = append(list, positionOf(k))
	}
	return list
}

// tx is an attempt at a transaction: what it has read, and what it is to write.
type tx struct {
	o      *op
	values map[string][]byte
	reads  []command.Read
	ranges []command.RangeRead
	writes []keyWrite
	// id is set if it locks first: then groups hold for it what it claims.
	id             txn.ID
	reservedGroups []partition.GroupID
}

// txnScript makes an attempt at a transaction: what it does, and what is noted when it
// has ended.
type txnScript func(x *tx) (body func(), end func(check.Call))

// triesBeforeReserve is how often a transaction fails before it locks first.
const triesBeforeReserve = 3

// runTxn attempts a transaction until it is committed, or its outcome is unknown. What it
// may touch is known before.
func (c *client) runTxn(claims []txn.ReservedSpan, tries int, d txnScript) {
	w := c.w
	if tries > w.tryLimit() {
		w.failf("client %d has tried %d times in vain", c.id, tries)
	}
	w.maxTries = max(w.maxTries, tries+1)
	x := &tx{values: map[string][]byte{}}
	body, end := d(x)
	x.o = c.startOp(func(at check.Call) {
		x.release()
		if x.id != (txn.ID{}) {
			w.addCount("transactions that locked first " + at.Status.String())
			if at.Status == check.Unknown && w.isUndisturbed() {
				w.failf("client %d has locked first, and waited in vain", c.id)
			}
		}
		end(at)
	})
	x.o.onRetry = func(own bool) {
		if !own {
			tries++
		}
		c.runTxn(claims, tries, d)
	}
	if tries < triesBeforeReserve {
		body()
		return
	}
	if w.isUndisturbed() {
		x.o.setTimeout(2 * txnTimeoutMS * millisecond) // it need not be patient for long
	}
	x.reserve(claims, body)
}

// keyWrite is a command for a key.
type keyWrite struct {
	key     string
	command func() command.Command
}

// readKeys reads keys one after the other and goes on then. That they belong to
// one moment is for the commit to find out.
func (x *tx) readKeys(keys []string, then func()) {
	if len(keys) == 0 {
		then()
		return
	}
	k := keys[0]
	visit := makeReadVisit(k)
	if isHashAccount(k) || x.id != (txn.ID{}) {
		// In its turn, behind those that have locked it before: then it does not
		// change any more.
		visit = x.o.c.w.makeAccountVisit(k)
	}
	x.o.sendVisit(positionOf(k), true, visit, func(r command.Reply) {
		x.values[k] = bytes.Clone(r.Bytes)
		x.reads = append(x.reads, command.Read{Key: positionOf(k), Version: r.Version})
		x.readKeys(keys[1:], then)
	})
}

// scanSpan reads the keys of a span, group by group, and goes on then.
func (x *tx) scanSpan(s partition.Span, keys *[]string, then func()) {
	piece := protocol.SplitByGroup(x.o.c.m, s)[0]
	x.o.sendVisit(piece.Span.Start, true, func(p protocol.GroupHost) (command.Reply, error) {
		return p.Group.Execute(ctx, group.Request{NoWait: true, Command: &command.Range{Start: piece.Span.Start, End: piece.Span.End, Limit: 10000}})
	}, func(r command.Reply) {
		if r.Err != nil {
			x.o.finish(check.Failed)
			return
		}
		// Of this reply: another copy of the visit may have seen something else.
		var digest command.Digest
		for _, item := range r.Items {
			k, _, err := dataKeyspace.Split(nil, item.Field)
			x.o.c.w.must(err, "a position in a scan")
			*keys = append(*keys, string(k))
			digest.Add(item.Field, item.Version)
		}
		x.ranges = append(x.ranges, command.RangeRead{Start: piece.Span.Start, End: piece.Span.End, Digest: digest})
		if bytes.Equal(piece.Span.End, s.End) {
			then()
			return
		}
		x.scanSpan(partition.Span{Start: piece.Span.End, End: s.End}, keys, then)
	})
}

// splitByParticipant divides the transaction by the map that the client knows.
func (x *tx) splitByParticipant() (parts []txn.Participant, groups []partition.GroupID) {
	m := x.o.c.m
	divided := protocol.NewParticipants(m, x.ranges)
	for _, r := range x.reads {
		t := divided.ParticipantAt(r.Key)
		t.Reads = append(t.Reads, r)
	}
	for _, wr := range x.writes {
		t := divided.ParticipantAt(positionOf(wr.key))
		t.Writes = append(t.Writes, wr.command())
	}
	parts = divided.Sorted()
	for _, t := range parts {
		if t.Span.Equal(m.Find(t.Span.Start).Span) {
			x.o.c.w.addCount("parts of one shard")
		} else {
			x.o.c.w.addCount("parts of several shards")
		}
		groups = append(groups, m.Owner(t.Span.Start).Group)
	}
	return parts, groups
}

// commit commits by whatever way is open: one command, one batch of several
// groups of a store, or two phases.
func (x *tx) commit() {
	if x.o.isOver {
		return
	}
	w := x.o.c.w
	parts, groups := x.splitByParticipant()
	together := !slices.ContainsFunc(groups, func(g partition.GroupID) bool { return w.homeDisk(g) != w.homeDisk(groups[0]) })
	x.o.attempt++ // reads that come late are of no use
	for _, wr := range x.writes {
		w.recordHeat(positionOf(wr.key), len(wr.key))
	}
	switch {
	case together && w.drawChance(600) && x.id == (txn.ID{}):
		w.addCount("transactions joint")
		x.commitJoint(parts, groups)
	default:
		w.addCount("transactions in two phases")
		w.startCommit(x, parts, groups[0])
	}
}

// commitJoint commits in one batch of one or several groups.
func (x *tx) commitJoint(parts []txn.Participant, groups []partition.GroupID) {
	w := x.o.c.w
	commits := map[partition.GroupID]*command.Commit{}
	for i, p := range parts {
		c := commits[groups[i]]
		if c == nil {
			c = &command.Commit{}
			commits[groups[i]] = c
		}
		c.Reads, c.Ranges = append(c.Reads, p.Reads...), append(c.Ranges, p.Ranges...)
		c.Writes.Commands = append(c.Writes.Commands, p.Writes...)
	}
	l := message{"joint", false}
	w.sendMessage(l, func() {
		var pieces []group.SubRequest
		for _, g := range slices.Sorted(maps.Keys(commits)) {
			p, err := w.findHost(g)
			if err != nil {
				return
			}
			pieces = append(pieces, group.SubRequest{Group: p.Group, Request: group.Request{NoWait: true, Command: commits[g]}})
		}
		replies, err := group.ExecuteJoint(ctx, pieces)
		d := w.homeDisk(groups[0])
		if w.isReplyLost(d, err) {
			return
		}
		if isDiskFull(err) {
			w.sendMessage(l, func() { x.o.finish(check.Failed) })
			return
		}
		w.must(err, "a joint batch")
		w.sendMessage(l, func() {
			for _, r := range replies {
				if r.Err != nil {
					w.maybeResolveLock(r.Err, 2)
					x.o.c.refreshMap()
					x.o.finishWith(r)
					return
				}
			}
			x.o.finish(check.OK)
		})
	})
}

// handleOutcome ends the transaction as its coordinator says.
func (x *tx) handleOutcome(a txn.Answer) {
	switch a.Outcome {
	case txn.Committed:
		x.o.finish(check.OK)
	case txn.Aborted:
		x.o.c.refreshMap()
		x.o.c.w.maybeResolveLock(a.Err, 2)
		x.o.cancelled = errors.Is(a.Err, txn.ErrCancelled)
		x.o.finish(check.Failed)
	}
}

// tryLimit is after how many failures a transaction has starved. In a calm world
// those that lock first commit then, with few exceptions: a key may expire under a hold,
// and a hold when its queue is long. Faults may take holds away, and a range that moves
// has none at its new owner.
func (w *world) tryLimit() int {
	if w.isUndisturbed() {
		return triesBeforeReserve + 3
	}
	return 10 * triesBeforeReserve
}

// isUndisturbed reports whether nothing takes a hold away.
func (w *world) isUndisturbed() bool {
	return w.cfg.Faults == 0 && !w.cfg.Jobs && w.cfg.Heat == "" && !w.isQuiescing
}

// reserve asks the groups for all that is claimed, in the order of their ids, and goes
// on when it has it.
func (x *tx) reserve(claims []txn.ReservedSpan, then func()) {
	w := x.o.c.w
	w.addCount("transactions that lock first")
	x.id, x.reservedGroups = w.newID(), nil
	byGroup := map[partition.GroupID][]txn.ReservedSpan{}
	for _, c := range claims {
		for _, p := range protocol.SplitByGroup(x.o.c.m, c.Span) {
			byGroup[p.Group] = append(byGroup[p.Group], txn.ReservedSpan{Span: p.Span, Write: c.Write})
		}
	}
	x.reserveNext(slices.Sorted(maps.Keys(byGroup)), byGroup, w.txnDeadlineMS(), func(wrong bool) {
		if wrong { // ranges have changed hands: all over again, under another name
			x.release()
			x.reserve(claims, then)
			return
		}
		then()
	})
}

// reserveNext asks the first of groups until it has given all, and goes on with the
// others.
func (x *tx) reserveNext(groups []partition.GroupID, claims map[partition.GroupID][]txn.ReservedSpan, deadlineMS int64, then func(wrong bool)) {
	if len(groups) == 0 {
		then(false)
		return
	}
	w, g := x.o.c.w, groups[0]
	if !slices.Contains(x.reservedGroups, g) {
		x.reservedGroups = append(x.reservedGroups, g)
	}
	x.o.attempt++
	attempt := x.o.attempt
	again := func() {
		if !x.o.isOver && x.o.attempt == attempt {
			x.reserveNext(groups, claims, deadlineMS, then)
		}
	}
	w.scheduleAfter(20*millisecond, again)
	c := func() command.Command { return &txn.Reserve{ID: x.id, Spans: claims[g], DeadlineMS: deadlineMS} }
	w.sendCommand(message{"holding", true}, g, c, func(r command.Reply) {
		if x.o.isOver || x.o.attempt != attempt {
			return
		}
		switch {
		case txn.IsReserved(r):
			x.reserveNext(groups[1:], claims, deadlineMS, then)
		case errors.Is(r.Err, ownership.ErrWrongGroup):
			x.o.c.refreshMap()
			w.scheduleAfter(w.nextBackoff(x.o), func() {
				if !x.o.isOver && x.o.attempt == attempt {
					then(true)
				}
			})
		case errors.Is(r.Err, txn.ErrDeadline):
			x.o.finish(check.Failed)
		default:
			w.scheduleAfter(w.nextBackoff(x.o), again)
		}
	})
}

// release leaves all queues. If that is lost, the others wait for the deadline.
func (x *tx) release() {
	w, id := x.o.c.w, x.id
	for _, g := range x.reservedGroups {
		for range 2 {
			w.sendCommand(message{"holding", true}, g, func() command.Command { return &txn.Release{ID: id} }, func(command.Reply) {})
		}
	}
	x.reservedGroups = nil
}

// txnDeadlineMS is that of a transaction that begins now, by all clocks.
func (w *world) txnDeadlineMS() int64 {
	deadline := w.wallMS()
	for _, g := range w.groups {
		if p, err := w.findHost(g); err == nil {
			deadline = max(deadline, p.Group.NowMS())
		}
	}
	return deadline + txnTimeoutMS
}
