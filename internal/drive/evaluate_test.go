package drive

import (
	"errors"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/feed"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/partition"
)

func change(from, to own.Range) *own.Reown {
	return &own.Reown{Expect: []own.Range{from}, Become: []own.Range{to}}
}

func one(g partition.GroupID, c mover.Bound) mover.Evaluate {
	return mover.Evaluate{Round: 9, Parts: []mover.Part{{Group: g, Command: c}}}
}

func TestWhatIsLookedAtIsWhatGroupsHave(t *testing.T) {
	w := newSmall(t)
	whole := partition.Span{Start: space.Span().Start, End: space.Span().End}
	ev, ok := Look(w.find, mover.Look{Round: 2, From: 2, To: 3, Span: whole}).(mover.Looked)
	if !ok || ev.Round != 2 || len(ev.Source) != 1 || len(ev.Dest) != 1 || ev.Source[0].State != own.Serving {
		t.Errorf("a look at both: %+v", ev)
	}
	ev, ok = Look(w.find, mover.Look{Round: 2, From: 2, To: 3, Span: w.span(2)}).(mover.Looked)
	if !ok || len(ev.Source) != 1 || len(ev.Dest) != 0 {
		t.Errorf("a look at what one of them has: %+v", ev)
	}
	for _, x := range []mover.Look{{From: 9, To: 3}, {From: 2, To: 9}} {
		if err := failure(Look(w.find, x)); !errors.Is(err, ErrAway) {
			t.Errorf("a look at a group that is away: %v", err)
		}
	}
	at, ok := new(Carrier).Locate(w.find, mover.Locate{Round: 3, From: 2}, w.span(2)).(mover.Located)
	if !ok || at.Round != 3 || at.Position != uint64(w.stores[0].Position()) {
		t.Errorf("located at %+v, the log is at %d", at, w.stores[0].Position())
	}
	if err := failure(new(Carrier).Locate(w.find, mover.Locate{From: 9}, w.span(2))); !errors.Is(err, ErrAway) {
		t.Errorf("located although it is away: %v", err)
	}
}

func TestACommandIsEvaluatedOnceAndAnsweredAgain(t *testing.T) {
	w := newSmall(t)
	w.set(2, "a", "1")
	serving, _ := w.places[2].Group.List().One(w.span(2))
	frozen := serving
	frozen.State, frozen.Job, frozen.Attempt = own.Frozen, 7, 1
	gone := frozen
	gone.State, gone.Version, gone.Attempt = own.Foreign, 2, 0
	freeze := func() mover.Event { return Evaluate(bg, w.find, one(2, change(serving, frozen))) }
	first, ok := freeze().(mover.Evaluated)
	if !ok || first.Round != 9 || first.Position != uint64(w.stores[0].Position()) {
		t.Fatalf("a freeze: %+v", first)
	}
	if again, ok := freeze().(mover.Evaluated); !ok || again.Position != first.Position {
		t.Errorf("it is told again, and has written: %+v", again)
	}
	if r := w.try(2, &command.Set{Key: at("a"), Value: []byte("2")}); !errors.Is(r.Err, own.ErrFrozen) {
		t.Errorf("a write to a frozen range: %v", r.Err)
	}
	release, ok := Evaluate(bg, w.find, one(2, change(frozen, gone))).(mover.Evaluated)
	if !ok || release.NextVersion <= 1 || release.ClockMS < 1000 {
		t.Errorf("a release, with what was given out: %+v", release)
	}
	if err := failure(freeze()); !errors.Is(err, own.ErrStale) {
		t.Errorf("a freeze that comes late: %v", err)
	}
	if err := failure(Evaluate(bg, w.find, one(9, change(serving, frozen)))); !errors.Is(err, ErrAway) {
		t.Errorf("a group that is away: %v", err)
	}
}

