package sim

import (
	"encoding/json"
	"fmt"

	"github.com/cleavekv/cleave/internal/check"
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/partition"
	"github.com/cleavekv/cleave/saga"
)

// Sagas are driven by clients, who decide by saga.Next, Wanted and Judge as a runner
// does and keep the record as saga/journal does: in a key, with the effect of an atomic
// step in one transaction. They die between any two of their steps; another one takes
// over, also from one that only stands still. An effect is an element of a list in the
// shard of its step, so that doing something twice, or not undoing it, leaves a trace.

// played is a saga of a world.
type played struct {
	number uint64
	plan   []saga.Planned
	at     []string // the letter of each step
	// refuses is the step whose Do is refused whenever it is asked for, or -1.
	refuses   int
	deadline  int64 // ms after its start, or 0
	cancelled bool  // somebody was told that it is taken back
}

func (s *played) record() string { return fmt.Sprintf("%s/saga%d", s.at[0], s.number) }
func (s *played) mark(step int) string {
	return fmt.Sprintf("%s/mark%d-%d", s.at[step], s.number, step)
}
func deeds(letter string) string { return key(letter, "deed", 0) }

// deed is an effect as an element of a list.
func (s *played) deed(step int, undo bool) uint64 {
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
	w.must(r.Check(), "a record of a saga")
	return r
}

// sagas begins a saga, cancels one, or goes on with one that others may be at too.
func (c *client) sagas() {
	w := c.w
	known := w.history.sagas
	switch n := w.rng.IntN(10); {
	case len(known) == 0 || n < 4:
		c.startSaga()
	case n < 5:
		c.cancelSaga(pick(w, known))
	default:
		(&runner{c: c, s: pick(w, known)}).take()
	}
}

func (c *client) startSaga() {
	w := c.w
	w.serial++
	s := &played{number: w.serial, refuses: -1}
	n := 1 + w.rng.IntN(4)
	for i := range n {
		s.plan = append(s.plan, saga.Planned{Name: fmt.Sprint(i), Atomic: w.chance(500)})
		s.at = append(s.at, pick(w, letters))
	}
	if w.chance(400) {
		s.refuses = w.rng.IntN(n)
	}
	if w.chance(200) {
		s.deadline = 1 + w.rng.Int64N(200)
	}
	w.history.sagas = append(w.history.sagas, s)
	r := &runner{c: c, s: s, owner: fmt.Sprint(w.serial)}
	k := s.record()
	c.transact(claimsOf(true, k), 0, func(x *tx) (func(), func(check.Call)) {
		return func() {
				x.readAll([]string{k}, func() {
					if len(x.values[k]) > 0 { // an attempt that failed as far as anybody knew
						x.o.finish(check.OK)
						return
					}
					deadline := int64(0)
					if s.deadline > 0 {
						deadline = w.wallMS() + s.deadline
					}
					r.rec = saga.Begin(fmt.Sprint(s.number), "sim", s.plan, nil, r.owner, w.wallMS(), deadline)
					x.store(k, r.rec)
					x.commit()
				})
			}, func(at check.Call) {
				if at.Status == check.OK {
					w.count("sagas begun")
					x.o.then = r.take
				}
			}
	})
}

// store writes a record.
func (x *tx) store(k string, r saga.Record) {
	text := encodeRecord(r)
	x.writes = append(x.writes, write{k, func() command.Command { return &command.Set{Key: at(k), Value: text} }})
}

// leave writes down an effect.
func (x *tx) leave(letter string, deed uint64) {
	k := deeds(letter)
	x.writes = append(x.writes, write{k, func() command.Command { return &command.Append{Key: at(k), Tail: encode(deed)} }})
}

