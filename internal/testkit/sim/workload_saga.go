package sim

import (
	"encoding/json"
	"fmt"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/testkit/check"
	"github.com/cleavekv/cleave/partition"
	"github.com/cleavekv/cleave/saga"
)

// Sagas are driven by clients, which decide by saga.Next, Wanted and Judge as a runner
// does and keep the record as saga/journal does: in a key, with the effect of an atomic
// step in one transaction. They die between any two of their steps; another one takes
// over, also from one that only stands still. An effect is an element of a list in the
// shard of its step, so that doing something twice, or not undoing it, leaves a trace.

// sagaRun is a saga of a world.
type sagaRun struct {
	number      uint64
	plan        []saga.Planned
	stepLetters []string // the letter of each step
	// refusedStep is the step whose Do is refused whenever it is asked for, or -1.
	refusedStep int
	timeoutMS   int64 // ms after its start, or 0
	cancelled   bool  // a client got the reply that it is taken back
}

func (s *sagaRun) recordKey() string { return fmt.Sprintf("%s/saga%d", s.stepLetters[0], s.number) }
func (s *sagaRun) markKey(step int) string {
	return fmt.Sprintf("%s/mark%d-%d", s.stepLetters[step], s.number, step)
}
func effectsKey(letter string) string { return makeKey(letter, "deed", 0) }

// effectElement is an effect as an element of a list.
func (s *sagaRun) effectElement(step int, undo bool) uint64 {
	n := s.number<<8 | uint64(step)<<1
	if undo {
		n |= 1
	}
	return n
}

var sagaRetry = saga.Retry{Attempts: 3, First: 1e6, Max: 4e6}

func encodeRecord(r saga.Record) []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return text
}

func (w *world) decodeRecord(text []byte) (r saga.Record) {
	w.must(json.Unmarshal(text, &r), "a record of a saga")
	w.must(r.Validate(), "a record of a saga")
	return r
}

// runSagaOp begins a saga, cancels one, or goes on with one that others may be at too.
func (c *client) runSagaOp() {
	w := c.w
	known := w.history.sagas
	switch n := w.rng.IntN(10); {
	case len(known) == 0 || n < 4:
		c.beginSaga()
	case n < 5:
		c.cancelSaga(pickOne(w, known))
	default:
		(&sagaRunner{c: c, s: pickOne(w, known)}).takeOver()
	}
}

func (c *client) beginSaga() {
	w := c.w
	w.serial++
	s := &sagaRun{number: w.serial, refusedStep: -1}
	n := 1 + w.rng.IntN(4)
	for i := range n {
		s.plan = append(s.plan, saga.Planned{Name: fmt.Sprint(i), Atomic: w.drawChance(500)})
		s.stepLetters = append(s.stepLetters, pickOne(w, letters))
	}
	if w.drawChance(400) {
		s.refusedStep = w.rng.IntN(n)
	}
	if w.drawChance(200) {
		s.timeoutMS = 1 + w.rng.Int64N(200)
	}
	w.history.sagas = append(w.history.sagas, s)
	r := &sagaRunner{c: c, s: s, owner: fmt.Sprint(w.serial)}
	k := s.recordKey()
	c.runTxn(spansToReserve(true, k), 0, func(x *tx) (func(), func(check.Call)) {
		return func() {
				x.readKeys([]string{k}, func() {
					if len(x.values[k]) > 0 { // an attempt that failed as far as any client knew
						x.o.finish(check.OK)
						return
					}
					deadline := int64(0)
					if s.timeoutMS > 0 {
						deadline = w.wallMS() + s.timeoutMS
					}
					r.record = saga.Begin(fmt.Sprint(s.number), "sim", s.plan, nil, r.owner, w.wallMS(), deadline)
					x.writeRecord(k, r.record)
					x.commit()
				})
			}, func(at check.Call) {
				if at.Status == check.OK {
					w.addCount("sagas begun")
					x.o.next = r.takeOver
				}
			}
	})
}