func TestARangeIsServedAboveWhatItsKeysHaveHad(t *testing.T) {
	w := newSmall(t)
	span, base := w.copying()
	w.now = 5000
	settle := &mover.Settle{
		Job: 7, Attempt: 1, Become: own.Range{Span: span, Version: 2, State: own.Serving, Job: 7}, VersionFloor: 900, ClockFloorMS: 1_000_000,
	}
	before := w.stores[1].Position()
	for range 2 {
		c := *settle
		if ev, ok := EvaluateHanded(bg, w.find, one(3, &c), &feed.Handed{Store: 0, Position: base}).(mover.Evaluated); !ok {
			t.Fatalf("it is refused: %+v", ev)
		}
	}
	if now := w.places[3].Group.NowMS(); now < 1_000_000 {
		t.Errorf("the clock is at %d, behind the floor", now)
	}
	if v := w.set(3, "a", "1"); v < 900 {
		t.Errorf("the next version is %d, below the floor", v)
	}
	handed := 0
	if _, err := w.stores[1].Feed(before, func(c store.Committed) error {
		for _, op := range c.Batch.All() {
			if h, ok := feed.HandedOver(op); ok {
				handed++
				if h.Store != 0 || h.Position != base {
					t.Errorf("the log says that it comes from %+v", h)
				}
			}
		}
		return nil
	}); err != nil || handed == 0 {
		t.Errorf("the log does not say where the range comes from: %v", err)
	}
}

func TestAClockIsRaisedOnlyIfItIsBehind(t *testing.T) {
	w := newSmall(t)
	g := w.places[3].Group
	before := w.stores[1].Position()
	if err := raise(bg, g, g.NowMS()); err != nil || w.stores[1].Position() != before {
		t.Errorf("to where it is: %v, and something is written", err)
	}
	if err := raise(bg, g, 77_777); err != nil || g.NowMS() != 77_777 {
		t.Errorf("the clock is raised to %d, %v", g.NowMS(), err)
	}
	c := &settling{Settle: &mover.Settle{ClockFloorMS: 10}}
	e := command.NewEnv(w.stores[1])
	e.Begin(effect.Header{ClockMS: 9}, 1)
	if r := e.Do(c); !errors.Is(r.Err, errBehind) {
		t.Errorf("a group whose clock is behind takes a range: %v", r.Err)
	}
}

func TestTwoGroupsOfAStoreHandOverInOneStep(t *testing.T) {
	w := newSmall(t)
	for range 20 {
		w.set(2, "a", "1")
	}
	serving, _ := w.places[2].Group.List().One(w.span(2))
	handOver := func(expect own.Range) mover.Event {
		gone := serving
		gone.State, gone.Version, gone.Job, gone.Attempt = own.Foreign, 2, 7, 1
		become := own.Range{Span: serving.Span, Version: 2, State: own.Serving, Job: 7}
		return Evaluate(bg, w.find, mover.Evaluate{Round: 9, Carry: true, Parts: []mover.Part{
			{Group: 2, Command: change(expect, gone)},
			{Group: 1, Command: &mover.Settle{Job: 7, Become: become, Fresh: true}},
		}})
	}
	stale := serving
	stale.Version = 5
	if err := failure(handOver(stale)); !errors.Is(err, own.ErrStale) {
		t.Errorf("a range that is not there: %v", err)
	}
	if r, ok := w.places[1].Group.List().Find(at("a")); ok && r.Reads() {
		t.Error("the other has it although the first has not given it")
	}
	version := w.set(2, "a", "2")
	if ev, ok := handOver(serving).(mover.Evaluated); !ok {
		t.Fatalf("it is refused: %+v", ev)
	}
	if v := w.set(1, "a", "3"); v <= version {
		t.Errorf("the version of a key fell from %d to %d", version, v)
	}
	if r := w.try(2, &command.Get{Key: at("a")}); !errors.Is(r.Err, own.ErrWrongGroup) {
		t.Errorf("who gave it still reads: %v", r.Err)
	}
	if ev, ok := handOver(serving).(mover.Evaluated); !ok {
		t.Errorf("the same again: %+v", ev)
	}
}
