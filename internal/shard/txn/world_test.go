package txn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/testkit/tally"
	"github.com/cleavekv/cleave/partition"
)

func TestWhatIsDecidedHappensEverywhereAndNothingElseDoes(t *testing.T) {
	first, n := tally.SeedRange(t, 400, 100)
	counts := new(tally.Counts)
	for seed := first; seed < first+uint64(n); seed++ {
		w := newWorld(t, seed, counts)
		w.runEvents(600)
		w.settleFaults()
	}
	counts.Add("worlds", n)
	if n > 1 {
		counts.Log(t, "commits", "aborts", "aborts without a record", "conflicts", "met locks", "too late", "wrong shards", "duplicates", "losses",
			"refused batches", "batches of several", "restarts", "moves", "locks that moved", "splits", "merges", "clock jumps", "inquiries",
			"resumed decisions", "reads through intents", "plain writes that meet locks", "shards that share a part", "crashed while preparing",
			"crashed while deciding", "crashed while undoing", "crashed while resolving", "crashed while collecting")
	}
}

// patienceMS is how long after its reads the deadline of a transaction is.
const patienceMS = 6000

// world is groups in memory, clients, and everything that goes wrong. It is
// played one event at a time. What the groups hold together is compared with a
// model: a map in which a transaction happens at the instant of its decision.
type world struct {
	t      *testing.T
	seed   uint64
	rng    *rand.Rand
	counts *tally.Counts
	peers  []*peer
	shards []shard
	// net has what is on its way, each to be delivered never, once or often.
	net []message
	// late are duplicates that are delivered long after their transactions are over.
	late []message
	runs []*run
	// model is what each key holds. No value is written twice.
	model    map[string]string
	outcomes map[ID]Outcome // of transactions whose decision was made
	answers  map[ID]Outcome // what the callers got
	serial   uint64
	healing  bool
	mood     mood
}

type shard struct {
	span  partition.Span
	owner *peer
}

// run is a coordinator and what its transaction means.
type run struct {
	c       *Coordinator
	tx      *modelTxn
	id      ID
	crashed bool
}

var allKeys = []string{"a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2", "c3", "d1", "d2", "d3"}

func newWorld(t *testing.T, seed uint64, counts *tally.Counts) *world {
	w := &world{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), counts: counts,
		mood: moods[seed%uint64(len(moods))], model: map[string]string{}, outcomes: map[ID]Outcome{}, answers: map[ID]Outcome{},
	}
	for i := range 3 {
		w.peers = append(w.peers, newPeer(partition.GroupID(i+1)))
	}
	ends := []partition.Position{nil, positionOf("b"), positionOf("c"), positionOf("d"), nil}
	for i := range 4 {
		w.shards = append(w.shards, shard{partition.Span{Start: ends[i], End: ends[i+1]}, w.peers[i%3]})
	}
	w.assignOwners()
	return w
}

// assignOwners makes the groups' own tables match the shards.
func (w *world) assignOwners() {
	for _, p := range w.peers {
		p.owned = nil
		for _, s := range w.shards {
			if s.owner == p {
				p.owned = append(p.owned, s.span)
			}
		}
	}
}

func (w *world) fatalf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nreplay with CLEAVE_SEED=%d go test -run %s ./internal/shard/txn", fmt.Sprintf(format, args...), w.seed, w.t.Name())
}

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

func pickOne[T any](w *world, list []T) T { return list[w.rng.IntN(len(list))] }

func (w *world) shardOf(p partition.Position) *shard {
	for i := range w.shards {
		if w.shards[i].span.Contains(p) {
			return &w.shards[i]
		}
	}
	panic("the shards do not tile the space")
}

// mergedShards returns the shards with some of those joined that are side by side in one
// group.
func (w *world) mergedShards(percent int) (list []shard) {
	for _, s := range w.shards {
		if n := len(list) - 1; n >= 0 && list[n].owner == s.owner && w.chance(percent) {
			list[n].span.End = s.span.End
			continue
		}
		list = append(list, s)
	}
	return list
}

