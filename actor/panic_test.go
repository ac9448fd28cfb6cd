package actor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cleavekv/cleave/actor"
)

func boom() { panic("boom") }

// queueUp sends jobs 1 to n one by one while the actor is busy with job 0; job
// bad calls f. It returns their errors once all are answered.
func queueUp(t *testing.T, a *worker, n, bad int, f func()) []error {
	release := occupy(t, a)
	errs := make([]error, n+1)
	var wg sync.WaitGroup
	for id := 1; id <= n; id++ {
		wg.Go(func() {
			errs[id] = errors.New("never returned")
			j := job{id: id}
			if id == bad {
				j.run = f
			}
			_, errs[id] = a.Call(context.Background(), j)
		})
		synctest.Wait()
	}
	release()
	wg.Wait()
	return errs
}

func TestAPanicFailsItsOwnMessageAndPoisonsTheRest(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		poisonOne(t, actor.Options{Mode: mode})              // the rest of its batch
		poisonOne(t, actor.Options{Mode: mode, MaxBatch: 1}) // batches still in the mailbox
	})
}

func poisonOne(t *testing.T, o actor.Options) {
	var heard []*actor.PanicError
	o.OnPanic = func(p *actor.PanicError) {
		heard = append(heard, p)
		panic("in the listener")
	}
	a := newWorker(t, o)
	errs := queueUp(t, a, 4, 2, boom)
	if errs[1] != nil {
		t.Errorf("before the panic: %v", errs[1])
	}
	var p *actor.PanicError
	if !errors.As(errs[2], &p) || p.Value != "boom" || p.Index != 0 || !strings.Contains(string(p.Stack), "boom") {
		t.Errorf("the panic: %v", errs[2])
	}
	_, later := a.Call(t.Context(), job{id: 5})
	do := a.Do(t.Context(), func(*diary) { t.Error("done") })
	for _, err := range []error{errs[3], errs[4], later, do, a.Post(t.Context(), job{}), a.PostBatch(t.Context(), make([]job, 2)), a.CallBatch(t.Context(), make([]job, 2), make([]int, 2))} {
		var poisoned *actor.PoisonedError
		if !errors.Is(err, actor.ErrPoisoned) || !errors.As(err, &poisoned) || poisoned.Panic.Value != "boom" {
			t.Errorf("after the panic: %v", err)
		}
		if errors.As(err, &p) {
			t.Errorf("a message that never ran says it panicked: %v", err)
		}
	}
	if got := stopAndRead(t, a); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("handled %v", got)
	}
	st := a.Stats()
	if len(heard) != 1 || st.Panics != 1 || st.Dropped != 2 || st.Handled != 3 || st.Accepted != 5 {
		t.Errorf("heard %v, stats %+v", heard, st)
	}
}

func TestWorkThatWaitedForTheActorDoesNotSeeAPoisonedState(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		a := newWorker(t, actor.Options{Mode: mode})
		release := occupy(t, a)
		if err := a.Post(t.Context(), job{run: boom}); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := a.Do(context.Background(), func(*diary) { t.Error("done") }); !errors.Is(err, actor.ErrPoisoned) {
				t.Error(err)
			}
		})
		synctest.Wait()
		release()
		wg.Wait()
		stopAndRead(t, a)
	})
}

func TestAnActorThatKeepsGoingLosesOnlyTheMessageThatPanicked(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		a := newWorker(t, actor.Options{Mode: mode, AfterPanic: actor.KeepGoing})
		errs := queueUp(t, a, 4, 2, boom)
		for id, err := range errs {
			if p := new(actor.PanicError); errors.As(err, &p) != (id == 2) || (err == nil) != (id != 2) {
				t.Errorf("%d: %v", id, err)
			}
		}
		if got := stopAndRead(t, a); !slices.Equal(got, []int{0, 1, 3, 4}) {
			t.Errorf("handled %v", got)
		}
	})
}

func TestAPanicOfABatchHandlerFailsItsWholeBatchAndNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		a := newBatchWorker(t, actor.Options{Mode: mode, AfterPanic: actor.KeepGoing, MaxBatch: 2})
		for id, err := range queueUp(t, a, 6, 4, boom) {
			p := new(actor.PanicError)
			if hit := id == 3 || id == 4; errors.As(err, &p) != hit || (err == nil) == hit || hit && p.Index != -1 {
				t.Errorf("%d: %v", id, err)
			}
		}
		stopAndRead(t, a)
	})
}

