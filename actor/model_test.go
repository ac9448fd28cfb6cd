package actor_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/actor"
)

// ledger is an actor beside what it should be: a list of what it was told,
// each answered with the number of entries before it. A negative message
// panics after it was written down.
type ledger struct {
	a        *actor.Actor[[]int, int, int]
	policy   actor.PanicPolicy
	want     []int
	poisoned bool
	stopped  bool
}

func write(list *[]int, m int) int {
	*list = append(*list, m)
	if m < 0 {
		panic(m)
	}
	return len(*list) - 1
}

// expect plays ms and returns their replies, and the index of the first that
// panics or -1.
func (l *ledger) expect(ms []int) (replies []int, hit int) {
	replies, hit = make([]int, len(ms)), -1
	for i, m := range ms {
		if l.poisoned {
			break
		}
		l.want = append(l.want, m)
		if m < 0 {
			if hit < 0 {
				hit = i
			}
			l.poisoned = l.policy == actor.Poison
			continue
		}
		replies[i] = len(l.want) - 1
	}
	return replies, hit
}

// refused is the error that closed doors give, or nil. Posts of an owner may
// still be on their way when they poison it, so a poisoned door may look open
// to a sender: settle makes sure it does not.
func (l *ledger) refused() error {
	switch {
	case l.poisoned:
		return actor.ErrPoisoned
	case l.stopped:
		return actor.ErrStopped
	}
	return nil
}

// settle waits until everything sent so far was handled.
func (l *ledger) settle(t *rapid.T) {
	_ = l.a.Do(t.Context(), func(*[]int) {})
}

func (l *ledger) callBatch(t *rapid.T, ms []int) {
	door := l.refused()
	rs := make([]int, len(ms))
	err := l.a.CallBatch(t.Context(), ms, rs)
	if door != nil {
		if !errors.Is(err, door) && len(ms) > 0 {
			t.Fatalf("%v, want %v", err, door)
		}
		return
	}
	want, hit := l.expect(ms)
	p := new(actor.PanicError)
	if errors.As(err, &p) != (hit >= 0) || hit >= 0 && p.Index != hit || hit < 0 && err != nil {
		t.Fatalf("%v, want a panic at %d", err, hit)
	}
	if !slices.Equal(rs, want) {
		t.Fatalf("replies %v, want %v", rs, want)
	}
}

func (l *ledger) postBatch(t *rapid.T, ms []int) {
	door := l.refused()
	err := l.a.PostBatch(t.Context(), ms)
	l.settle(t)
	if door != nil && len(ms) > 0 {
		if !errors.Is(err, door) {
			t.Fatalf("%v, want %v", err, door)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	l.expect(ms)
}

func (l *ledger) do(t *rapid.T) {
	err := l.a.Do(t.Context(), func(list *[]int) {
		if !slices.Equal(*list, l.want) {
			t.Fatalf("state %v, want %v", *list, l.want)
		}
	})
	if door := l.refused(); !errors.Is(err, door) {
		t.Fatalf("%v, want %v", err, door)
	}
}

func TestAnActorBehavesLikeAListWithADoor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := actor.Options{
			Mode:       actor.Mode(rapid.IntRange(0, 1).Draw(t, "mode")),
			AfterPanic: actor.PanicPolicy(rapid.IntRange(0, 1).Draw(t, "policy")),
			Capacity:   rapid.IntRange(8, 20).Draw(t, "capacity"),
			MaxBatch:   rapid.IntRange(1, 9).Draw(t, "max"),
			Turns:      rapid.IntRange(-1, 2).Draw(t, "turns"),
		}
		a, err := actor.New([]int(nil), actor.Each(write), o)
		if err != nil {
			t.Fatal(err)
		}
		l := &ledger{a: a, policy: o.AfterPanic}
		message := rapid.Custom(func(t *rapid.T) int {
			if m := rapid.IntRange(-1, 30).Draw(t, "m"); m != 0 {
				return m
			}
			return 1
		})
		batch := rapid.SliceOfN(message, 0, 8)
		t.Repeat(map[string]func(*rapid.T){
			"callBatch": func(t *rapid.T) { l.callBatch(t, batch.Draw(t, "ms")) },
			"postBatch": func(t *rapid.T) { l.postBatch(t, batch.Draw(t, "ms")) },
			"do":        l.do,
			"stop": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "really") > 0 {
					return
				}
				if err := a.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
				l.stopped = true
			},
		})
		if err := a.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := *actor.StateOf(a); !slices.Equal(got, l.want) {
			t.Fatalf("state %v, want %v", got, l.want)
		}
	})
}
