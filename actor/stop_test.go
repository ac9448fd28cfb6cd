package actor_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cleavekv/cleave/actor"
)

func TestStopHandlesWhatWasAcceptedAndRefusesTheRest(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		a := newWorker(t, actor.Options{Mode: mode, Capacity: 3, MaxBatch: 1})
		release := occupy(t, a)
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
			if err := a.Do(context.Background(), func(d *diary) { *d = append(*d, 7) }); err != nil {
				t.Errorf("waiting for the actor: %v", err)
			}
		})
		synctest.Wait()
		if err := a.Stop(second(t)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stop of a busy actor: %v", err)
		}
		_, err := a.Call(t.Context(), job{id: 5})
		for _, err := range []error{err, a.Post(t.Context(), job{}), a.PostBatch(t.Context(), make([]job, 1)), a.Do(t.Context(), func(*diary) {})} {
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
		if err := a.Do(t.Context(), func(*diary) { inDo = stop() }); err != nil {
			t.Fatal(err)
		}
		if err := actor.DoAll(t.Context(), []*worker{a}, func([]*diary) { inAll = stop() }); err != nil {
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
		for range soak(300) {
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
