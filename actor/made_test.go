package actor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/cleavekv/cleave/actor"
)

// In a bubble a method that waits for ever is a deadlock, and fails.
func TestAnActorThatNewDidNotMakeSaysSoInsteadOfWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		for name, a := range map[string]*worker{"zero": new(worker), "nil": nil} {
			_, call := a.Call(ctx, job{})
			good := newWorker(t, actor.Options{})
			for method, err := range map[string]error{
				"Call":            call,
				"Post":            a.Post(ctx, job{}),
				"CallBatch":       a.CallBatch(ctx, make([]job, 2), make([]int, 2)),
				"empty CallBatch": a.CallBatch(ctx, nil, nil),
				"PostBatch":       a.PostBatch(ctx, make([]job, 2)),
				"empty PostBatch": a.PostBatch(ctx, nil),
				"Do":              a.Do(ctx, func(*diary) { t.Error("done") }),
				"DoAll":           actor.DoAll(ctx, []*worker{good, a}, func([]*diary) { t.Error("done") }),
				"Stop":            a.Stop(ctx),
			} {
				if !errors.Is(err, actor.ErrNotMade) {
					t.Errorf("%s of a %s actor: %v", method, name, err)
				}
			}
			if st := a.Stats(); st != (actor.Stats{}) {
				t.Errorf("a %s actor has counted %+v", name, st)
			}
		}
	})
}
