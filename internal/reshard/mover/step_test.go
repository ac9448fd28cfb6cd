package mover

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/ownership"
)

// inPhase is a move in a phase, as far as it needs to be one.
func inPhase(p Phase) Job {
	j := Job{
		ID: 5, Kind: Move, Phase: p, Rev: 10, Round: 10, Shard: 2, Expect: 1, Span: testSpan, From: 1, To: 3,
		SourceRanges: []ownership.Range{{Span: testSpan, Version: 1, State: ownership.Serving}}, Attempt: 1, Parallel: 1,
	}
	if p.IsFrozen() {
		j.Freezes, j.FrozenMS = 1, 1000
	}
	if p.isDecided() {
		j.Version, j.Freezes, j.FrozenMS = 7, 1, 1000
	}
	if p >= Marking && !p.IsFinal() {
		j.Kind, j.SourceRanges = Drain, nil
	}
	return j
}

func TestARangeIsThawedWhenItsFreezeTakesTooLong(t *testing.T) {
	for p := range phaseNames {
		if !p.IsFrozen() || p == Thawing {
			continue
		}
		j := inPhase(p)
		if next, _ := Step(j, Timeout{}, 1000+FreezeLimitMS); next.Phase != p {
			t.Errorf("%v becomes %v within the limit", p, next.Phase)
		}
		next, effects := Step(j, Timeout{}, 1001+FreezeLimitMS)
		if next.Phase != Thawing || len(effects) != 1 {
			t.Fatalf("%v becomes %v", p, next.Phase)
		}
		next, _ = Step(next, Evaluated{Round: next.Round}, 1040)
		if next.Phase != CatchingUp || next.NotBeforeMS <= 1040 || next.Cost.LongestPauseMS != 40 {
			t.Errorf("%v goes on as %+v", p, next)
		}
		j.Freezes = maxFreezes
		if next, _ := Step(j, Timeout{}, 1000+8*FreezeLimitMS); next.Phase != p {
			t.Errorf("%v is given no more time after %d freezes", p, j.Freezes)
		}
		next, _ = Step(j, Timeout{}, 1001+8*FreezeLimitMS)
		next, _ = Step(next, Evaluated{Round: next.Round}, 1040)
		if next.Phase != Abandoning || !strings.Contains(next.Reason, "within") {
			t.Errorf("%v is tried for ever: %v, %q", p, next.Phase, next.Reason)
		}
	}
	for _, p := range []Phase{Releasing, Activating} {
		if next, _ := Step(inPhase(p), Timeout{}, 1<<40); next.Phase != p {
			t.Errorf("%v goes back to %v", p, next.Phase)
		}
	}
}

func TestAnAnswerToAnEarlierRoundChangesNothing(t *testing.T) {
	for p := range phaseNames {
		j := inPhase(p)
		j.FrozenMS = 0
		for _, ev := range []Event{
			OwnershipRead{Round: 9}, Evaluated{Round: 9, Position: 5}, Located{9, 5}, Copied{Round: 9}, CaughtUp{Round: 9}, Verified{Round: 9, Equal: true},
			Acknowledged{9}, Surveyed{Round: 9}, Failed{9, errors.New("late")},
		} {
			if next, effects := Step(j, ev, 1); !reflect.DeepEqual(next, j) || len(effects) > 0 {
				t.Errorf("%v takes a late %T", p, ev)
			}
		}
	}
}

// An answer of the wrong kind is a driver's mistake. It must not do harm.
func TestAnAnswerToAnotherQuestionChangesNothing(t *testing.T) {
	asks := map[string][]Phase{
		"OwnershipRead": {Planned}, "Located": {Locating}, "Copied": {Copying}, "CaughtUp": {CatchingUp, Finishing}, "Verified": {Verifying, Comparing},
		"Acknowledged": {Publishing, Hosting, Retiring}, "Surveyed": {Surveying, Stopping},
	}
	for p := range phaseNames {
		j := inPhase(p)
		j.FrozenMS = 0
		for _, ev := range []Event{OwnershipRead{Round: 10}, Located{10, 5}, Copied{Round: 10}, CaughtUp{Round: 10}, Verified{Round: 10}, Acknowledged{10}, Surveyed{Round: 10}} {
			name := reflect.TypeOf(ev).Name()
			asked := false
			for _, q := range asks[name] {
				asked = asked || q == p
			}
			if next, _ := Step(j, ev, 1); !asked && !reflect.DeepEqual(next, j) {
				t.Errorf("%v takes a %s and becomes %v", p, name, next.Phase)
			}
		}
	}
}