func TestAPanicInACallBatchSaysWhichMessage(t *testing.T) {
	bothModes(t, func(t *testing.T, mode actor.Mode) {
		bad := errors.Join(io.ErrUnexpectedEOF)
		for _, policy := range []actor.PanicPolicy{actor.Poison, actor.KeepGoing} {
			a := newWorker(t, actor.Options{Mode: mode, AfterPanic: policy})
			rs := make([]int, 4)
			err := a.CallBatch(t.Context(), []job{{id: 1}, {id: 2}, {id: 3, run: func() { panic(bad) }}, {id: 4}}, rs)
			p := new(actor.PanicError)
			if !errors.As(err, &p) || p.Index != 2 || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%v", err)
			}
			want := []int{1, 2, 0, 4}
			if policy == actor.Poison {
				want[3] = 0
			}
			if !slices.Equal(rs, want) {
				t.Errorf("policy %d: replies %v, want %v", policy, rs, want)
			}
			stopAndRead(t, a)
		}
	})
}

// A handler that gives up because of another actor must not make its caller
// believe that its own message was never handled.
func TestAPanicWithTheErrorOfAnotherActorIsNoRefusal(t *testing.T) {
	fates := []error{actor.ErrFull, actor.ErrStopped, actor.ErrPoisoned, actor.ErrAbandoned}
	for _, fate := range fates {
		a := newWorker(t, actor.Options{})
		_, err := a.Call(t.Context(), job{run: func() { panic(fmt.Errorf("elsewhere: %w", fate)) }})
		if p := new(actor.PanicError); !errors.As(err, &p) {
			t.Error(err)
		}
		for _, wrong := range fates {
			if errors.Is(err, wrong) {
				t.Errorf("%v taken for %v", err, wrong)
			}
		}
	}
}

func TestAPostedPanicReachesTheListenerAndNotTheSender(t *testing.T) {
	bothModes(t, func(t *testing.T, mode actor.Mode) {
		heard := 0
		a := newWorker(t, actor.Options{Mode: mode, AfterPanic: actor.KeepGoing, OnPanic: func(*actor.PanicError) { heard++ }})
		for range 3 {
			if err := a.Post(t.Context(), job{run: boom}); err != nil {
				t.Error(err)
			}
		}
		if err := a.PostBatch(t.Context(), []job{{run: boom}, {id: 1}, {run: boom}}); err != nil {
			t.Error(err)
		}
		if got := stopAndRead(t, a); !slices.Equal(got, []int{1}) || heard != 5 {
			t.Errorf("handled %v, heard %d", got, heard)
		}
	})
}

func TestAPanicInDoIsContained(t *testing.T) {
	bothModes(t, func(t *testing.T, mode actor.Mode) {
		a := newWorker(t, actor.Options{Mode: mode})
		err := a.Do(t.Context(), func(*diary) { boom() })
		if p := new(actor.PanicError); !errors.As(err, &p) {
			t.Error(err)
		}
		if _, err := a.Call(t.Context(), job{}); !errors.Is(err, actor.ErrPoisoned) {
			t.Error(err)
		}
		stopAndRead(t, a)
	})
}

func TestAHandlerThatEndsItsGoroutineFailsTheRestOfItsBatchAndFreesTheActor(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		for _, make := range []func(*testing.T, actor.Options) *worker{newWorker, newBatchWorker} {
			a := make(t, actor.Options{Mode: mode, AfterPanic: actor.KeepGoing, MaxBatch: 3})
			errs := queueUp(t, a, 7, 2, runtime.Goexit)
			exited := 0
			for id, err := range errs {
				switch p := new(actor.PanicError); {
				case err == nil:
				case errors.As(err, &p) && p.Value == actor.ErrGoexit && id <= 3:
				case mode == actor.Combining && err.Error() == "never returned":
					exited++ // its goroutine was the one that ran the handler
				default:
					t.Errorf("%d: %v", id, err)
				}
			}
			if errs[2] == nil || exited > 1 {
				t.Errorf("%v", errs)
			}
			if _, err := a.Call(t.Context(), job{id: 8}); err != nil {
				t.Errorf("afterwards: %v", err)
			}
			stopAndRead(t, a)
		}
	})
}

func TestDoThatEndsItsGoroutineFreesTheActor(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		a := newWorker(t, actor.Options{Mode: mode, AfterPanic: actor.KeepGoing})
		go func() { _ = a.Do(context.Background(), func(*diary) { runtime.Goexit() }) }()
		synctest.Wait()
		if _, err := a.Call(t.Context(), job{id: 1}); err != nil {
			t.Error(err)
		}
		stopAndRead(t, a)
	})
}
