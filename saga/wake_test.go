package saga_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/saga"
)

// Whoever hears that a saga is stuck, and removes the cause at once, has it go on: also if
// that is before the goroutine that told of it has ended.
func TestARetryThatComesAsTheSagaGetsStuckIsNotLost(t *testing.T) {
	for range 20 {
		var repaired atomic.Bool
		var r *saga.Runner
		retried := make(chan error, 1)
		r = newRunner(t, saga.Memory(), saga.Options{OnChange: func(i saga.Info) {
			if i.Stuck == saga.StuckUndo {
				repaired.Store(true)
				retried <- r.Retry(context.Background(), i.ID)
			}
		}})
		sagas, err := saga.Register(r, saga.Definition[diary]{
			Name:  "trip",
			Retry: saga.Retry{UndoAttempts: 1, First: time.Millisecond},
			Steps: []saga.Step[diary]{
				{
					Name: "a",
					Do:   func(context.Context, saga.Call, *diary) error { return nil },
					Undo: func(context.Context, saga.Call, *diary) error {
						if !repaired.Load() {
							return errors.New("not yet")
						}
						return nil
					},
				},
				{Name: "b", Do: func(context.Context, saga.Call, *diary) error { return saga.Permanent(errors.New("no")) }},
			},
		})
		must(t, err)
		must(t, sagas.Start(context.Background(), "1", diary{}))
		must(t, <-retried)
		limited, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for {
			_, err := sagas.Wait(limited, "1")
			if errors.Is(err, saga.ErrCompensated) {
				break
			}
			if !errors.Is(err, saga.ErrStuck) { // as it was before
				t.Fatalf("it does not go on: %v", err)
			}
		}
	}
}

// rot is a value that cannot be read any more, and takes the program down with it.
type rot struct{ Bad bool }

type rotten struct{}

func (rotten) Encode(r rot) ([]byte, error) { return []byte{1}, nil }
func (rotten) Decode([]byte) (rot, error)   { panic("rotten") }

// A codec that panics makes a saga stuck, and not the program end.
func TestACodecThatPanicsMakesTheSagaStuck(t *testing.T) {
	r := newRunner(t, saga.Memory(), saga.Options{})
	sagas, err := saga.Register(r, saga.Definition[rot]{
		Name: "rot", Codec: rotten{},
		Steps: []saga.Step[rot]{{Name: "a", Do: func(context.Context, saga.Call, *rot) error { return nil }}},
	})
	must(t, err)
	must(t, sagas.Start(context.Background(), "1", rot{}))
	for {
		i, err := r.Inspect(context.Background(), "1")
		must(t, err)
		if i.Stuck == saga.StuckCode {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
