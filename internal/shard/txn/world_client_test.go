package txn

import (
	"bytes"
	"fmt"
	"maps"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/partition"
)

// modelTxn is what a transaction of a client has seen, and what it does to the model.
type modelTxn struct {
	id     ID
	keys   map[string]string // values by key, "" for absent
	ranges []rangeSeen
	writes []func(model map[string]string)
}

type rangeSeen struct {
	span partition.Span
	rows map[string]string
}

// applyToModel is the instant of the decision: all that was read is still so, and all
// that is written is written.
func (x *modelTxn) applyToModel(w *world) {
	for key, value := range x.keys {
		if w.model[key] != value {
			w.fatalf("%v has read %q of %s, which is %q when it is committed", x.id, value, key, w.model[key])
		}
	}
	for _, r := range x.ranges {
		if now := w.modelRange(r.span); !maps.Equal(now, r.rows) {
			w.fatalf("%v has read %v in %v, where there is %v when it is committed", x.id, r.rows, r.span, now)
		}
	}
	for _, write := range x.writes {
		write(w.model)
	}
}

func (w *world) modelRange(s partition.Span) map[string]string {
	rows := map[string]string{}
	for key, value := range w.model {
		if s.Contains(positionOf(key)) {
			rows[key] = value
		}
	}
	return rows
}

// readSpan returns the keys of a span that a reader has.
func (w *world) readSpan(r command.Reader, s partition.Span, nowMS int64) map[string]string {
	env := command.NewEnv(r)
	env.Begin(effect.Header{ClockMS: nowMS}, 1)
	reply := env.Do(&command.Range{Start: s.Start, End: s.End, Limit: 1000})
	if reply.Err != nil {
		w.fatalf("%v", reply.Err)
	}
	rows := map[string]string{}
	for _, item := range reply.Items {
		key, _, err := space.Split(nil, item.Field)
		if err != nil {
			w.fatalf("%v", err)
		}
		rows[string(key)] = string(item.Value)
	}
	return rows
}

// newResolvedReader returns what a group has in a span, with the intents applied that their
// deciders have committed.
func (w *world) newResolvedReader(p *peer, s partition.Span) *ResolvedReader {
	t, err := NewResolvedReader(p.store, s, func(id ID) bool {
		locks := p.locks.ListTxn(id)
		if len(locks) == 0 {
			w.fatalf("%v has intents of %v and no locks", p.id, id)
		}
		decider := w.peers[locks[0].CoordinatorGroup-1]
		inquire := &Inquire{ID: id, CoordinatorGroup: decider.id, DeadlineMS: locks[0].DeadlineMS}
		committed := ParseOutcome(decider.evalOne(inquire)) == Committed
		if committed {
			w.counts.Add("reads through intents", 1)
		}
		return committed
	})
	if err != nil {
		w.fatalf("%v", err)
	}
	return t
}

// beginTxn lets a client read what it needs for a transaction, and later commit.
func (w *world) beginTxn() {
	x := &modelTxn{id: w.newID(), keys: map[string]string{}}
	plan := Plan{ID: x.id, DeadlineMS: patienceMS}
	for _, p := range w.peers {
		plan.DeadlineMS = max(plan.DeadlineMS, p.clock+patienceMS)
	}
	areas := w.mergedShards(50)
	w.counts.Add("shards that share a part", len(w.shards)-len(areas))
	first := w.rng.IntN(len(areas))
	for i, s := range areas {
		if i != first && !w.chance(25) {
			continue
		}
		part := Participant{Span: s.span}
		if !w.fillParticipant(&part, x, s.owner) {
			continue
		}
		if plan.Participants = append(plan.Participants, part); len(plan.Participants) == 1 {
			plan.CoordinatorGroup = s.owner.id
		}
	}
	if len(plan.Participants) == 0 {
		return
	}
	w.counts.Add(fmt.Sprintf("transactions of %d parts", min(len(plan.Participants), 4)), 1)
	w.sendFunc(func() {
		r := &run{id: x.id, tx: x}
		for _, other := range w.runs {
			if other.id == x.id {
				return // a client commits once
			}
		}
		var effects []Effect
		r.c, effects = NewCoordinator(plan)
		w.runs = append(w.runs, r)
		r.runEffects(w, effects)
	})
}

