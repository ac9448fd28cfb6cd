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

// occupyActor keeps a busy with job 0 until the returned function is called.
func occupyActor(t *testing.T, a *worker) (release func()) {
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

func withOneSecond(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestAContextThatEndsWhileWaitingForRoomMeansNotHandled(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		a := newWorker(t, actor.Options{Mode: mode, Capacity: 1})
		release := occupyActor(t, a)
		if err := a.Post(t.Context(), job{id: 1}); err != nil {
			t.Fatal(err)
		}
		for name, send := range map[string]func() error{
			"call":  func() error { _, err := a.Call(withOneSecond(t), job{id: 9}); return err },
			"post":  func() error { return a.Post(withOneSecond(t), job{id: 9}) },
			"batch": func() error { return a.CallBatch(withOneSecond(t), []job{{id: 9}}, make([]int, 1)) },
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
		release := occupyActor(t, a)
		_, err := a.Call(withOneSecond(t), job{id: 1})
		if !errors.Is(err, actor.ErrAbandoned) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("call: %v", err)
		}
		js, rs := []job{{id: 2}, {id: 3}}, []int{-2, -3}
		err = a.CallBatch(withOneSecond(t), js, rs)
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
		err5 := a.Do(ctx, func(*jobLog) { t.Error("done") })
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
		release := occupyActor(t, a)
		err := a.Do(withOneSecond(t), func(*jobLog) { t.Error("done") })
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
	for range scaleRounds(2000) {
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
				"Do":              a.Do(ctx, func(*jobLog) { t.Error("done") }),
				"DoAll":           actor.DoAll(ctx, []*worker{good, a}, func([]*jobLog) { t.Error("done") }),
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

// job is a message for tests that need to steer the handler.
type job struct {
	id    int
	until chan struct{} // block until it is closed
	run   func()        // then do this
}

// jobLog is the ids of the jobs handled, in order.
type jobLog []int

func (d *jobLog) handleJob(j job) int {
	if j.until != nil {
		<-j.until
	}
	if j.run != nil {
		j.run()
	}
	*d = append(*d, j.id)
	return j.id
}

func (d *jobLog) handleJobs(js []job, rs []int) {
	for i, j := range js {
		rs[i] = d.handleJob(j)
	}
}

type worker = actor.Actor[jobLog, job, int]

func newWorker(t *testing.T, o actor.Options) *worker {
	t.Helper()
	return makeWorker(t, actor.Each((*jobLog).handleJob), o)
}

func newBatchWorker(t *testing.T, o actor.Options) *worker {
	t.Helper()
	return makeWorker(t, actor.Batch((*jobLog).handleJobs), o)
}

func makeWorker(t *testing.T, h actor.Handler[jobLog, job, int], o actor.Options) *worker {
	t.Helper()
	a, err := actor.New(jobLog{}, h, o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// bothModes runs f for each way of running.
func bothModes(t *testing.T, f func(t *testing.T, mode actor.Mode)) {
	for _, mode := range []actor.Mode{actor.Combining, actor.Owner} {
		t.Run(mode.String(), func(t *testing.T) { f(t, mode) })
	}
}
