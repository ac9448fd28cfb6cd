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

func panicBoom() { panic("boom") }

// queueUp sends jobs 1 to n one by one while the actor is busy with job 0; job
// bad calls f. It returns their errors once all are answered.
func queueUp(t *testing.T, a *worker, n, bad int, f func()) []error {
	release := occupyActor(t, a)
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
	errs := queueUp(t, a, 4, 2, panicBoom)
	if errs[1] != nil {
		t.Errorf("before the panic: %v", errs[1])
	}
	var p *actor.PanicError
	if !errors.As(errs[2], &p) || p.Value != "boom" || p.Index != 0 || !strings.Contains(string(p.Stack), "panicBoom") {
		t.Errorf("the panic: %v", errs[2])
	}
	_, later := a.Call(t.Context(), job{id: 5})
	do := a.Do(t.Context(), func(*jobLog) { t.Error("done") })
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
		release := occupyActor(t, a)
		if err := a.Post(t.Context(), job{run: panicBoom}); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := a.Do(context.Background(), func(*jobLog) { t.Error("done") }); !errors.Is(err, actor.ErrPoisoned) {
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
		errs := queueUp(t, a, 4, 2, panicBoom)
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
		for id, err := range queueUp(t, a, 6, 4, panicBoom) {
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
			if err := a.Post(t.Context(), job{run: panicBoom}); err != nil {
				t.Error(err)
			}
		}
		if err := a.PostBatch(t.Context(), []job{{run: panicBoom}, {id: 1}, {run: panicBoom}}); err != nil {
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
		err := a.Do(t.Context(), func(*jobLog) { panicBoom() })
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
		go func() { _ = a.Do(context.Background(), func(*jobLog) { runtime.Goexit() }) }()
		synctest.Wait()
		if _, err := a.Call(t.Context(), job{id: 1}); err != nil {
			t.Error(err)
		}
		stopAndRead(t, a)
	})
}

// exitInPanic ends its goroutine, and panics while it does: the panic can be
// recovered, the end cannot.
func exitInPanic() {
	defer panicBoom()
	runtime.Goexit()
}

// mustAnswer checks that a is not held by a goroutine that is gone, and stops it.
func mustAnswer(t *testing.T, a *worker) {
	t.Helper()
	synctest.Wait()
	if _, err := a.Call(withOneSecond(t), job{}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if err := a.Stop(withOneSecond(t)); err != nil {
		t.Error(err)
	}
}

func TestAGoroutineThatPanicsWhileItEndsFreesTheActor(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		o := actor.Options{Mode: mode, AfterPanic: actor.KeepGoing}
		for name, f := range map[string]func(a *worker){
			"handler": func(a *worker) { _, _ = a.Call(context.Background(), job{run: exitInPanic}) },
			"do":      func(a *worker) { _ = a.Do(context.Background(), func(*jobLog) { exitInPanic() }) },
			"deferred": func(a *worker) { // here the goroutine ends for reasons of its own
				defer func() { _, _ = a.Call(context.Background(), job{run: panicBoom}) }()
				runtime.Goexit()
			},
		} {
			t.Log(name)
			a := newWorker(t, o)
			go f(a)
			mustAnswer(t, a)
		}
	})
}

func TestAListenerMayEndItsGoroutineAndMustNotStopTheActor(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		for _, f := range []func(){panicBoom, runtime.Goexit, exitInPanic} {
			var a *worker
			var stopped error
			a = newWorker(t, actor.Options{Mode: mode, AfterPanic: actor.KeepGoing, OnPanic: func(*actor.PanicError) {
				stopped = a.Stop(withOneSecond(t))
				runtime.Goexit()
			}})
			go func() { _, _ = a.Call(context.Background(), job{run: f}) }()
			mustAnswer(t, a)
			if !errors.Is(stopped, actor.ErrInHandler) {
				t.Errorf("stop in the listener: %v", stopped)
			}
		}
	})
}

// DoAll may be made to run the handler of an actor it waits for, while it holds
// others.
func TestJointWorkThatRunsAHandlerThatEndsItsGoroutineHoldsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		o := actor.Options{Mode: mode, AfterPanic: actor.KeepGoing, Turns: -1}
		a, b := newWorker(t, o), newWorker(t, o)
		release := occupyActor(t, b)
		if err := b.Post(t.Context(), job{run: runtime.Goexit}); err != nil {
			t.Fatal(err)
		}
		go func() { _ = actor.DoAll(context.Background(), []*worker{a, b}, func([]*jobLog) {}) }()
		synctest.Wait()
		release()
		mustAnswer(t, b)
		mustAnswer(t, a)
	})
}

// A caller that runs the messages before its own, and is ended by one of them,
// has its slices back when its deferred functions run.
func TestACallerThatWasEndedHasItsSlicesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newWorker(t, actor.Options{AfterPanic: actor.KeepGoing, Turns: -1, MaxBatch: 1})
		release := occupyActor(t, a)
		if err := a.Post(t.Context(), job{run: runtime.Goexit}); err != nil {
			t.Fatal(err)
		}
		js, rs := []job{{id: 1}, {id: 2}}, []int{-1, -1}
		go func() {
			defer func() { js[0].id, rs[0] = 9, -9 }()
			_ = a.CallBatch(context.Background(), js, rs)
		}()
		synctest.Wait()
		release()
		synctest.Wait()
		if got := stopAndRead(t, a); !slices.Equal(got, []int{0, 1, 2}) || rs[0] != -9 {
			t.Errorf("handled %v, replies %v", got, rs)
		}
	})
}

// A caller that held the actor before, and was answered, has nothing to do with a caller
// that is ended later.
func TestACallerThatIsEndedTakesNobodyElseWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newWorker(t, actor.Options{AfterPanic: actor.KeepGoing, Turns: -1, MaxBatch: 1})
		for range 50 {
			release := occupyActor(t, a)
			for range 4 { // each holds the actor for a while
				go func() { _, _ = a.Call(context.Background(), job{}) }()
			}
			synctest.Wait()
			release()
			synctest.Wait()
			until := make(chan struct{})
			go func() { _, _ = a.Call(context.Background(), job{until: until, run: runtime.Goexit}) }()
			synctest.Wait()
			errs := make(chan error, 4)
			for range cap(errs) { // with the entries of those before
				go func() { _, err := a.Call(withOneSecond(t), job{}); errs <- err }()
			}
			synctest.Wait()
			close(until)
			for range cap(errs) {
				if err := <-errs; err != nil {
					t.Fatal(err)
				}
			}
		}
		stopAndRead(t, a)
	})
}