// mood is how often things happen: a world has one of them, as what breaks one
// rule takes other faults than what breaks another. Numbers are weights of
// events, and percentages.
type mood struct {
	begin, deliver, write, read, timeout, crash, tick, restart, move, split, merge, housekeep int

	lose, repeat, delay, late, jump, scan int
}

var moods = []mood{
	{ // nothing in particular
		begin: 5, deliver: 57, write: 5, read: 10, timeout: 7, crash: 2, tick: 4, restart: 1, move: 2, split: 2, merge: 1, housekeep: 4,
		lose: 8, repeat: 12, delay: 5, late: 5, jump: 20, scan: 15,
	},
	{ // shards that do not stay where they are
		begin: 6, deliver: 45, write: 14, read: 8, timeout: 6, crash: 1, tick: 2, move: 5, split: 8, merge: 6, housekeep: 1,
		lose: 3, repeat: 5, delay: 12, late: 8, jump: 5, scan: 50,
	},
	{ // messages that are delivered long after their transactions are over
		begin: 6, deliver: 60, write: 5, read: 8, timeout: 10, crash: 1, tick: 5, restart: 1, move: 1, housekeep: 3,
		lose: 3, repeat: 40, delay: 12, late: 20, jump: 10, scan: 5,
	},
	{ // clocks that run ahead while coordinators die
		begin: 6, deliver: 55, write: 5, read: 10, timeout: 6, crash: 6, tick: 8, restart: 2, move: 1, housekeep: 6,
		lose: 5, repeat: 25, delay: 10, late: 15, jump: 40, scan: 5,
	},
}

// runEvents lets events happen at random.
func (w *world) runEvents(events int) {
	m := &w.mood
	all := []struct {
		weight int
		happen func()
	}{
		{m.begin, w.beginTxn}, {m.deliver, w.deliverMessage}, {m.write, w.plainWrite}, {m.read, w.plainRead}, {m.timeout, w.timeoutRun},
		{m.crash, w.crashRun}, {m.tick, w.advanceClock}, {m.restart, w.restartPeer}, {m.move, w.moveShard}, {m.split, w.splitShard}, {m.merge, w.mergeShards},
		{m.housekeep, func() { w.housekeep(pickOne(w, w.peers)) }},
	}
	sum := 0
	for _, x := range all {
		sum += x.weight
	}
	for range events {
		n := w.rng.IntN(sum)
		for _, x := range all {
			if n -= x.weight; n < 0 {
				x.happen()
				break
			}
		}
	}
}

func (w *world) restartPeer() {
	pickOne(w, w.peers).reopen()
	w.counts.Add("restarts", 1)
}

// message is something on its way: a command for a group, or anything else.
type message struct {
	to     *peer
	make   func() command.Command
	answer func(command.Reply)
	other  func()
	// decides is whose Decide to commit it is.
	decides *run
}

// takeMessage takes something from the net. Sometimes it stays there too, and comes
// again.
func (w *world) takeMessage(i int) message {
	m := w.net[i]
	if w.chance(w.mood.repeat) && !w.healing {
		w.counts.Add("duplicates", 1)
		if w.chance(50) {
			return m
		}
		w.late = append(w.late, m)
	}
	w.net[i] = w.net[len(w.net)-1]
	w.net = w.net[:len(w.net)-1]
	return m
}

