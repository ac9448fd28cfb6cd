package actor_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/cleavekv/cleave/actor"
)

// exitInPanic ends its goroutine, and panics while it does: the panic can be
// recovered, the end cannot.
func exitInPanic() {
	defer boom()
	runtime.Goexit()
}

// mustAnswer checks that a is not held by somebody who is gone, and stops it.
func mustAnswer(t *testing.T, a *worker) {
	t.Helper()
	synctest.Wait()
	if _, err := a.Call(second(t), job{}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if err := a.Stop(second(t)); err != nil {
		t.Error(err)
	}
}

func TestAGoroutineThatPanicsWhileItEndsFreesTheActor(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		o := actor.Options{Mode: mode, AfterPanic: actor.KeepGoing}
		for name, f := range map[string]func(a *worker){
			"handler": func(a *worker) { _, _ = a.Call(context.Background(), job{run: exitInPanic}) },
			"do":      func(a *worker) { _ = a.Do(context.Background(), func(*diary) { exitInPanic() }) },
			"deferred": func(a *worker) { // here the goroutine ends for reasons of its own
				defer func() { _, _ = a.Call(context.Background(), job{run: boom}) }()
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
		for _, f := range []func(){boom, runtime.Goexit, exitInPanic} {
			var a *worker
			var stopped error
			a = newWorker(t, actor.Options{Mode: mode, AfterPanic: actor.KeepGoing, OnPanic: func(*actor.PanicError) {
				stopped = a.Stop(second(t))
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
		release := occupy(t, b)
		if err := b.Post(t.Context(), job{run: runtime.Goexit}); err != nil {
			t.Fatal(err)
		}
		go func() { _ = actor.DoAll(context.Background(), []*worker{a, b}, func([]*diary) {}) }()
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
		release := occupy(t, a)
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

// Who held the actor before, and was answered, has nothing to do with a caller
// that is ended later.
func TestACallerThatIsEndedTakesNobodyElseWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newWorker(t, actor.Options{AfterPanic: actor.KeepGoing, Turns: -1, MaxBatch: 1})
		for range 50 {
			release := occupy(t, a)
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
				go func() { _, err := a.Call(second(t), job{}); errs <- err }()
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
