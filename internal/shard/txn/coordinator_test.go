package txn

import (
	"maps"
	"slices"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/partition"
)

// coordinatorPath is a coordinator with the effects and events on the way to its state.
type coordinatorPath struct {
	c          *Coordinator
	answers    int
	commitSent bool // a Decide to commit was sent
	prepared   map[int]bool
	decided    Outcome // the first that was reported
	resolved   []partition.Span
	path       []Event
	outcome    Outcome
}

func (k coordinatorPath) clone() coordinatorPath {
	c := *k.c
	c.unprepared, c.unresolved, c.confirmed = slices.Clone(c.unprepared), slices.Clone(c.unresolved), slices.Clone(c.confirmed)
	k.c, k.prepared = &c, maps.Clone(k.prepared)
	k.resolved, k.path = slices.Clone(k.resolved), slices.Clone(k.path)
	return k
}

// Every sequence of events up to a length, whether a network could make it or
// not: the coordinator stays within the rules.
func TestACoordinatorKeepsItsRulesWhateverItIsTold(t *testing.T) {
	spans := []partition.Span{{Start: positionOf("b"), End: positionOf("c")}, {Start: positionOf("c"), End: positionOf("d")}}
	plan := Plan{ID: ID{1}, CoordinatorGroup: 1, Participants: []Participant{{}, {Span: spans[0]}, {Span: spans[1]}}}
	events := []Event{
		Prepared{1}, Prepared{2}, Refused{1, command.ErrConflict}, Decided{Committed}, Decided{Aborted},
		DecideRefused{Err: command.ErrConflict}, DecideRefused{Err: command.ErrConflict, NoneInFlight: true}, DecideRefused{Err: ErrForgotten},
		DecideRefused{Err: ErrForgotten, NoneInFlight: true},
		Resolved{spans[0]}, Resolved{spans[1]}, Collected{}, Cancel{}, Cancel{NoneInFlight: true}, Timeout{},
	}
	depth := 5
	if testing.Short() {
		depth = 4
	}
	start := coordinatorPath{prepared: map[int]bool{}}
	var effects []Effect
	start.c, effects = NewCoordinator(plan)
	start.checkEffects(t, effects)
	ends := map[State]int{}
	var down func(k coordinatorPath, depth int)
	down = func(k coordinatorPath, depth int) {
		ends[k.c.State()]++
		if depth == 0 {
			return
		}
		for _, ev := range events {
			next := k.clone()
			next.path = append(next.path, ev)
			next.recordEvent(ev)
			state := k.c.State()
			next.checkEffects(t, next.c.Step(ev))
			if next.c.State() < state {
				t.Fatalf("%v after %v: %#v", next.c.State(), state, next.path)
			}
			down(next, depth-1)
		}
	}
	down(start, depth)
	for s := Preparing; s <= Done; s++ {
		if ends[s] == 0 && !testing.Short() { // collecting is five events away
			t.Errorf("%v is not reached", s)
		}
	}
}

// recordEvent records an event, if the coordinator is in a state to take it.
func (k *coordinatorPath) recordEvent(ev Event) {
	switch ev := ev.(type) {
	case Prepared:
		k.prepared[ev.Participant] = true
	case Decided:
		if k.c.State() == Deciding || k.c.State() == Undoing {
			k.decided = ev.Outcome
		}
	case DecideRefused:
		k.noteNoneInFlight(ev.NoneInFlight)
	case Cancel:
		k.noteNoneInFlight(ev.NoneInFlight)
	case Resolved:
		if k.c.State() == Resolving {
			k.resolved = append(k.resolved, ev.Span)
		}
	}
}

// noteNoneInFlight notes that no Decide is left that could commit.
func (k *coordinatorPath) noteNoneInFlight(left bool) {
	if left && k.c.State() == Deciding {
		k.commitSent = false
	}
}