// deliverMessage delivers a message to its destination, unless it is lost. Commands for one
// group may come together and make one batch.
func (w *world) deliverMessage() {
	if n := len(w.late); n > 0 && w.chance(w.mood.late) {
		i := w.rng.IntN(n)
		w.net = append(w.net, w.late[i])
		w.late = slices.Delete(w.late, i, i+1)
	}
	if len(w.net) == 0 {
		return
	}
	m := w.takeMessage(w.rng.IntN(len(w.net)))
	if w.chance(w.mood.lose) && !w.healing {
		w.counts.Add("losses", 1)
		return
	}
	if w.chance(w.mood.delay) && !w.healing {
		w.counts.Add("delays", 1)
		w.late = append(w.late, m)
		return
	}
	if m.to == nil {
		m.other()
		return
	}
	batch := []message{m}
	for i := 0; i < len(w.net) && len(batch) < 4; i++ {
		if w.net[i].to == m.to && w.chance(30) {
			batch = append(batch, w.takeMessage(i))
		}
	}
	w.evalMessages(m.to, batch)
}

// evalMessages lets a group evaluate a batch, and sends the replies back.
func (w *world) evalMessages(p *peer, batch []message) {
	var commands []command.Command
	for _, m := range batch {
		commands = append(commands, m.make())
	}
	refused := w.chance(3) && !w.healing
	replies := p.evalBatch(refused, commands...)
	if refused {
		w.counts.Add("refused batches", 1)
		return // the sender does not learn why there is no reply
	}
	for i, reply := range replies {
		w.checkReply(commands[i], reply)
		answer := batch[i].answer
		w.sendFunc(func() { answer(reply) })
	}
	if len(batch) > 1 {
		w.counts.Add("batches of several", 1)
	}
}

func (w *world) sendFunc(other func()) { w.net = append(w.net, message{other: other}) }

// sendCommand sends a command to a group. It is made anew for each time it comes.
func (w *world) sendCommand(p *peer, make func() command.Command, answer func(command.Reply)) {
	w.net = append(w.net, message{to: p, make: make, answer: answer})
}

// checkReply is called at the instant at which a command has taken effect.
func (w *world) checkReply(c command.Command, reply command.Reply) {
	var locked *LockedError
	switch {
	case errors.As(reply.Err, &locked):
		w.counts.Add("met locks", 1)
	case errors.Is(reply.Err, command.ErrConflict):
		w.counts.Add("conflicts", 1)
	case errors.Is(reply.Err, ErrDeadline), errors.Is(reply.Err, ErrFinished):
		w.counts.Add("too late", 1)
	case errors.Is(reply.Err, ErrForgotten):
		w.counts.Add("forgotten", 1)
	case errors.Is(reply.Err, errWrongShard):
		w.counts.Add("wrong shards", 1)
	case reply.Err != nil:
		w.fatalf("%T: %v", c, reply.Err)
	}
	d, ok := c.(*Decide)
	if !ok || reply.Err != nil {
		return
	}
	o := ParseOutcome(reply)
	was, decided := w.outcomes[d.ID]
	if decided && was != o {
		w.fatalf("the decision about %v changed from %v to %v", d.ID, was, o)
	}
	w.outcomes[d.ID] = o
	if o == Committed && !decided {
		w.counts.Add("commits", 1)
		for _, r := range w.runs {
			if r.id == d.ID && r.tx != nil {
				r.tx.applyToModel(w)
				return
			}
		}
	}
}

// runEffects does what a coordinator wants.
func (r *run) runEffects(w *world, effects []Effect) {
	step := func(ev Event) {
		if !r.crashed {
			r.runEffects(w, r.c.Step(ev))
		}
	}
	for _, x := range effects {
		switch x := x.(type) {
		case SendPrepare:
			p := w.shardOf(r.c.plan.Participants[x.Participant].Span.Start).owner
			w.sendCommand(p, func() command.Command { return r.c.MakePrepare(x) }, func(reply command.Reply) {
				if reply.Err != nil {
					step(Refused{x.Participant, reply.Err})
				} else {
					step(Prepared(x))
				}
			})
		case SendDecide:
			w.sendCommand(w.peers[r.c.plan.CoordinatorGroup-1], func() command.Command { return r.c.MakeDecide(x) }, func(reply command.Reply) {
				if reply.Err != nil {
					step(DecideRefused{Err: reply.Err, NoneInFlight: w.isNoneInFlight(r)})
				} else {
					step(Decided{ParseOutcome(reply)})
				}
			})
			if x.Commit {
				w.net[len(w.net)-1].decides = r
			}
		case SendResolve:
			for _, s := range w.mergedShards(100) {
				if !s.span.Overlaps(x.Span) {
					continue
				}
				piece := s.span.Intersect(x.Span)
				w.sendCommand(s.owner, func() command.Command { return r.c.MakeResolve(x, piece) }, func(reply command.Reply) {
					if reply.Err == nil {
						step(Resolved{piece})
					}
				})
			}
		case SendCollect:
			w.sendCommand(w.peers[r.c.plan.CoordinatorGroup-1], func() command.Command { return r.c.MakeCollect() }, func(reply command.Reply) {
				if reply.Err == nil {
					step(Collected{})
				}
			})
		case Answer:
			w.recordAnswer(r, x)
		}
	}
}

