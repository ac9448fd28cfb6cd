package actor_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavekv/cleave/actor"
)

// A handler that takes a while, as a sync to disk does: messages that come
// meanwhile are the next batch, so the number of batches does not depend on
// the number of callers.
func TestCallersOfABlockingHandlerShareItsBatches(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		h := actor.Batch(func(d *jobLog, js []job, rs []int) {
			time.Sleep(time.Millisecond)
			d.handleJobs(js, rs)
		})
		a := makeWorker(t, h, actor.Options{Mode: mode, Turns: -1})
		const callers, rounds = 64, 20
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range rounds {
					if _, err := a.Call(context.Background(), job{}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		stopAndRead(t, a)
		// Each round is at most two batches: the first caller, and the rest.
		if st := a.Stats(); st.Handled != callers*rounds || st.Batches > 2*rounds+1 {
			t.Errorf("%d messages in %d batches", st.Handled, st.Batches)
		}
	})
}

// Callers that were answered together come back together, although the first of them
// finds the actor free before the others have run at all: here there is one
// processor, and the handler does not release it, as a system call does not at first.
func TestCallersWhoHadCompanyWaitForIt(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	first := true
	h := actor.Batch(func(d *jobLog, js []job, rs []int) {
		if first { // so that the others are queued behind it
			first = false
			time.Sleep(10 * time.Millisecond)
		}
		d.handleJobs(js, rs)
	})
	a := makeWorker(t, h, actor.Options{Turns: -1, Gather: true})
	const callers, rounds = 16, 1000
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range rounds {
				if _, err := a.Call(context.Background(), job{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	stopAndRead(t, a)
	if st := a.Stats(); st.Handled != callers*rounds || st.Batches > 2*rounds {
		t.Errorf("%d messages in %d batches", st.Handled, st.Batches)
	}
}

// A combining caller goes home after its turns although others keep coming.
func TestACombiningCallerWorksForOthersOnlyForItsTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, turns := range []int{-1, 1, 5} {
			var a *worker
			batches := 0
			h := actor.Batch(func(d *jobLog, js []job, rs []int) {
				if batches++; batches < 100 { // there is always one more
					if err := a.Post(context.Background(), job{}); err != nil {
						t.Error(err)
					}
				}
				time.Sleep(time.Millisecond)
			})
			a = makeWorker(t, h, actor.Options{Turns: turns})
			start := time.Now()
			if _, err := a.Call(t.Context(), job{}); err != nil {
				t.Fatal(err)
			}
			// In the bubble time passes only in the handler.
			if got, want := time.Since(start), time.Duration(1+max(turns, 0))*time.Millisecond; got != want {
				t.Errorf("turns %d: the caller was held for %v, want %v", turns, got, want)
			}
			time.Sleep(time.Second) // another goroutine does the rest
			stopAndRead(t, a)
			if batches != 100 {
				t.Errorf("turns %d: %d batches", turns, batches)
			}
		}
	})
}

// It also goes home when its context ends, once its own message is done.
func TestACombiningCallerWhoseContextEndsWorksForNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newWorker(t, actor.Options{MaxBatch: 1})
		ctx, cancel := context.WithCancel(t.Context())
		slow := func() { time.Sleep(time.Second) }
		start := time.Now()
		_, err := a.Call(ctx, job{id: 1, run: func() {
			for id := 2; id < 5; id++ {
				if err := a.Post(t.Context(), job{id: id, run: slow}); err != nil {
					t.Error(err)
				}
			}
			cancel()
		}})
		if err != nil || time.Since(start) != 0 {
			t.Errorf("held for %v: %v", time.Since(start), err)
		}
		if got := stopAndRead(t, a); !slices.Equal(got, []int{1, 2, 3, 4}) {
			t.Errorf("handled %v", got)
		}
	})
}