// writeRecord writes a record.
func (x *tx) writeRecord(k string, r saga.Record) {
	text := encodeRecord(r)
	x.writes = append(x.writes, keyWrite{k, func() command.Command { return &command.Set{Key: positionOf(k), Value: text} }})
}

// appendEffect writes down an effect.
func (x *tx) appendEffect(letter string, deed uint64) {
	k := effectsKey(letter)
	x.writes = append(x.writes, keyWrite{k, func() command.Command { return &command.Append{Key: positionOf(k), Suffix: encodeUint64(deed)} }})
}

// loadRecord reads the record of a saga in a transaction, and goes on if it is under way.
func (x *tx) loadRecord(s *sagaRun, then func(saga.Record)) {
	x.readKeys([]string{s.recordKey()}, func() {
		text := x.values[s.recordKey()]
		if len(text) == 0 {
			x.o.finish(check.OK)
			return
		}
		rec := x.o.c.w.decodeRecord(text)
		if rec.State.Ended() {
			x.o.finish(check.OK)
			return
		}
		then(rec)
	})
}

func (c *client) cancelSaga(s *sagaRun) {
	k := s.recordKey()
	c.runTxn(spansToReserve(true, k), 0, func(x *tx) (func(), func(check.Call)) {
		asked := false
		return func() {
				x.loadRecord(s, func(rec saga.Record) {
					next, err := saga.Next(rec, saga.Event{Kind: saga.Cancelled, NowMS: c.w.wallMS()})
					if err != nil { // it is on its way back
						x.o.finish(check.OK)
						return
					}
					asked = true
					x.writeRecord(k, next)
					x.commit()
				})
			}, func(at check.Call) {
				if at.Status == check.OK && asked {
					s.cancelled = true
					c.w.addCount("sagas cancelled")
				}
			}
	})
}

// sagaRunner is a client that works on a saga until it dies, or finds that another does.
type sagaRunner struct {
	c      *client
	s      *sagaRun
	owner  string
	record saga.Record
}

// takeOver makes the runner the owner of its saga.
func (r *sagaRunner) takeOver() {
	w := r.c.w
	w.serial++
	r.owner = fmt.Sprint(w.serial)
	k := r.s.recordKey()
	r.c.runTxn(spansToReserve(true, k), 0, func(x *tx) (func(), func(check.Call)) {
		took := false
		return func() {
				x.loadRecord(r.s, func(rec saga.Record) {
					next, err := saga.Next(rec, saga.Event{Kind: saga.Took, Owner: r.owner, NowMS: w.wallMS()})
					w.must(err, "take a saga")
					r.record, took = next, true
					x.writeRecord(k, next)
					x.commit()
				})
			}, func(at check.Call) {
				if at.Status == check.OK && took {
					x.o.next = r.runNext
				}
			}
	})
}

// runNext does what the record wants, after a while in which others may have taken over.
func (r *sagaRunner) runNext() {
	w := r.c.w
	switch {
	case w.isQuiescing:
		r.c.beginNext()
		return
	case w.drawChance(120):
		w.addCount("runners of sagas that died")
		r.c.beginNext()
		return
	case w.drawChance(200):
		w.scheduleAfter(w.rng.Int64N(60*millisecond), r.runWanted)
		return
	}
	r.runWanted()
}

func (r *sagaRunner) runWanted() {
	w := r.c.w
	now := w.wallMS()
	want := saga.Wanted(r.record, now)
	undo := want.Kind == saga.Undo
	switch {
	case w.isQuiescing, want.Kind == saga.Nothing:
		r.c.beginNext()
	case want.Kind == saga.Wait:
		w.scheduleAfter(min(want.UntilMS-now, 20)*millisecond, r.runNext) // the clock may be set
	case want.Kind == saga.Turn:
		r.saveEvent(saga.Event{Kind: saga.TurnedRound})
	case !undo && want.Step == r.s.refusedStep:
		r.saveEvent(saga.Event{Kind: saga.DoRefused, Step: want.Step})
	case w.drawChance(100):
		r.saveEvent(failedEvent(want.Step, undo))
	case r.s.plan[want.Step].Atomic:
		r.runAtomicStep(want.Step, undo)
	default:
		r.runRemoteStep(want.Step, undo)
	}
}