// isNoneInFlight reports whether no Decide of a run can commit any more, nor has.
func (w *world) isNoneInFlight(r *run) bool {
	mine := func(m message) bool { return m.decides == r }
	none := w.outcomes[r.id] != Committed && !slices.ContainsFunc(w.net, mine) && !slices.ContainsFunc(w.late, mine)
	if none && r.c.State() == Deciding {
		w.counts.Add("aborts without a record", 1)
	}
	return none
}

func (w *world) recordAnswer(r *run, a Answer) {
	if _, twice := w.answers[r.id]; twice {
		w.fatalf("%v is answered twice", r.id)
	}
	w.answers[r.id] = a.Outcome
	if a.Outcome == Committed && w.outcomes[r.id] != Committed {
		w.fatalf("the caller of %v hears committed, its fate is %v", r.id, w.outcomes[r.id])
	}
	if a.Outcome == Aborted {
		w.counts.Add("aborts", 1)
	}
}

func (w *world) timeoutRun() {
	if len(w.runs) == 0 {
		return
	}
	r := pickOne(w, w.runs[max(0, len(w.runs)-12):]) // older ones are done
	if r.crashed {
		return
	}
	if w.chance(10) && !w.healing {
		r.runEffects(w, r.c.Step(Cancel{NoneInFlight: w.isNoneInFlight(r)}))
		return
	}
	r.runEffects(w, r.c.Step(Timeout{}))
}

func (w *world) crashRun() {
	if len(w.runs) == 0 {
		return
	}
	r := pickOne(w, w.runs[max(0, len(w.runs)-12):])
	if !r.crashed && r.c.State() != Done {
		w.counts.Add("crashed while "+r.c.State().String(), 1)
		r.crashed = true
	}
}

// advanceClock lets time pass, sometimes a lot.
func (w *world) advanceClock() {
	p := pickOne(w, w.peers)
	if w.chance(w.mood.jump) {
		p.clock += 2*patienceMS + int64(w.rng.IntN(2))*DecisionKeepMS
		w.counts.Add("clock jumps", 1)
	}
	p.clock += int64(w.rng.IntN(500))
}

// housekeep is what a group does for itself now and then.
func (w *world) housekeep(p *peer) {
	for _, lock := range p.locks.ListOverdue(p.clock) {
		lock := *lock
		inquire := func() command.Command {
			return &Inquire{ID: lock.Txn, CoordinatorGroup: lock.CoordinatorGroup, DeadlineMS: lock.DeadlineMS}
		}
		w.sendCommand(w.peers[lock.CoordinatorGroup-1], inquire, func(reply command.Reply) {
			o := ParseOutcome(reply)
			if !o.isFinal() {
				return
			}
			w.counts.Add("inquiries", 1)
			s := w.shardOf(lock.Start)
			w.sendCommand(s.owner, func() command.Command {
				return &Resolve{ID: lock.Txn, Span: s.span, Commit: o == Committed, DeadlineMS: lock.DeadlineMS}
			}, func(command.Reply) {})
		})
	}
	err := ScanDecisions(p.store, p.id, func(d Decision) bool {
		if len(d.Spans) > 0 && (w.healing || w.chance(20)) {
			r := &run{id: d.ID}
			var effects []Effect
			r.c, effects = ResumeCoordinator(d, p.id)
			w.runs = append(w.runs, r)
			r.runEffects(w, effects)
			w.counts.Add("resumed decisions", 1)
		}
		return true
	})
	if err != nil {
		w.fatalf("%v", err)
	}
	w.checkDecisionsKept(p)
	w.deleteObsolete(p)
	if !p.hasConsistentLocks() {
		w.fatalf("the locks of %v are not those of its records", p.id)
	}
}

