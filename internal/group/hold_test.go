package group

import (
	"context"
	"errors"
	"testing"
	"time"

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

func holding(id byte, keys ...string) *txn.Hold {
	c := &txn.Hold{ID: txn.ID{id}, DeadlineMS: 1 << 50}
	for _, key := range keys {
		c.Claims = append(c.Claims, txn.Claim{Span: txn.KeySpan(at(key)), Write: true})
	}
	return c
}

// There is always one more transaction that asks for a turn. A plain write has its own
// between those who were there when it came and those who came later.
func TestAPlainWriteHasItsTurnAmongThoseWhoHold(t *testing.T) {
	for name, write := range map[string]func(ctx context.Context, a, z *Group) error{
		"one group": func(ctx context.Context, a, _ *Group) error {
			reply, err := a.Do(ctx, Request{Command: set("a", "plain"), Key: at("a")})
			return errors.Join(err, reply.Err)
		},
		"two groups": func(ctx context.Context, a, z *Group) error {
			pieces := []Piece{{z, Request{Command: set("z", "plain")}}, {a, Request{Command: set("a", "plain")}}}
			replies, err := Joint(ctx, pieces)
			for _, r := range replies {
				err = errors.Join(err, r.Err)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDisk(true)
			a, z := owner(t, d, 1, serving("a", "m", 1)), owner(t, d, 2, serving("m", "", 1))
			do(t, a, holding(1, "a"))
			limited, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer stop()
			written := make(chan error, 1)
			go func() { written <- write(limited, a, z) }()
			for !a.Awaited() {
				time.Sleep(time.Millisecond)
			}
			if txn.HeldBy(do(t, a, holding(2, "a", "b"))) {
				t.Fatal("two hold the same")
			}
			do(t, a, &txn.Unhold{ID: txn.ID{1}})
			if err := <-written; err != nil {
				t.Fatalf("it waits for one who came later: %v", err)
			}
			if !txn.HeldBy(do(t, a, holding(2, "a", "b"))) {
				t.Error("who came later has no turn when the write is over")
			}
			for _, key := range []string{"a", "b"} {
				if err := try(a, set(key, "late")); !errors.Is(err, txn.ErrHeld) {
					t.Errorf("a write of %s that came last: %v, want ErrHeld", key, err)
				}
			}
		})
	}
}

// Nobody has a turn before a write that waits, but for a write whose caller has left.
func TestAHoldIsNotGrantedBeforeAWriteThatWaits(t *testing.T) {
	clock := &wallClock{}
	clock.ms.Store(1000)
	g := open(t, newDisk(true), Options{Wall: clock.read})
	do(t, g, holding(1, "a"))
	reply, err := g.Try(t.Context(), Request{Command: set("a", "plain"), waits: true})
	if err != nil || !errors.Is(reply.Err, txn.ErrHeld) {
		t.Fatal(reply.Err, err)
	}
	do(t, g, holding(2, "a"))
	do(t, g, &txn.Unhold{ID: txn.ID{1}})
	for _, step := range []struct {
		ms   int64
		held bool
	}{{1000 + placeMS, false}, {1001 + placeMS, true}} {
		clock.ms.Store(step.ms)
		if held := txn.HeldBy(do(t, g, holding(2, "a"))); held != step.held {
			t.Errorf("at %d it is held: %v", step.ms, held)
		}
	}
}
