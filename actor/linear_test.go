package actor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/cleavekv/cleave/actor"
)

// access is what is done to the register, and saw what came back.
type access struct {
	write bool
	value int
}

type saw struct {
	value int
	known bool // false if the caller left before the reply
}

// register is the sequential truth: a cell that answers with its old value.
var register = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, input, output any) (bool, any) {
		in, out := input.(access), output.(saw)
		next := state
		if in.write {
			next = in.value
		}
		return !out.known || out.value == state, next
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

func exchange(cell *int, a access) int {
	old := *cell
	if a.write {
		*cell = a.value
	}
	return old
}

func TestARegisterIsLinearizable(t *testing.T) {
	bothModes(t, func(t *testing.T, mode actor.Mode) {
		r := seeded(t)
		for range soak(20) {
			history := recordHistory(t, r, actor.Options{Mode: mode, Capacity: 1 + r.IntN(4), MaxBatch: 1 + r.IntN(3), Turns: r.IntN(4) - 1, Gather: r.IntN(2) == 0})
			if !porcupine.CheckOperations(register, history) {
				t.Fatalf("not linearizable: %+v", history)
			}
		}
	})
}

// recordHistory lets some clients work on one register and notes when each
// operation began and ended.
func recordHistory(t *testing.T, r *rand.Rand, o actor.Options) []porcupine.Operation {
	a, err := actor.New(0, actor.Each(exchange), o)
	if err != nil {
		t.Fatal(err)
	}
	var clock, value atomic.Int64
	var mu sync.Mutex
	var history []porcupine.Operation
	var wg sync.WaitGroup
	for client := range 5 {
		r := rand.New(rand.NewPCG(r.Uint64(), 2))
		wg.Go(func() {
			for range 12 {
				ctx, cancel := context.Background(), func() {}
				if r.IntN(6) == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(20))*time.Microsecond)
				}
				in := access{write: r.IntN(2) == 0, value: int(value.Add(1))}
				op := porcupine.Operation{ClientId: client, Input: in, Call: clock.Add(1)}
				out, err := a.Call(ctx, in)
				op.Output, op.Return = saw{out, err == nil}, clock.Add(1)
				cancel()
				if err != nil {
					if !errors.Is(err, actor.ErrAbandoned) {
						continue // it did not happen
					}
					op.Return = 1 << 40 // it may happen any time from now
				}
				mu.Lock()
				history = append(history, op)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := a.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	return history
}
