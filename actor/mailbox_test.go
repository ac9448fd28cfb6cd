package actor_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/cleavekv/cleave/actor"
)

func TestAFullMailboxRefusesWithoutEffect(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		a := newWorker(t, actor.Options{Mode: mode, Capacity: 3, Full: actor.Refuse})
		release := occupyActor(t, a)
		ctx := t.Context()
		if err := a.PostBatch(ctx, []job{{id: 1}, {id: 2}}); err != nil {
			t.Fatal(err)
		}
		if err := a.PostBatch(ctx, []job{{id: 8}, {id: 9}}); !errors.Is(err, actor.ErrFull) {
			t.Errorf("two into one place: %v", err)
		}
		if err := a.Post(ctx, job{id: 3}); err != nil {
			t.Error(err)
		}
		if _, err := a.Call(ctx, job{id: 9}); !errors.Is(err, actor.ErrFull) {
			t.Errorf("call: %v", err)
		}
		st := a.Stats()
		if st.Depth != 3 || st.DepthMax != 3 || st.Refused != 3 || !st.Busy {
			t.Errorf("%+v", st)
		}
		release()
		if got := stopAndRead(t, a); !slices.Equal(got, []int{0, 1, 2, 3}) {
			t.Errorf("handled %v", got)
		}
	})
}

func TestSendersGetRoomInTheOrderTheyAskedForIt(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		a := newWorker(t, actor.Options{Mode: mode, Capacity: 2, MaxBatch: 1})
		release := occupyActor(t, a)
		if err := a.Post(t.Context(), job{id: 1}); err != nil {
			t.Fatal(err)
		}
		want := []int{0, 1}
		for i := 3; i < 20; i += 2 { // a large one first: there is room for the small ones, but they come later
			for _, js := range [][]job{{{id: i}, {id: i}}, {{id: i + 1}}} {
				go func() {
					if err := a.PostBatch(context.Background(), js); err != nil {
						t.Error(err)
					}
				}()
				synctest.Wait()
			}
			want = append(want, i, i, i+1)
		}
		release()
		synctest.Wait()
		if got := stopAndRead(t, a); !slices.Equal(got, want) {
			t.Errorf("handled %v, want %v", got, want)
		}
	})
}

func TestABatchThatCanNeverFitIsRefused(t *testing.T) {
	bothModes(t, func(t *testing.T, mode actor.Mode) {
		a := newWorker(t, actor.Options{Mode: mode, Capacity: 2})
		ctx := t.Context()
		if err := a.CallBatch(ctx, make([]job, 3), make([]int, 3)); !errors.Is(err, actor.ErrBatchSize) {
			t.Error(err)
		}
		if err := a.PostBatch(ctx, make([]job, 3)); !errors.Is(err, actor.ErrBatchSize) {
			t.Error(err)
		}
		if err := a.CallBatch(ctx, make([]job, 2), make([]int, 1)); !errors.Is(err, actor.ErrBatchSize) {
			t.Error(err)
		}
		if err := a.CallBatch(ctx, nil, nil); err != nil {
			t.Error(err)
		}
		if got := stopAndRead(t, a); len(got) != 0 {
			t.Errorf("handled %v", got)
		}
	})
}

func TestBatchesAreNeverSplitNorMixedNorLargerThanAllowed(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		var sizes []int
		h := actor.Batch(func(d *jobLog, js []job, rs []int) {
			sizes = append(sizes, len(js))
			d.handleJobs(js, rs)
		})
		a := makeWorker(t, h, actor.Options{Mode: mode, MaxBatch: 4})
		release := occupyActor(t, a)
		id := 0
		for _, n := range []int{1, 2, 1, 3, 2, 6, 1, 1} {
			js := make([]job, n)
			for i := range js {
				id++
				js[i].id = id
			}
			if err := a.PostBatch(t.Context(), js); err != nil {
				t.Fatal(err)
			}
		}
		release()
		got := stopAndRead(t, a)
		for i, id := range got {
			if id != i {
				t.Errorf("handled %v", got)
				break
			}
		}
		if want := []int{1, 4, 3, 2, 6, 2}; !slices.Equal(sizes, want) {
			t.Errorf("batches of %v, want %v", sizes, want)
		}
	})
}