// fillParticipant makes a part up: it reads and writes keys of its span at random.
func (w *world) fillParticipant(part *Participant, x *modelTxn, p *peer) bool {
	state := w.newResolvedReader(p, part.Span)
	if w.chance(w.mood.scan) {
		rows := w.readSpan(state, part.Span, p.clock)
		digest, err := command.DigestRange(state, part.Span.Start, part.Span.End, command.AliveAt(p.clock))
		if err != nil {
			w.fatalf("%v", err)
		}
		x.ranges = append(x.ranges, rangeSeen{part.Span, rows})
		part.Ranges = append(part.Ranges, command.RangeRead{Start: part.Span.Start, End: part.Span.End, Digest: digest})
	}
	some := len(part.Ranges) > 0
	for _, key := range allKeys {
		if !part.Span.Contains(positionOf(key)) {
			continue
		}
		if w.chance(20) {
			w.readKey(part, x, state, key)
			some = true
		}
		if w.chance(25) {
			w.writeKey(part, x, key)
			some = true
		}
	}
	return some
}

func (w *world) readKey(part *Participant, x *modelTxn, state command.Reader, key string) {
	value, ok, err := state.Get(effect.Rows.AppendKey(nil, positionOf(key)), nil)
	if err != nil {
		w.fatalf("%v", err)
	}
	read := command.Read{Key: positionOf(key)}
	x.keys[key] = ""
	if ok {
		row, err := command.DecodeRow(value)
		if err != nil {
			w.fatalf("%v", err)
		}
		read.Version = row.Version
		x.keys[key] = string(row.Payload)
	}
	part.Reads = append(part.Reads, read)
}

// kindWriteKey adds a write to a part, of whose result some depend on what is there.
func (w *world) writeKey(part *Participant, x *modelTxn, key string) {
	w.serial++
	value := fmt.Sprintf("v%d", w.serial)
	var c command.Command
	var effect func(map[string]string)
	switch w.rng.IntN(5) {
	case 0:
		c = &command.Delete{Keys: []partition.Position{positionOf(key)}}
		effect = func(m map[string]string) { delete(m, key) }
	case 1:
		c = &command.Append{Key: positionOf(key), Suffix: []byte(value)}
		effect = func(m map[string]string) { m[key] += value }
	case 2:
		c = &command.Set{Key: positionOf(key), Value: []byte(value), Condition: command.IfAbsent}
		effect = func(m map[string]string) {
			if _, there := m[key]; !there {
				m[key] = value
			}
		}
	default:
		c = &command.Set{Key: positionOf(key), Value: []byte(value)}
		effect = func(m map[string]string) { m[key] = value }
	}
	part.Writes = append(part.Writes, c)
	x.writes = append(x.writes, effect)
}

// plainWrite is a command outside of any transaction. It waits for locks, which
// here is to give up.
func (w *world) plainWrite() {
	key := pickOne(w, allKeys)
	p := w.shardOf(positionOf(key)).owner
	if p.locks.FindKeyConflict(ID{}, positionOf(key), true) != nil {
		w.counts.Add("plain writes that meet locks", 1)
		return
	}
	if w.chance(50) {
		delete(w.model, key)
		p.evalOne(&command.Delete{Keys: []partition.Position{positionOf(key)}})
		return
	}
	w.serial++
	w.model[key] = fmt.Sprintf("w%d", w.serial)
	p.evalOne(&command.Set{Key: positionOf(key), Value: []byte(w.model[key])})
}

// plainRead sees what the model has at this instant.
func (w *world) plainRead() {
	if w.chance(20) {
		w.plainScan()
		return
	}
	key := pickOne(w, allKeys)
	p := w.shardOf(positionOf(key)).owner
	if got := w.readSpan(w.newResolvedReader(p, KeySpan(positionOf(key))), KeySpan(positionOf(key)), p.clock)[key]; got != w.model[key] {
		w.fatalf("%s reads %q, it is %q", key, got, w.model[key])
	}
}