// A caller that was made the holder, has its answer, works on for others and
// meets a caller that asked for the actor: it gives it away and returns.
func TestACallerThatGivesTheActorAwayIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newWorker(t, actor.Options{Turns: 1, MaxBatch: 1})
		release := occupyActor(t, a)
		if err := a.Post(t.Context(), job{id: 1}); err != nil { // the turn of the present holder
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := a.Call(withOneSecond(t), job{id: 2}); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if err := a.Do(withOneSecond(t), func(d *jobLog) { *d = append(*d, 3) }); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		release()
		wg.Wait()
		if got := stopAndRead(t, a); !slices.Equal(got, []int{0, 1, 2, 3}) {
			t.Errorf("handled %v", got)
		}
	})
}

// The actor goes from one waiting caller to the next, and every one is
// answered: a lost wake-up would leave the bubble deadlocked.
func TestNobodyIsForgottenWhenTheActorIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newWorker(t, actor.Options{Turns: -1, MaxBatch: 1})
		release := occupyActor(t, a)
		var wg sync.WaitGroup
		for id := range 50 {
			wg.Go(func() {
				switch id % 4 {
				case 0:
					_ = a.Post(context.Background(), job{id: id})
				case 1:
					_ = a.Do(context.Background(), func(d *jobLog) { *d = append(*d, id) })
				case 2:
					_, _ = a.Call(withOneSecond(t), job{id: id, run: func() { time.Sleep(100 * time.Millisecond) }})
				default:
					_, _ = a.Call(context.Background(), job{id: id})
				}
			})
		}
		synctest.Wait()
		release()
		wg.Wait()
		if got := stopAndRead(t, a); len(got) != 51 {
			t.Errorf("handled %d", len(got))
		}
	})
}

// The actor is offered to a caller in the very moment in which it goes to
// sleep: it must get it, asleep or not.
func TestAnOfferReachesACallerThatIsFallingAsleep(t *testing.T) {
	a := newWorker(t, actor.Options{})
	for range scaleRounds(20000) {
		if offered, led := actor.OfferToSleeper(a); !offered || !led {
			t.Fatalf("offered %v, led %v", offered, led)
		}
	}
}

// The same while its context ends: it notices either the offer or the end, and
// no wake-up is left behind for the next user of its entry.
func TestAnOfferAndTheEndOfTheContextLeaveNothingBehind(t *testing.T) {
	a := newWorker(t, actor.Options{})
	for range scaleRounds(20000) {
		if offered, led, stale := actor.OfferToLeaver(a); offered != led || stale {
			t.Fatalf("offered %v, led %v, stale %v", offered, led, stale)
		}
	}
}

func TestAHandlerMayPostToItsOwnActor(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		a := newWorker(t, actor.Options{Mode: mode, Full: actor.Refuse})
		again := func() {
			if err := a.Post(context.Background(), job{id: 2}); err != nil {
				t.Error(err)
			}
		}
		if _, err := a.Call(t.Context(), job{id: 1, run: again}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := stopAndRead(t, a); len(got) != 2 {
			t.Errorf("handled %v", got)
		}
	})
}

func TestCallsDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates and empties pools")
	}
	bothModes(t, func(t *testing.T, mode actor.Mode) {
		a := newActorCounter(t, actor.Options{Mode: mode})
		defer a.stop()
		plain := context.Background()
		leaving, cancel := context.WithCancel(plain)
		defer cancel()
		ms, rs := make([]int, 64), make([]int, 64)
		for name, f := range map[string]func(){
			"call":           func() { _, _ = a.a.Call(plain, 1) },
			"call, context":  func() { _, _ = a.a.Call(leaving, 1) },
			"post":           func() { _ = a.a.Post(plain, 1); _, _ = a.a.Call(plain, 1) },
			"batch":          func() { _ = a.a.CallBatch(plain, ms, rs) },
			"batch, context": func() { _ = a.a.CallBatch(leaving, ms, rs) },
			"batch of posts": func() { _ = a.a.PostBatch(plain, ms) },
		} {
			f()
			if n := testing.AllocsPerRun(200, f); n >= 1 {
				t.Errorf("%s: %v allocations", name, n)
			}
		}
	})
}

