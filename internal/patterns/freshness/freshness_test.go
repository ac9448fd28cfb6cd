package freshness

import (
	"testing"
)

func TestALoadIsFreshUnlessSomethingHappenedSinceItBegan(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(*EpochClock, *Load)
		want    bool
	}{
		"nothing":         {func(*EpochClock, *Load) {}, true},
		"an invalidation": {func(_ *EpochClock, l *Load) { l.Invalidate() }, false},
		"a flush":         {func(e *EpochClock, _ *Load) { e.Flush() }, false},
		"an interruption": {func(e *EpochClock, _ *Load) { e.Interrupt() }, false},
		"a gap":           {func(e *EpochClock, _ *Load) { e.Interrupt(); e.Resume() }, false},
		"a beginning":     {func(e *EpochClock, _ *Load) { e.Resume() }, false},
	} {
		var e EpochClock
		l := Load{Epoch: e.Current()}
		if c.happens(&e, &l); l.IsFresh(e.Current()) != c.want {
			t.Errorf("after %s a load is fresh: %v", name, !c.want)
		}
	}
	var e EpochClock
	e.Interrupt()
	if l := (Load{Epoch: e.Current()}); l.IsFresh(e.Current()) {
		t.Error("a load of a gap is fresh")
	}
	e.Flush()
	if e.Resume(); !(&Load{Epoch: e.Current()}).IsFresh(e.Current()) {
		t.Error("after a gap nothing is fresh")
	}
}