// checkDecisionsKept checks that as long as a lock of a committed transaction is there, so is
// the decision.
func (w *world) checkDecisionsKept(p *peer) {
	for _, lock := range p.locks.ListAll() {
		if w.outcomes[lock.Txn] != Committed {
			continue
		}
		if _, there, err := LookupDecision(w.peers[lock.CoordinatorGroup-1].store, lock.CoordinatorGroup, lock.Txn); err != nil || !there {
			w.fatalf("%v has a lock of %v on %v, whose decision is forgotten: %v", p.id, lock.Txn, lock.Span(), err)
		}
	}
}

// deleteObsolete lets a group forget, a few rows at a time.
func (w *world) deleteObsolete(p *peer) {
	for i := range len(p.owned) + 1 {
		for after, more := []byte(nil), true; more; {
			var c command.Command = &deleteDecisions{after: after, limit: 3}
			if i < len(p.owned) {
				c = &deleteMarks{span: p.owned[i], after: after, limit: 3}
			}
			reply := p.evalOne(c)
			if reply.Err != nil {
				w.fatalf("%v", reply.Err)
			}
			after, more = reply.Bytes, reply.More
		}
	}
}

func (w *world) newID() (id ID) {
	w.serial++
	binary.BigEndian.PutUint64(id[8:], w.serial)
	return id
}

// settleFaults lets everything come to rest: no more faults, time passes, and groups do their
// housekeeping.
func (w *world) settleFaults() {
	w.healing = true
	w.net = append(w.net, w.late...)
	w.late = nil
	for _, p := range w.peers { // the slowest clock catches up
		for _, other := range w.peers {
			p.clock = max(p.clock, other.clock)
		}
	}
	for range 12 {
		for n := 0; len(w.net) > 0; n++ {
			if w.deliverMessage(); n > 100_000 {
				w.fatalf("the net does not run dry")
			}
		}
		for _, p := range w.peers {
			p.clock += patienceMS + DecisionKeepMS
			w.housekeep(p)
		}
	}
	w.checkFinalState()
}

// checkFinalState checks a world in which nothing is left to do.
func (w *world) checkFinalState() {
	rows := map[string]string{}
	for _, p := range w.peers {
		if n := p.locks.Len(); n > 0 {
			w.fatalf("%v has %d locks left, the first %+v", p.id, n, *p.locks.ListAll()[0])
		}
		for _, t := range []effect.Table{effect.Intents, effect.Marks, effect.State} {
			if n := p.store.Count(t); n > 0 {
				w.fatalf("%v has %d rows of table %d left", p.id, n, t)
			}
		}
		for _, s := range p.owned {
			maps.Copy(rows, w.readSpan(p.store, s, p.clock))
		}
	}
	if !maps.Equal(rows, w.model) {
		w.fatalf("the groups hold %v\nthe decisions make %v", rows, w.model)
	}
	for _, id := range slices.SortedFunc(maps.Keys(w.answers), func(a, b ID) int { return slices.Compare(a[:], b[:]) }) {
		if heard := w.answers[id]; heard == Aborted && w.outcomes[id] == Committed {
			w.fatalf("the caller of %v heard aborted, but it is committed", id)
		}
	}
}
