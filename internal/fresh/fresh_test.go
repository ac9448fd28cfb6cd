package fresh

import "testing"

func TestALoadIsFreshUnlessSomethingHappenedSinceItBegan(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(*Epochs, *Load)
		want    bool
	}{
		"nothing":         {func(*Epochs, *Load) {}, true},
		"an invalidation": {func(_ *Epochs, l *Load) { l.Invalidate() }, false},
		"a flush":         {func(e *Epochs, _ *Load) { e.Flush() }, false},
		"an interruption": {func(e *Epochs, _ *Load) { e.Interrupt() }, false},
		"a gap":           {func(e *Epochs, _ *Load) { e.Interrupt(); e.Resume() }, false},
		"a beginning":     {func(e *Epochs, _ *Load) { e.Resume() }, false},
	} {
		var e Epochs
		l := Load{Epoch: e.Now()}
		if c.happens(&e, &l); l.Fresh(e.Now()) != c.want {
			t.Errorf("after %s a load is fresh: %v", name, !c.want)
		}
	}
	var e Epochs
	e.Interrupt()
	if l := (Load{Epoch: e.Now()}); l.Fresh(e.Now()) {
		t.Error("a load of a gap is fresh")
	}
	e.Flush()
	if e.Resume(); !(&Load{Epoch: e.Now()}).Fresh(e.Now()) {
		t.Error("after a gap nothing is fresh")
	}
}
