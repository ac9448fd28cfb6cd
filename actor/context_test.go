package actor_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavekv/cleave/actor"
)

// inBubble runs f with virtual time for each mode. A goroutine left behind, or
// one that waits for ever, fails the test.
func inBubble(t *testing.T, f func(t *testing.T, mode actor.Mode)) {
	bothModes(t, func(t *testing.T, mode actor.Mode) {
		synctest.Test(t, func(t *testing.T) { f(t, mode) })
	})
}

// occupy keeps a busy with job 0 until the returned function is called.
func occupy(t *testing.T, a *worker) (release func()) {
	until := make(chan struct{})
	go func() {
		if _, err := a.Call(context.Background(), job{until: until}); err != nil {
			t.Error(err)
		}
	}()
	synctest.Wait()
	return func() { close(until) }
}

// stopAndRead stops a and returns what it handled.
func stopAndRead(t *testing.T, a *worker) []int {
	t.Helper()
	if err := a.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	return *actor.StateOf(a)
}

func second(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestAContextThatEndsWhileWaitingForRoomMeansNotHandled(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		a := newWorker(t, actor.Options{Mode: mode, Capacity: 1})
		release := occupy(t, a)
		if err := a.Post(t.Context(), job{id: 1}); err != nil {
			t.Fatal(err)
		}
		for name, send := range map[string]func() error{
			"call":  func() error { _, err := a.Call(second(t), job{id: 9}); return err },
			"post":  func() error { return a.Post(second(t), job{id: 9}) },
			"batch": func() error { return a.CallBatch(second(t), []job{{id: 9}}, make([]int, 1)) },
		} {
			err := send()
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, actor.ErrAbandoned) {
				t.Errorf("%s: %v", name, err)
			}
		}
		release()
		if got := stopAndRead(t, a); !slices.Equal(got, []int{0, 1}) {
			t.Errorf("handled %v", got)
		}
		if st := a.Stats(); st.Refused != 3 || st.Accepted != 2 {
			t.Errorf("%+v", st)
		}
	})
}

func TestAContextThatEndsWhileWaitingForTheReplyLeavesTheMessageToRunOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		a := newWorker(t, actor.Options{Mode: mode})
		release := occupy(t, a)
		_, err := a.Call(second(t), job{id: 1})
		if !errors.Is(err, actor.ErrAbandoned) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("call: %v", err)
		}
		js, rs := []job{{id: 2}, {id: 3}}, []int{-2, -3}
		err = a.CallBatch(second(t), js, rs)
		if !errors.Is(err, actor.ErrAbandoned) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("batch: %v", err)
		}
		js[0], js[1] = job{id: 7}, job{id: 8} // ours again
		release()
		if got := stopAndRead(t, a); !slices.Equal(got, []int{0, 1, 2, 3}) {
			t.Errorf("handled %v", got)
		}
		if !slices.Equal(rs, []int{-2, -3}) {
			t.Errorf("replies of an abandoned batch were written: %v", rs)
		}
		if st := a.Stats(); st.Abandoned != 2 || st.Handled != 4 {
			t.Errorf("%+v", st)
		}
	})
}

func TestAContextThatEndedBeforeTheCallRefusesIt(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		a := newWorker(t, actor.Options{Mode: mode})
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err1 := a.Call(ctx, job{})
		err2 := a.Post(ctx, job{})
		err3 := a.CallBatch(ctx, make([]job, 2), make([]int, 2))
		err4 := a.PostBatch(ctx, make([]job, 2))
		err5 := a.Do(ctx, func(*diary) { t.Error("done") })
		for _, err := range []error{err1, err2, err3, err4, err5} {
			if !errors.Is(err, context.Canceled) || errors.Is(err, actor.ErrAbandoned) {
				t.Error(err)
			}
		}
		if got := stopAndRead(t, a); len(got) != 0 {
			t.Errorf("handled %v", got)
		}
	})
}

func TestDoGivesUpWithItsContextAndNeverRunsAfterwards(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		a := newWorker(t, actor.Options{Mode: mode})
		release := occupy(t, a)
		err := a.Do(second(t), func(*diary) { t.Error("done") })
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, actor.ErrAbandoned) {
			t.Error(err)
		}
		release()
		if got := stopAndRead(t, a); !slices.Equal(got, []int{0}) {
			t.Errorf("handled %v", got)
		}
	})
}

// A caller that is made the holder just when its context has ended passes the
// actor on instead of losing it.
func TestAHolderWhoseContextEndedPassesTheActorOn(t *testing.T) {
	for range soak(2000) {
		a := newWorker(t, actor.Options{Turns: -1})
		ctx, cancel := context.WithCancel(context.Background())
		first, second, third := make(chan struct{}), make(chan struct{}), make(chan struct{})
		until := make(chan struct{})
		go func() { _, _ = a.Call(context.Background(), job{until: until}); close(first) }()
		go func() { _, _ = a.Call(ctx, job{id: 1}); close(second) }()
		go func() { _, _ = a.Call(context.Background(), job{id: 2}); close(third) }()
		go cancel()
		close(until)
		<-first
		<-second
		<-third
		if err := a.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
