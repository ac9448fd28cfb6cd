package protocol

import (
	"errors"
	"testing"

	"github.com/cleavekv/cleave/internal/reshard/feed"
	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

func changeOwnership(from, to ownership.Range) *ownership.ChangeOwnership {
	return &ownership.ChangeOwnership{Expect: []ownership.Range{from}, Become: []ownership.Range{to}}
}

func evalOne(g partition.GroupID, c mover.SiteCommand) mover.EvalCommands {
	return mover.EvalCommands{Round: 9, Commands: []mover.GroupCommand{{Group: g, Command: c}}}
}

func TestWhatIsLookedAtIsWhatGroupsHave(t *testing.T) {
	w := newTestCluster(t)
	whole := partition.Span{Start: dataKeyspace.Span().Start, End: dataKeyspace.Span().End}
	ev, ok := ReadOwnership(w.findHost, mover.ReadOwnership{Round: 2, From: 2, To: 3, Span: whole}).(mover.OwnershipRead)
	if !ok || ev.Round != 2 || len(ev.Source) != 1 || len(ev.Dest) != 1 || ev.Source[0].State != ownership.Serving {
		t.Errorf("a look at both: %+v", ev)
	}
	ev, ok = ReadOwnership(w.findHost, mover.ReadOwnership{Round: 2, From: 2, To: 3, Span: w.ownedSpan(2)}).(mover.OwnershipRead)
	if !ok || len(ev.Source) != 1 || len(ev.Dest) != 0 {
		t.Errorf("a look at what one of them has: %+v", ev)
	}
	for _, x := range []mover.ReadOwnership{{From: 9, To: 3}, {From: 2, To: 9}} {
		if err := errorOf(ReadOwnership(w.findHost, x)); !errors.Is(err, ErrGroupNotOpen) {
			t.Errorf("a look at a group that is away: %v", err)
		}
	}
	at, ok := new(Copier).Locate(w.findHost, mover.Locate{Round: 3, From: 2}, w.ownedSpan(2)).(mover.Located)
	if !ok || at.Round != 3 || at.Position != uint64(w.stores[0].Position()) {
		t.Errorf("located at %+v, the log is at %d", at, w.stores[0].Position())
	}
	if err := errorOf(new(Copier).Locate(w.findHost, mover.Locate{From: 9}, w.ownedSpan(2))); !errors.Is(err, ErrGroupNotOpen) {
		t.Errorf("located although it is away: %v", err)
	}
}

func TestACommandIsEvaluatedOnceAndAnsweredAgain(t *testing.T) {
	w := newTestCluster(t)
	w.setKey(2, "a", "1")
	serving, _ := w.hosts[2].Group.OwnershipTable().FindContaining(w.ownedSpan(2))
	frozen := serving
	frozen.State, frozen.Job, frozen.Attempt = ownership.Frozen, 7, 1
	gone := frozen
	gone.State, gone.Version, gone.Attempt = ownership.Foreign, 2, 0
	freeze := func() mover.Event {
		return EvalCommands(background, w.findHost, evalOne(2, changeOwnership(serving, frozen)))
	}
	first, ok := freeze().(mover.Evaluated)
	if !ok || first.Round != 9 || first.Position != uint64(w.stores[0].Position()) {
		t.Fatalf("a freeze: %+v", first)
	}
	if again, ok := freeze().(mover.Evaluated); !ok || again.Position != first.Position {
		t.Errorf("it is told again, and has written: %+v", again)
	}
	if r := w.tryCommand(2, &command.Set{Key: keyAt("a"), Value: []byte("2")}); !errors.Is(r.Err, ownership.ErrFrozen) {
		t.Errorf("a write to a frozen range: %v", r.Err)
	}
	release, ok := EvalCommands(background, w.findHost, evalOne(2, changeOwnership(frozen, gone))).(mover.Evaluated)
	if !ok || release.NextVersion <= 1 || release.ClockMS < 1000 {
		t.Errorf("a release, with what was given out: %+v", release)
	}
	if err := errorOf(freeze()); !errors.Is(err, ownership.ErrStale) {
		t.Errorf("a freeze that comes late: %v", err)
	}
	if err := errorOf(EvalCommands(background, w.findHost, evalOne(9, changeOwnership(serving, frozen)))); !errors.Is(err, ErrGroupNotOpen) {
		t.Errorf("a group that is away: %v", err)
	}
}

func TestARangeIsServedAboveWhatItsKeysHaveHad(t *testing.T) {
	w := newTestCluster(t)
	span, base := w.beginCopy()
	w.nowMS = 5000
	settle := &mover.ChangeDestination{
		Job: 7, Attempt: 1, Become: ownership.Range{Span: span, Version: 2, State: ownership.Serving, Job: 7}, VersionFloor: 900, ClockFloorMS: 1_000_000,
	}
	before := w.stores[1].Position()
	for range 2 {
		c := *settle
		if ev, ok := EvalHandover(background, w.findHost, evalOne(3, &c), &feed.Handover{Store: 0, Position: base}).(mover.Evaluated); !ok {
			t.Fatalf("it is refused: %+v", ev)
		}
	}
	if now := w.hosts[3].Group.NowMS(); now < 1_000_000 {
		t.Errorf("the clock is at %d, behind the floor", now)
	}
	if v := w.setKey(3, "a", "1"); v < 900 {
		t.Errorf("the next version is %d, below the floor", v)
	}
	handed := 0
	if _, err := w.stores[1].Feed(before, func(c store.FeedEntry) error {
		for _, op := range c.Batch.All() {
			if h, ok := feed.ParseHandover(op); ok {
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
	w := newTestCluster(t)
	g := w.hosts[3].Group
	before := w.stores[1].Position()
	if err := raiseClock(background, g, g.NowMS()); err != nil || w.stores[1].Position() != before {
		t.Errorf("to where it is: %v, and something is written", err)
	}
	if err := raiseClock(background, g, 77_777); err != nil || g.NowMS() != 77_777 {
		t.Errorf("the clock is raised to %d, %v", g.NowMS(), err)
	}
	c := &checkedOwnershipChange{ChangeDestination: &mover.ChangeDestination{ClockFloorMS: 10}}
	e := command.NewEnv(w.stores[1])
	e.Begin(effect.Header{ClockMS: 9}, 1)
	if r := e.Do(c); !errors.Is(r.Err, errClockBehind) {
		t.Errorf("a group whose clock is behind takes a range: %v", r.Err)
	}
}

func TestTwoGroupsOfAStoreHandOverInOneStep(t *testing.T) {
	w := newTestCluster(t)
	for range 20 {
		w.setKey(2, "a", "1")
	}
	serving, _ := w.hosts[2].Group.OwnershipTable().FindContaining(w.ownedSpan(2))
	handOver := func(expect ownership.Range) mover.Event {
		gone := serving
		gone.State, gone.Version, gone.Job, gone.Attempt = ownership.Foreign, 2, 7, 1
		become := ownership.Range{Span: serving.Span, Version: 2, State: ownership.Serving, Job: 7}
		return EvalCommands(background, w.findHost, mover.EvalCommands{Round: 9, CarryFloors: true, Commands: []mover.GroupCommand{
			{Group: 2, Command: changeOwnership(expect, gone)},
			{Group: 1, Command: &mover.ChangeDestination{Job: 7, Become: become, AllowMissing: true}},
		}})
	}
	stale := serving
	stale.Version = 5
	if err := errorOf(handOver(stale)); !errors.Is(err, ownership.ErrStale) {
		t.Errorf("a range that is not there: %v", err)
	}
	if r, ok := w.hosts[1].Group.OwnershipTable().Find(keyAt("a")); ok && r.IsReadable() {
		t.Error("the other has it although the first has not given it")
	}
	version := w.setKey(2, "a", "2")
	if ev, ok := handOver(serving).(mover.Evaluated); !ok {
		t.Fatalf("it is refused: %+v", ev)
	}
	if v := w.setKey(1, "a", "3"); v <= version {
		t.Errorf("the version of a key fell from %d to %d", version, v)
	}
	if r := w.tryCommand(2, &command.Get{Key: keyAt("a")}); !errors.Is(r.Err, ownership.ErrWrongGroup) {
		t.Errorf("who gave it still reads: %v", r.Err)
	}
	if ev, ok := handOver(serving).(mover.Evaluated); !ok {
		t.Errorf("the same again: %+v", ev)
	}
}