// checkEffects holds what is sent to the rules.
func (k *coordinatorPath) checkEffects(t *testing.T, effects []Effect) {
	t.Helper()
	for _, x := range effects {
		ok := true
		switch x := x.(type) {
		case SendPrepare:
			ok = k.c.State() == Preparing && !k.prepared[x.Participant]
		case SendDecide:
			// Commit only if all are prepared, and never after an abort.
			k.commitSent = k.commitSent || x.Commit
			ok = !x.Commit || len(k.prepared) == 2 && k.c.State() == Deciding
		case SendResolve:
			// What was recorded, or an abort that no other coordinator can prevent.
			ok = x.Commit == (k.decided == Committed) && (k.decided != Undecided || !k.commitSent)
		case SendCollect:
			left := k.c.plan.otherSpans()
			for _, s := range k.resolved {
				left = subtractSpan(left, s)
			}
			ok = len(left) == 0
		case Answer:
			k.answers++
			ok = k.answers == 1 && (x.Outcome == Committed) == (k.decided == Committed)
			if x.Outcome == Undecided {
				ok = ok && x.Err == ErrForgotten
			}
		}
		if !ok {
			t.Fatalf("%#v after %#v", x, k.path)
		}
	}
	if o := k.c.Outcome(); k.outcome.isFinal() && o != k.outcome {
		t.Fatalf("the outcome changed from %v to %v after %#v", k.outcome, o, k.path)
	}
	k.outcome = k.c.Outcome()
}

func TestAPatientCoordinatorWaitsForLocks(t *testing.T) {
	plan := Plan{ID: ID{1}, CoordinatorGroup: 1, Participants: make([]Participant, 2), Patient: true}
	c, _ := NewCoordinator(plan)
	if effects := c.Step(Refused{1, &LockedError{}}); effects != nil || c.State() != Preparing {
		t.Errorf("a lock makes it %v with %v", c.State(), effects)
	}
	if effects := c.Step(Timeout{}); len(effects) != 1 {
		t.Errorf("it does not try again: %v", effects)
	}
	c.Step(Prepared{1})
	c.Step(DecideRefused{Err: &LockedError{}})
	if c.State() != Deciding {
		t.Errorf("a lock at the coordinator group makes it %v", c.State())
	}
}

// It holds what it has asked for: the transaction that holds the rest may wait for it.
func TestAPatientCoordinatorWaitsForNobodyWhoHolds(t *testing.T) {
	c, _ := NewCoordinator(Plan{ID: ID{1}, CoordinatorGroup: 1, Participants: make([]Participant, 2), Patient: true})
	if c.Step(Refused{1, ErrReserved}); c.State() != Resolving {
		t.Errorf("a hold makes it %v", c.State())
	}
}

func TestAResumedCoordinatorAnswersNobody(t *testing.T) {
	span := partition.Span{Start: positionOf("b"), End: positionOf("d")}
	c, effects := ResumeCoordinator(Decision{ID: ID{1}, Outcome: Committed, Spans: []partition.Span{span}}, 1)
	if len(effects) != 1 {
		t.Fatalf("it begins with %#v", effects)
	}
	if send, ok := effects[0].(SendResolve); !ok || !send.Commit {
		t.Fatalf("it begins with %#v", effects)
	}
	c.Step(Resolved{partition.Span{Start: positionOf("b"), End: positionOf("c")}})
	if c.State() != Resolving {
		t.Fatal("a piece is taken for the whole")
	}
	if effects := c.Step(Resolved{partition.Span{Start: positionOf("c")}}); c.State() != Collecting || len(effects) != 1 {
		t.Errorf("it is %v with %v", c.State(), effects)
	}
	if n := len(c.MakeCollect().Confirmed); n != 2 {
		t.Errorf("%d spans are confirmed, want 2", n)
	}
}

// A machine may sleep between the last Prepare and the first Decide. The coordinator group has no record
// then, and cannot report more; but a coordinator that knows that the coordinator group was never asked
// before knows that nothing was committed.
func TestADeciderThatIsAskedForTheFirstTimeHasForgottenNothing(t *testing.T) {
	for _, none := range []bool{true, false} {
		c, _ := NewCoordinator(Plan{ID: ID{1}, CoordinatorGroup: 1, Participants: []Participant{{}, {Span: partition.Span{Start: positionOf("b"), End: positionOf("c")}}}})
		c.Step(Prepared{1})
		effects := c.Step(DecideRefused{Err: ErrForgotten, NoneInFlight: none})
		want := Answer{Outcome: Undecided, Err: ErrForgotten}
		if none {
			want = Answer{Outcome: Aborted, Err: ErrDeadline}
		}
		if len(effects) == 0 || effects[0] != Effect(want) {
			t.Errorf("none left: %v: %v, want %v first", none, effects, want)
		}
	}
}