func failedEvent(step int, undo bool) saga.Event {
	e := saga.Event{Kind: saga.DoFailed, Step: step, Why: "weather", Retry: sagaRetry}
	if undo {
		e.Kind = saga.UndoFailed
	}
	return e
}

func doneEvent(step int, undo bool) saga.Event {
	if undo {
		return saga.Event{Kind: saga.Undid, Step: step}
	}
	return saga.Event{Kind: saga.Did, Step: step}
}

// saveEvent writes down what happened, on whatever the record is by then, if it is still
// this runner's.
func (r *sagaRunner) saveEvent(e saga.Event) {
	w, k := r.c.w, r.s.recordKey()
	r.c.runTxn(spansToReserve(true, k), 0, func(x *tx) (func(), func(check.Call)) {
		mine := false
		return func() {
				x.loadRecord(r.s, func(rec saga.Record) {
					if rec.Owner != r.owner {
						w.addCount("runners of sagas that were overtaken")
						x.o.finish(check.OK)
						return
					}
					e.NowMS, mine = w.wallMS(), true
					next, err := saga.Next(rec, e)
					if err != nil {
						r.record = rec
						x.o.finish(check.OK)
						return
					}
					r.record = next
					x.writeRecord(k, next)
					x.commit()
				})
			}, func(at check.Call) {
				if at.Status == check.OK && mine {
					x.o.next = r.runNext
				}
			}
	})
}

// runAtomicStep is an atomic step: its effect and the record are one transaction.
func (r *sagaRunner) runAtomicStep(step int, undo bool) {
	w, k, letter := r.c.w, r.s.recordKey(), r.s.stepLetters[step]
	r.c.runTxn(spansToReserve(true, k, effectsKey(letter)), 0, func(x *tx) (func(), func(check.Call)) {
		next, mine := r.record, false
		return func() {
				x.loadRecord(r.s, func(rec saga.Record) {
					if rec.Revision != r.record.Revision {
						w.addCount("runners of sagas that were overtaken")
						x.o.finish(check.OK)
						return
					}
					e := doneEvent(step, undo)
					e.NowMS = w.wallMS()
					var err error
					next, err = saga.Next(rec, e)
					w.must(err, "the end of a step")
					mine = true
					x.writeRecord(k, next)
					x.appendEffect(letter, r.s.effectElement(step, undo))
					x.commit()
				})
			}, func(at check.Call) {
				if at.Status == check.OK && mine {
					w.addCount("steps of sagas")
					r.record = next
					x.o.next = r.runNext
				}
			}
	})
}

// Marks of a step elsewhere.
const (
	markedDo   = 1
	markedUndo = 2
)

// runRemoteStep is a step of another side, which keeps marks together with the effect.
func (r *sagaRunner) runRemoteStep(step int, undo bool) {
	w, k, letter := r.c.w, r.s.markKey(step), r.s.stepLetters[step]
	r.c.runTxn(spansToReserve(true, k, effectsKey(letter)), 0, func(x *tx) (func(), func(check.Call)) {
		answer := doneEvent(step, undo)
		return func() {
				x.readKeys([]string{k}, func() {
					marks := decodeUint64(x.values[k])
					verdict, after := decideRemoteCall(marks, undo)
					if verdict == saga.Refuse {
						answer = saga.Event{Kind: saga.DoRefused, Step: step}
					}
					if after == marks {
						x.o.finish(check.OK)
						return
					}
					x.writes = append(x.writes, keyWrite{k, func() command.Command { return &command.Set{Key: positionOf(k), Value: encodeUint64(after)} }})
					if verdict == saga.Execute {
						x.appendEffect(letter, r.s.effectElement(step, undo))
					}
					x.commit()
				})
			}, func(at check.Call) {
				if at.Status != check.OK || w.drawChance(100) {
					w.addCount("answers to sagas that were lost")
					answer = failedEvent(step, undo)
				}
				if at.Status != check.Failed { // else it is tried again
					x.o.next = func() { r.saveEvent(answer) }
				}
			}
	})
}