func TestStopHandlesWhatWasAcceptedAndRefusesTheRest(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		a := newWorker(t, actor.Options{Mode: mode, Capacity: 3, MaxBatch: 1})
		release := occupyActor(t, a)
		for id := 1; id <= 3; id++ {
			if err := a.Post(t.Context(), job{id: id}); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() { // waits for room
			if _, err := a.Call(context.Background(), job{id: 4}); !errors.Is(err, actor.ErrStopped) {
				t.Errorf("waiting for room: %v", err)
			}
		})
		wg.Go(func() { // needs no room
			if err := a.Do(context.Background(), func(d *jobLog) { *d = append(*d, 7) }); err != nil {
				t.Errorf("waiting for the actor: %v", err)
			}
		})
		synctest.Wait()
		if err := a.Stop(withOneSecond(t)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stop of a busy actor: %v", err)
		}
		_, err := a.Call(t.Context(), job{id: 5})
		for _, err := range []error{err, a.Post(t.Context(), job{}), a.PostBatch(t.Context(), make([]job, 1)), a.Do(t.Context(), func(*jobLog) {})} {
			if !errors.Is(err, actor.ErrStopped) {
				t.Errorf("while stopping: %v", err)
			}
		}
		release()
		for range 2 { // again is fine, and waits for the same end
			if got := stopAndRead(t, a); !slices.Equal(got, []int{0, 1, 2, 3, 7}) {
				t.Errorf("handled %v", got)
			}
		}
		if _, err := a.Call(t.Context(), job{id: 6}); !errors.Is(err, actor.ErrStopped) {
			t.Errorf("stopped: %v", err)
		}
		wg.Wait()
	})
}

func TestStopInsideAHandlerIsAnError(t *testing.T) {
	bothModes(t, func(t *testing.T, mode actor.Mode) {
		var a *worker
		var inCall, inDo, inAll error
		a = newWorker(t, actor.Options{Mode: mode})
		stop := func() error { return a.Stop(context.Background()) }
		if _, err := a.Call(t.Context(), job{run: func() { inCall = stop() }}); err != nil {
			t.Fatal(err)
		}
		if err := a.Do(t.Context(), func(*jobLog) { inDo = stop() }); err != nil {
			t.Fatal(err)
		}
		if err := actor.DoAll(t.Context(), []*worker{a}, func([]*jobLog) { inAll = stop() }); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{inCall, inDo, inAll} {
			if !errors.Is(err, actor.ErrInHandler) {
				t.Error(err)
			}
		}
		stopAndRead(t, a)
	})
}

// Stop races with senders of every kind. Whatever was accepted is handled,
// and the accounts agree.
func TestStopAmongSendersLosesNothing(t *testing.T) {
	bothModes(t, func(t *testing.T, mode actor.Mode) {
		for range scaleRounds(300) {
			a := newWorker(t, actor.Options{Mode: mode, Capacity: 4, Turns: -1})
			var wg sync.WaitGroup
			var mu sync.Mutex
			accepted := 0
			for from := range 4 {
				wg.Go(func() {
					n := 0
					for err := error(nil); err == nil; {
						if from%2 == 0 {
							err = a.Post(context.Background(), job{})
						} else {
							_, err = a.Call(context.Background(), job{})
						}
						if err == nil {
							n++
						} else if !errors.Is(err, actor.ErrStopped) {
							t.Error(err)
						}
					}
					mu.Lock()
					accepted += n
					mu.Unlock()
				})
			}
			for range 2 {
				wg.Go(func() {
					if err := a.Stop(context.Background()); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if got := len(*actor.StateOf(a)); got != accepted {
				t.Fatalf("accepted %d, handled %d", accepted, got)
			}
			if st := a.Stats(); st.Accepted != uint64(accepted) || st.Handled != uint64(accepted) || st.Depth != 0 || st.Busy {
				t.Fatalf("accepted %d, stats %+v", accepted, st)
			}
		}
	})
}