// plainScan is plainRead of a shard.
func (w *world) plainScan() {
	s := pickOne(w, w.shards)
	if got, want := w.readSpan(w.newResolvedReader(s.owner, s.span), s.span, s.owner.clock), w.modelRange(s.span); !maps.Equal(got, want) {
		w.fatalf("%v reads %v, it is %v", s.span, got, want)
	}
}

// moveShard gives a shard to another group.
func (w *world) moveShard() { w.handOver(&w.shards[w.rng.IntN(len(w.shards))], pickOne(w, w.peers)) }

// handOver lets all records of a shard go to another group with it.
func (w *world) handOver(s *shard, to *peer) {
	from := s.owner
	if from == to {
		return
	}
	w.counts.Add("moves", 1)
	for _, end := range []partition.Position{s.span.Start, s.span.End} {
		w.cutLocks(from, end)
	}
	for _, t := range []effect.Table{effect.Rows, effect.Intents, effect.Marks, effect.Expiry, effect.Orphans} {
		first, last := t.SpanBetween(s.span.Start, s.span.End)
		_ = from.store.Scan(first, last, false, func(key, value []byte) bool {
			if t == effect.Intents {
				w.counts.Add("locks that moved", 1)
			}
			to.store.Apply(effect.Op{Key: bytes.Clone(key), Value: bytes.Clone(value)})
			from.store.Apply(effect.Op{Key: bytes.Clone(key), Delete: true})
			return true
		})
	}
	for _, lock := range from.locks.ListIn(s.span) {
		from.locks.Remove(lock.Txn, lock.Start, lock.Range)
	}
	if err := to.locks.Load(to.store, s.span, nil); err != nil {
		w.fatalf("%v", err)
	}
	to.clock, to.next = max(to.clock, from.clock), max(to.next, from.next)
	s.owner = to
	w.assignOwners()
}

// cutLocks divides range locks of a group at a boundary.
func (w *world) cutLocks(p *peer, at partition.Position) {
	if len(at) > 0 {
		if reply := p.evalOne(lockCutter{p.locks, at}); reply.Err != nil {
			w.fatalf("%v", reply.Err)
		}
	}
}

type lockCutter struct {
	locks *Locks
	at    partition.Position
}

func (c lockCutter) Eval(e *command.Env) command.Reply {
	CutRangeLocks(e, c.locks, c.at)
	return command.Reply{Kind: command.OK}
}

// splitShard divides a shard, in its group.
func (w *world) splitShard() {
	i := w.rng.IntN(len(w.shards))
	s := w.shards[i]
	boundary := positionOf(pickOne(w, allKeys))
	boundary = boundary[:len(boundary)-w.rng.IntN(2)*2] // of a key, or of a prefix
	if !s.span.Contains(boundary) || bytes.Equal(boundary, s.span.Start) || len(w.shards) > 6 {
		return
	}
	right := s
	right.span.Start = boundary
	w.shards[i].span.End = boundary
	w.shards = append(w.shards[:i+1], append([]shard{right}, w.shards[i+1:]...)...)
	w.assignOwners()
	w.counts.Add("splits", 1)
	if w.chance(50) {
		w.handOver(&w.shards[i+w.rng.IntN(2)], pickOne(w, w.peers))
	}
}

// mergeShards joins neighbours, after they have come to one group.
func (w *world) mergeShards() {
	i := w.rng.IntN(len(w.shards))
	if i+1 >= len(w.shards) || len(w.shards) < 4 {
		return
	}
	w.handOver(&w.shards[i+1], w.shards[i].owner)
	w.shards[i].span.End = w.shards[i+1].span.End
	w.shards = append(w.shards[:i+1], w.shards[i+2:]...)
	w.assignOwners()
	w.counts.Add("merges", 1)
}
