package group

import (
	"errors"
	"testing"

	"github.com/cleavekv/cleave/internal/txn"
)

// Whoever asked for a turn may have died, or could not say that it was over: nobody
// else may ask for one, so the group itself ends it.
func TestAHoldPastItsDeadlineEndsByTending(t *testing.T) {
	clock := &wallClock{}
	clock.ms.Store(1000)
	g := open(t, newDisk(true), Options{Wall: clock.read})
	c := &txn.Hold{ID: txn.ID{1}, Claims: []txn.Claim{{Span: txn.KeySpan(at("a")), Write: true}}, DeadlineMS: 2000}
	if reply := do(t, g, c); !txn.HeldBy(reply) {
		t.Fatal("it is not held")
	}
	changed := g.Changed()
	for _, step := range []struct {
		ms   int64
		want error
	}{{2000, txn.ErrHeld}, {2001, nil}} {
		clock.ms.Store(step.ms)
		if _, err := g.Tend(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := try(g, set("a", "1")); !errors.Is(err, step.want) {
			t.Errorf("at %d: %v, want %v", step.ms, err, step.want)
		}
	}
	select {
	case <-changed:
	default:
		t.Error("those who wait were not woken")
	}
}