// decideRemoteCall is what the other side makes of a call, and what it has noted then.
func decideRemoteCall(marks uint64, undo bool) (saga.Verdict, uint64) {
	v := saga.Judge(undo, marks&markedDo != 0, marks&markedUndo != 0)
	mark := uint64(markedDo)
	if undo {
		mark = markedUndo
	}
	if v == saga.Execute || v == saga.Note {
		return v, marks | mark
	}
	return v, marks
}

// checkSagas goes on with all sagas as the last runner of all, without competition, and
// checks that each ends completed or compensated, and has taken effect once.
func (w *world) checkSagas(m *partition.Map, get func(string) []byte) {
	do := func(k string, c command.Command) { w.mustDo(m.Owner(positionOf(k)).Group, c) }
	ends := map[uint64]saga.State{}
	for _, s := range w.history.sagas {
		if text := get(s.recordKey()); len(text) > 0 {
			ends[s.number] = w.finishSaga(s, w.decodeRecord(text), get, do)
		}
	}
	found := map[uint64]bool{}
	for _, l := range letters {
		for _, deed := range decodeElements(get(effectsKey(l))) {
			if found[deed] {
				w.failf("saga %d, step %d, undo %v: done twice", deed>>8, deed>>1&0x7f, deed&1 == 1)
			}
			if deed&1 == 1 && !found[deed&^1] {
				w.failf("saga %d, step %d: undone before it was done", deed>>8, deed>>1&0x7f)
			}
			found[deed] = true
		}
	}
	for _, s := range w.history.sagas {
		for step := range s.plan {
			did, undid := found[s.effectElement(step, false)], found[s.effectElement(step, true)]
			switch end := ends[s.number]; {
			case end == saga.Completed && (!did || undid), end == saga.Compensated && did != undid, end == 0 && did:
				w.failf("saga %d of %+v has ended %v: step %d done %v, undone %v", s.number, s.plan, end, step, did, undid)
			}
		}
	}
}

// finishSaga goes on with a saga to its end.
func (w *world) finishSaga(s *sagaRun, rec saga.Record, get func(string) []byte, do func(string, command.Command)) saga.State {
	resumed := !rec.State.Ended()
	for !rec.State.Ended() {
		now := max(w.wallMS(), rec.NotBeforeMS)
		want := saga.Wanted(rec, now)
		undo := want.Kind == saga.Undo
		e := doneEvent(want.Step, undo)
		switch {
		case want.Kind == saga.Turn:
			e = saga.Event{Kind: saga.TurnedRound}
		case want.Kind != saga.Do && want.Kind != saga.Undo:
			w.failf("saga %d wants %d at the end: %+v", s.number, want.Kind, rec)
		case !undo && want.Step == s.refusedStep:
			e = saga.Event{Kind: saga.DoRefused, Step: want.Step}
		default:
			verdict := saga.Execute
			if k := s.markKey(want.Step); !s.plan[want.Step].Atomic {
				var marks uint64
				verdict, marks = decideRemoteCall(decodeUint64(get(k)), undo)
				do(k, &command.Set{Key: positionOf(k), Value: encodeUint64(marks)})
			}
			if k := effectsKey(s.stepLetters[want.Step]); verdict == saga.Execute {
				do(k, &command.Append{Key: positionOf(k), Suffix: encodeUint64(s.effectElement(want.Step, undo))})
			}
		}
		e.NowMS = now
		next, err := saga.Next(rec, e)
		w.must(err, "go on with a saga")
		rec = next
	}
	if resumed {
		w.addCount("sagas resumed at the end")
	}
	w.addCount("sagas " + rec.State.String())
	if s.cancelled && rec.State == saga.Completed {
		w.failf("saga %d has completed, and somebody was told that it is taken back", s.number)
	}
	return rec.State
}