// load reads the record of a saga in a transaction, and goes on if it is under way.
func (x *tx) load(s *played, then func(saga.Record)) {
	x.readAll([]string{s.record()}, func() {
		text := x.values[s.record()]
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

func (c *client) cancelSaga(s *played) {
	k := s.record()
	c.transact(claimsOf(true, k), 0, func(x *tx) (func(), func(check.Call)) {
		asked := false
		return func() {
				x.load(s, func(rec saga.Record) {
					next, err := saga.Next(rec, saga.Event{Kind: saga.Cancelled, NowMS: c.w.wallMS()})
					if err != nil { // it is on its way back
						x.o.finish(check.OK)
						return
					}
					asked = true
					x.store(k, next)
					x.commit()
				})
			}, func(at check.Call) {
				if at.Status == check.OK && asked {
					s.cancelled = true
					c.w.count("sagas cancelled")
				}
			}
	})
}

// runner is a client that works on a saga until it dies, or finds that another does.
type runner struct {
	c     *client
	s     *played
	owner string
	rec   saga.Record
}

// take makes the runner the owner of its saga.
func (r *runner) take() {
	w := r.c.w
	w.serial++
	r.owner = fmt.Sprint(w.serial)
	k := r.s.record()
	r.c.transact(claimsOf(true, k), 0, func(x *tx) (func(), func(check.Call)) {
		took := false
		return func() {
				x.load(r.s, func(rec saga.Record) {
					next, err := saga.Next(rec, saga.Event{Kind: saga.Took, Owner: r.owner, NowMS: w.wallMS()})
					w.must(err, "take a saga")
					r.rec, took = next, true
					x.store(k, next)
					x.commit()
				})
			}, func(at check.Call) {
				if at.Status == check.OK && took {
					x.o.then = r.turn
				}
			}
	})
}

// turn does what the record wants, after a while in which others may have taken over.
func (r *runner) turn() {
	w := r.c.w
	switch {
	case w.healing:
		r.c.begin()
		return
	case w.chance(120):
		w.count("runners of sagas that died")
		r.c.begin()
		return
	case w.chance(200):
		w.after(w.rng.Int64N(60*millisecond), r.act)
		return
	}
	r.act()
}

func (r *runner) act() {
	w := r.c.w
	now := w.wallMS()
	want := saga.Wanted(r.rec, now)
	undo := want.Kind == saga.Undo
	switch {
	case w.healing, want.Kind == saga.Nothing:
		r.c.begin()
	case want.Kind == saga.Wait:
		w.after(min(want.UntilMS-now, 20)*millisecond, r.turn) // the clock may be set
	case want.Kind == saga.Turn:
		r.save(saga.Event{Kind: saga.TurnedRound})
	case !undo && want.Step == r.s.refuses:
		r.save(saga.Event{Kind: saga.DoRefused, Step: want.Step})
	case w.chance(100):
		r.save(failed(want.Step, undo))
	case r.s.plan[want.Step].Atomic:
		r.together(want.Step, undo)
	default:
		r.elsewhere(want.Step, undo)
	}
}

func failed(step int, undo bool) saga.Event {
	e := saga.Event{Kind: saga.DoFailed, Step: step, Why: "weather", Retry: sagaRetry}
	if undo {
		e.Kind = saga.UndoFailed
	}
	return e
}

func done(step int, undo bool) saga.Event {
	if undo {
		return saga.Event{Kind: saga.Undid, Step: step}
	}
	return saga.Event{Kind: saga.Did, Step: step}
}

// save writes down what happened, on whatever the record is by then, if it is still
// this runner's.
func (r *runner) save(e saga.Event) {
	w, k := r.c.w, r.s.record()
	r.c.transact(claimsOf(true, k), 0, func(x *tx) (func(), func(check.Call)) {
		mine := false
		return func() {
				x.load(r.s, func(rec saga.Record) {
					if rec.Owner != r.owner {
						w.count("runners of sagas that were overtaken")
						x.o.finish(check.OK)
						return
					}
					e.NowMS, mine = w.wallMS(), true
					next, err := saga.Next(rec, e)
					if err != nil {
						r.rec = rec
						x.o.finish(check.OK)
						return
					}
					r.rec = next
					x.store(k, next)
					x.commit()
				})
			}, func(at check.Call) {
				if at.Status == check.OK && mine {
					x.o.then = r.turn
				}
			}
	})
}

// together is an atomic step: its effect and the record are one transaction.
func (r *runner) together(step int, undo bool) {
	w, k, letter := r.c.w, r.s.record(), r.s.at[step]
	r.c.transact(claimsOf(true, k, deeds(letter)), 0, func(x *tx) (func(), func(check.Call)) {
		next, mine := r.rec, false
		return func() {
				x.load(r.s, func(rec saga.Record) {
					if rec.Revision != r.rec.Revision {
						w.count("runners of sagas that were overtaken")
						x.o.finish(check.OK)
						return
					}
					e := done(step, undo)
					e.NowMS = w.wallMS()
					var err error
					next, err = saga.Next(rec, e)
					w.must(err, "the end of a step")
					mine = true
					x.store(k, next)
					x.leave(letter, r.s.deed(step, undo))
					x.commit()
				})
			}, func(at check.Call) {
				if at.Status == check.OK && mine {
					w.count("steps of sagas")
					r.rec = next
					x.o.then = r.turn
				}
			}
	})
}

// Marks of a step elsewhere.
const (
	markedDo   = 1
	markedUndo = 2
)

// elsewhere is a step of another side, which keeps marks together with the effect.
func (r *runner) elsewhere(step int, undo bool) {
	w, k, letter := r.c.w, r.s.mark(step), r.s.at[step]
	r.c.transact(claimsOf(true, k, deeds(letter)), 0, func(x *tx) (func(), func(check.Call)) {
		answer := done(step, undo)
		return func() {
				x.readAll([]string{k}, func() {
					marks := number(x.values[k])
					verdict, after := arrive(marks, undo)
					if verdict == saga.Refuse {
						answer = saga.Event{Kind: saga.DoRefused, Step: step}
					}
					if after == marks {
						x.o.finish(check.OK)
						return
					}
					x.writes = append(x.writes, write{k, func() command.Command { return &command.Set{Key: at(k), Value: encode(after)} }})
					if verdict == saga.Execute {
						x.leave(letter, r.s.deed(step, undo))
					}
					x.commit()
				})
			}, func(at check.Call) {
				if at.Status != check.OK || w.chance(100) {
					w.count("answers to sagas that were lost")
					answer = failed(step, undo)
				}
				if at.Status != check.Failed { // else it is tried again
					x.o.then = func() { r.save(answer) }
				}
			}
	})
}

// arrive is what the other side makes of a call, and what it has noted then.
func arrive(marks uint64, undo bool) (saga.Verdict, uint64) {
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

// judgeSagas goes on with all sagas as the last runner of all, with nobody in its way, and
// checks that each ends completed or compensated, and has taken effect once.
func (w *world) judgeSagas(m *partition.Map, get func(string) []byte) {
	do := func(k string, c command.Command) { w.mustDo(m.Owner(at(k)).Group, c) }
	ends := map[uint64]saga.State{}
	for _, s := range w.history.sagas {
		if text := get(s.record()); len(text) > 0 {
			ends[s.number] = w.lastRunner(s, w.decodeRecord(text), get, do)
		}
	}
	found := map[uint64]bool{}
	for _, l := range letters {
		for _, deed := range elements(get(deeds(l))) {
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
			did, undid := found[s.deed(step, false)], found[s.deed(step, true)]
			switch end := ends[s.number]; {
			case end == saga.Completed && (!did || undid), end == saga.Compensated && did != undid, end == 0 && did:
				w.failf("saga %d of %+v has ended %v: step %d done %v, undone %v", s.number, s.plan, end, step, did, undid)
			}
		}
	}
}

// lastRunner goes on with a saga to its end.
func (w *world) lastRunner(s *played, rec saga.Record, get func(string) []byte, do func(string, command.Command)) saga.State {
	resumed := !rec.State.Ended()
	for !rec.State.Ended() {
		now := max(w.wallMS(), rec.NotBeforeMS)
		want := saga.Wanted(rec, now)
		undo := want.Kind == saga.Undo
		e := done(want.Step, undo)
		switch {
		case want.Kind == saga.Turn:
			e = saga.Event{Kind: saga.TurnedRound}
		case want.Kind != saga.Do && want.Kind != saga.Undo:
			w.failf("saga %d wants %d at the end: %+v", s.number, want.Kind, rec)
		case !undo && want.Step == s.refuses:
			e = saga.Event{Kind: saga.DoRefused, Step: want.Step}
		default:
			verdict := saga.Execute
			if k := s.mark(want.Step); !s.plan[want.Step].Atomic {
				var marks uint64
				verdict, marks = arrive(number(get(k)), undo)
				do(k, &command.Set{Key: at(k), Value: encode(marks)})
			}
			if k := deeds(s.at[want.Step]); verdict == saga.Execute {
				do(k, &command.Append{Key: at(k), Tail: encode(s.deed(want.Step, undo))})
			}
		}
		e.NowMS = now
		next, err := saga.Next(rec, e)
		w.must(err, "go on with a saga")
		rec = next
	}
	if resumed {
		w.count("sagas resumed at the end")
	}
	w.count("sagas " + rec.State.String())
	if s.cancelled && rec.State == saga.Completed {
		w.failf("saga %d has completed, and somebody was told that it is taken back", s.number)
	}
	return rec.State
}