func TestTheCopyBeginsAnewWhenItCannotBeFinished(t *testing.T) {
	for _, p := range []Phase{Copying, CatchingUp, Verifying, Finishing, Comparing} {
		for _, ev := range []Event{Failed{10, ErrGone}, Failed{10, ErrLogGap}, Failed{10, ErrNotIncoming}, Verified{Round: 10}} {
			if _, differs := ev.(Verified); differs && p != Verifying && p != Comparing {
				continue
			}
			j := inPhase(p)
			j.CopiedUpTo, j.VerifiedUpTo, j.Cursor = 50, 40, []byte{1}
			next, _ := Step(j, ev, 1001)
			if p.IsFrozen() {
				if next.Phase != Thawing {
					t.Fatalf("%v is left frozen as %v", p, next.Phase)
				}
				next, _ = Step(next, Evaluated{Round: next.Round}, 1002)
			}
			if next.Phase != Preparing || next.Attempt != 2 || next.CopiedUpTo != 0 || next.VerifiedUpTo != 0 || next.Cursor != nil || next.Recopy {
				t.Errorf("%v after %v: %+v", p, ev, next)
			}
			j.Attempt = maxAttempts
			next, _ = Step(j, ev, 1001)
			if !next.Undo || next.Phase != Thawing && next.Phase != Abandoning || next.Reason == "" {
				t.Errorf("%v is tried for ever: %v", p, next.Phase)
			}
		}
	}
}

func TestWeatherIsWaitedFor(t *testing.T) {
	for p := range phaseNames {
		if p.IsFinal() || p == Deciding || p == Marking || p == Unmarking || p == Removing {
			continue
		}
		j := inPhase(p)
		j.FrozenMS = 0
		next, effects := Step(j, Failed{10, errors.New("weather")}, 1)
		if next.Phase != p || next.Reason != "weather" || len(effects) > 0 {
			t.Errorf("%v: %v, %v", p, next.Phase, effects)
		}
		if again, effects := Step(next, Timeout{}, 2); again.Phase != p || len(effects) == 0 {
			t.Errorf("%v is not tried again", p)
		}
	}
}

func TestAPausedJobCarriesNothingAndLeavesNothingFrozen(t *testing.T) {
	for p := range phaseNames {
		j, err := Pause(inPhase(p), 1)
		if p.IsFinal() {
			if !errors.Is(err, ErrJobEnded) {
				t.Errorf("%v: %v", p, err)
			}
			continue
		}
		if quiet := len(PendingEffects(j)) == 0; quiet != p.isPausable() || quiet && p.IsFrozen() {
			t.Errorf("%v: %v", p, PendingEffects(j))
		}
		back, effects, err := Unpause(j, 2)
		if err != nil || back.Paused || !reflect.DeepEqual(effects, PendingEffects(back)) || len(effects) == 0 {
			t.Errorf("%v does not go on: %v, %v", p, effects, err)
		}
	}
	// It does not freeze after it was paused.
	j, _ := Pause(inPhase(CatchingUp), 1)
	j.CopiedUpTo, j.VerifiedUpTo = 50, 50
	if next, effects := Step(j, CaughtUp{Round: 10, CopiedUpTo: 50}, 2); next.Phase != CatchingUp || len(effects) > 0 {
		t.Errorf("it is %v", next.Phase)
	}
}

func TestAThrottleBoundsWhatIsCarriedInASecond(t *testing.T) {
	j := inPhase(Copying)
	j, err := SetThrottle(j, 1<<20, 0)
	if err != nil {
		t.Fatal(err)
	}
	nowMS, carried := int64(0), uint64(0)
	for range 50 {
		var effects []Effect
		j, effects = Step(j, Copied{Round: j.Round, Next: []byte{1}, Bytes: 300 << 10}, nowMS)
		carried += 300 << 10
		nowMS = max(nowMS, effects[0].(Copy).NotBeforeMS)
	}
	if rate := carried * 1000 / uint64(nowMS); rate > 1<<20+1<<12 || rate < 1<<20-1<<12 {
		t.Errorf("%d bytes a second", rate)
	}
	if _, err := SetThrottle(j, 5, 0); !errors.Is(err, ErrBadRequest) {
		t.Errorf("5 bytes a second: %v", err)
	}
	j.Phase, j.Freezes, j.EndPosition = Finishing, 1, 90
	if e := PendingEffects(j)[0].(CatchUp); e.NotBeforeMS != 0 || e.Until != 90 {
		t.Errorf("a frozen range waits: %+v", e)
	}
}