func TestASmallMessageGetsTheRoomThatALargeBatchGaveUpWaitingFor(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		a := newWorker(t, actor.Options{Mode: mode, Capacity: 2})
		release := occupyActor(t, a)
		if err := a.Post(t.Context(), job{id: 1}); err != nil {
			t.Fatal(err)
		}
		large := make(chan error)
		go func() { large <- a.PostBatch(withOneSecond(t), make([]job, 2)) }()
		synctest.Wait()
		entered := make(chan error, 1)
		go func() { entered <- a.Post(context.Background(), job{id: 2}) }()
		if err := <-large; !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		synctest.Wait()
		if st := a.Stats(); st.Depth != 2 || len(entered) != 1 { // though the actor is still busy
			t.Errorf("%+v", st)
		}
		release()
		if got := stopAndRead(t, a); !slices.Equal(got, []int{0, 1, 2}) {
			t.Errorf("handled %v", got)
		}
	})
}

func TestABatchHandlerFindsItsRepliesZero(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		h := actor.Batch(func(_ *jobLog, js []job, rs []int) {
			for i, j := range js {
				if rs[i] != 0 {
					t.Errorf("reply %d before the handler", rs[i])
				}
				if j.until != nil {
					<-j.until
				}
				rs[i] = 7
			}
		})
		a := makeWorker(t, h, actor.Options{Mode: mode})
		js := make([]job, 3)
		for range 3 {
			release := func() {}
			for _, ctx := range []context.Context{context.Background(), t.Context()} {
				for range 2 { // side by side with others the second time
					for range 3 {
						go func() { _, _ = a.Call(ctx, job{}) }()
						go func() { _ = a.CallBatch(ctx, js, []int{1, 2, 3}) }()
					}
					synctest.Wait()
					release()
					release = occupyActor(t, a)
				}
			}
			go func() { _ = a.CallBatch(context.Background(), js, []int{1, 2, 3}) }() // alone
			synctest.Wait()
			release()
			synctest.Wait()
		}
		stopAndRead(t, a)
	})
}

// The instants of these tests are too short to be met by chance: they are
// brought about by hand.

func TestRoomThatComesFreeJustBeforeASenderStandsInLineIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := actor.EnterTooLate(withOneSecond(t)); err != nil {
			t.Error(err)
		}
	})
}

func TestRoomGrantedToASenderThatJustLeftGoesToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		renounce, entered := actor.GrantAndQueue(withOneSecond(t))
		synctest.Wait()
		if err := renounce(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := <-entered; err != nil {
			t.Errorf("the next in line: %v", err)
		}
	})
}

func TestASenderThatLeavesAClosedRoomGivesNothingBack(t *testing.T) {
	if depth, err := actor.RenounceClosed(); depth != 0 || !errors.Is(err, actor.ErrStopped) {
		t.Errorf("depth %d: %v", depth, err)
	}
}

func TestAMessageThatMeetsAClosedActorGivesItsRoomBack(t *testing.T) {
	bothModes(t, func(t *testing.T, mode actor.Mode) {
		a := newWorker(t, actor.Options{Mode: mode, Capacity: 2})
		stopAndRead(t, a)
		actor.OpenGate(a) // as it was when the sender looked
		for range 3 {
			_, err1 := a.Call(t.Context(), job{})
			err2 := a.Do(t.Context(), func(*jobLog) { t.Error("done") })
			err3 := a.PostBatch(t.Context(), make([]job, 2))
			for _, err := range []error{err1, err2, err3} {
				if !errors.Is(err, actor.ErrStopped) {
					t.Error(err)
				}
			}
		}
		if st := a.Stats(); st.Depth != 0 || st.Accepted != 0 || st.Refused != 9 {
			t.Errorf("%+v", st)
		}
	})
}