func TestADecisionIsMadeOnceAndOnlyInItsPlace(t *testing.T) {
	v := fourShards(t)
	j, err := Admit(v, Request{Kind: Move, Shard: 2, To: 3}, 5, 0)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := v.Map.Shard(2)
	j.SourceRanges, j.Attempt, j.Freezes, j.Phase = []ownership.Range{{Span: s.Span, Version: s.Changed, State: ownership.Serving}}, 1, 1, Deciding
	choose := DecideJob{Round: j.Round}
	next, m, effects, err := Decide(j, choose, v.Map, 1)
	if err != nil || next.Phase != Releasing || next.Version != m.Version() || m.Owner(positionOf("b1")).Group != 3 || len(effects) != 1 {
		t.Fatalf("%+v, %v", next, err)
	}
	for _, p := range []Phase{CatchingUp, Thawing, Abandoning, Wiping, Dismissing, RolledBack, Releasing, Activating, Done} {
		other := j
		other.Phase = p
		if _, _, _, err := Decide(other, choose, v.Map, 1); !errors.Is(err, ErrNotDeciding) {
			t.Errorf("a decision while %v: %v", p, err)
		}
	}
	if _, _, _, err := Decide(j, DecideJob{Round: j.Round - 1}, v.Map, 1); !errors.Is(err, ErrNotDeciding) {
		t.Errorf("a late decision: %v", err)
	}
	refused, _ := Step(j, Failed{j.Round, err}, 1)
	if refused.Phase != j.Phase { // no error: nothing happens
		t.Errorf("it becomes %v", refused.Phase)
	}
	refused, _ = Step(j, Failed{j.Round, errors.New("drains")}, 1)
	if refused.Phase != Thawing || !refused.Undo {
		t.Errorf("a move that may not be is %v", refused.Phase)
	}
}

// A freeze that was lost in flight must not find the range after the job was taken back: the
// range would stay frozen.
func TestAFreezeThatComesAfterItsThawChangesNothing(t *testing.T) {
	for _, arrived := range []bool{false, true} {
		p := newOwner(t, ownership.Range{Span: testSpan, Version: 1, State: ownership.Serving})
		j := inPhase(Freezing)
		freeze := PendingEffects(j)[0].(EvalCommands).Commands[0].Command
		if arrived {
			p.evalOne(freeze)
		}
		j, effects, err := Cancel(j, 1001)
		if err != nil {
			t.Fatal(err)
		}
		if reply, _ := p.evalOne(effects[0].(EvalCommands).Commands[0].Command); reply.Err != nil {
			t.Fatalf("%v: %v", j.Phase, reply.Err)
		}
		reply, _ := p.evalOne(freeze)
		if r, _ := p.site.Table.FindContaining(testSpan); !errors.Is(reply.Err, ownership.ErrStale) || r.State != ownership.Serving {
			t.Errorf("the range is %v, %v", r, reply.Err)
		}
	}
}

// The tables of DESIGN.md have for each phase what is wanted. They are compared with what jobs
// want.
func TestTheDesignSaysWhatEachPhaseWants(t *testing.T) {
	text, err := os.ReadFile("DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	design := map[string]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) == 6 && !strings.HasPrefix(cells[1], "-") {
			design[strings.TrimSpace(cells[1])] = strings.TrimSpace(cells[2])
		}
	}
	wanted := func(j Job) string {
		e := PendingEffects(j)[0]
		text := reflect.TypeOf(e).Name()
		if e, ok := e.(EvalCommands); ok {
			text += " " + reflect.TypeOf(e.Commands[0].Command).Elem().Name()
		}
		return text
	}
	for p, name := range phaseNames {
		if p.IsFinal() {
			continue
		}
		if got := wanted(inPhase(p)); design[name] != got {
			t.Errorf("%s wants %s, the design says %q", name, got, design[name])
		}
	}
	for _, p := range []Phase{Planned, Deciding, Releasing, Publishing} {
		j := inPhase(p)
		j.Local = true
		if got := wanted(j); design["local "+p.String()] != got {
			t.Errorf("local %v wants %s, the design says %q", p, got, design["local "+p.String()])
		}
	}
}
