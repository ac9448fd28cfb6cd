package actor_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/actor"
)

// parcel is a message for a fleet; its reply is its place in its shard.
type parcel struct{ shard, id int }

func deliverParcel(got *[]int, p parcel) int {
	*got = append(*got, p.id)
	return len(*got) - 1
}

type depot = actor.Fleet[[]int, parcel, int]

func newDepot(t testing.TB, n int, o actor.Options) *depot {
	t.Helper()
	f, err := actor.NewFleet(n, func(int) []int { return nil }, actor.Each(deliverParcel), o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func shardOf(p parcel) int { return p.shard }

func TestAFleetBatchGivesEveryShardItsMessagesInOrderAndEveryMessageItsReply(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		shards := rapid.IntRange(1, 9).Draw(rt, "shards")
		o := actor.Options{Mode: actor.Mode(rapid.IntRange(0, 1).Draw(rt, "mode"))}
		f := newDepot(t, shards, o)
		want := make([][]int, shards)
		ctx, cancel := context.Background(), func() {}
		if rapid.Bool().Draw(rt, "cancellable") {
			ctx, cancel = context.WithCancel(ctx)
		}
		defer cancel()
		for range rapid.IntRange(1, 4).Draw(rt, "batches") {
			var ps []parcel
			var places []int
			for i, k := range rapid.SliceOfN(rapid.IntRange(0, shards-1), 0, 40).Draw(rt, "to") {
				ps = append(ps, parcel{k, i})
				places = append(places, len(want[k]))
				want[k] = append(want[k], i)
			}
			if rapid.Bool().Draw(rt, "post") {
				if err := f.PostBatch(ctx, shardOf, ps); err != nil {
					rt.Fatal(err)
				}
				clear(ps)
				continue
			}
			rs := make([]int, len(ps))
			if err := f.CallBatch(ctx, shardOf, ps, rs); err != nil || !slices.Equal(rs, places) {
				rt.Fatalf("replies %v, want %v: %v", rs, places, err)
			}
		}
		if err := f.Stop(ctx); err != nil {
			rt.Fatal(err)
		}
		for k := range want {
			a, _ := f.Shard(k)
			if got := *actor.StateOf(a); !slices.Equal(got, want[k]) {
				rt.Fatalf("shard %d got %v, want %v", k, got, want[k])
			}
		}
	})
}

func TestAFleetNamesTheShardThatIsNotThere(t *testing.T) {
	f := newDepot(t, 3, actor.Options{})
	ctx := t.Context()
	for _, shard := range []int{-1, 3} {
		_, call := f.Call(ctx, shard, parcel{})
		_, at := f.Shard(shard)
		all := f.DoAll(ctx, []int{0, shard}, func([]*[]int) { t.Error("done") })
		batch := f.CallBatch(ctx, shardOf, []parcel{{0, 1}, {shard, 2}}, make([]int, 2))
		post := f.PostBatch(ctx, shardOf, []parcel{{0, 1}, {shard, 2}})
		for _, err := range []error{call, at, all, batch, post, f.Post(ctx, shard, parcel{}), f.Do(ctx, shard, func(*[]int) { t.Error("done") })} {
			if !errors.Is(err, actor.ErrShard) {
				t.Errorf("shard %d: %v", shard, err)
			}
		}
	}
	if err := f.CallBatch(ctx, shardOf, make([]parcel, 2), nil); !errors.Is(err, actor.ErrBatchSize) {
		t.Error(err)
	}
	if err := f.PostBatch(ctx, nil, nil); !errors.Is(err, actor.ErrOptions) {
		t.Error(err)
	}
	if err := f.CallBatch(ctx, nil, nil, nil); !errors.Is(err, actor.ErrOptions) {
		t.Error(err)
	}
	for i, st := range f.Stats() {
		if st.Handled != 0 {
			t.Errorf("shard %d handled a message of a batch that could not be sent", i)
		}
	}
}

func TestAFleetBatchSaysWhichShardsFailedAndAnswersTheOthers(t *testing.T) {
	bothModes(t, func(t *testing.T, mode actor.Mode) {
		f := newDepot(t, 4, actor.Options{Mode: mode})
		ctx := t.Context()
		for _, k := range []int{1, 3} {
			a, _ := f.Shard(k)
			if err := a.Stop(ctx); err != nil {
				t.Fatal(err)
			}
		}
		ps := []parcel{{0, 10}, {1, 11}, {2, 12}, {3, 13}, {2, 14}}
		rs := make([]int, len(ps))
		err := f.CallBatch(ctx, shardOf, ps, rs)
		shard := new(actor.ShardError)
		if !errors.Is(err, actor.ErrStopped) || !errors.As(err, &shard) || shard.Shard != 1 {
			t.Errorf("%v", err)
		}
		if !slices.Equal(rs, []int{0, 0, 0, 0, 1}) {
			t.Errorf("replies %v", rs)
		}
		if err := f.PostBatch(ctx, shardOf, ps); !errors.Is(err, actor.ErrStopped) || shardIn(err) != 1 {
			t.Error(err)
		}
		if n, err := f.Call(ctx, 2, parcel{}); err != nil || n != 4 {
			t.Errorf("after %d parcels: %v", n, err)
		}
		if err := f.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestAnAbandonedFleetBatchLeavesTheCallersSlicesAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		f := newDepot(t, 2, actor.Options{Mode: mode})
		until := make(chan struct{})
		go func() { _ = f.Do(context.Background(), 1, func(*[]int) { <-until }) }()
		synctest.Wait()
		ps, rs := []parcel{{1, 5}, {0, 6}, {1, 7}}, []int{-1, -1, -1}
		err := f.CallBatch(withOneSecond(t), shardOf, ps, rs)
		if !errors.Is(err, actor.ErrAbandoned) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		clear(ps)
		close(until)
		if err := f.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(rs, []int{-1, 0, -1}) {
			t.Errorf("replies %v", rs)
		}
		a, _ := f.Shard(1)
		if got := *actor.StateOf(a); !slices.Equal(got, []int{5, 7}) {
			t.Errorf("shard 1 got %v", got)
		}
	})
}

// A batch that waits for room in one shard must not keep another from working,
// though it has a part in that one's mailbox.
func TestAFleetBatchThatWaitsForRoomHoldsUpNoOtherShard(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		f := newDepot(t, 2, actor.Options{Mode: mode, Capacity: 1, Turns: -1})
		var until [2]chan struct{}
		for k := range until {
			until[k] = make(chan struct{})
			go func() { _ = f.Do(context.Background(), k, func(*[]int) { <-until[k] }) }()
		}
		synctest.Wait()
		if err := f.Post(t.Context(), 1, parcel{}); err != nil { // now shard 1 is full
			t.Fatal(err)
		}
		go func() {
			if err := f.CallBatch(context.Background(), shardOf, []parcel{{0, 1}, {1, 2}}, make([]int, 2)); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		close(until[0])
		if _, err := f.Call(withOneSecond(t), 0, parcel{}); err != nil {
			t.Errorf("shard 0 is stuck: %v", err)
		}
		close(until[1])
		synctest.Wait()
		if err := f.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Batches over shards with tiny mailboxes, in every order, from many senders:
// waiting for room in one shard while another has made us its holder would be
// a deadlock.
func TestFleetBatchesDoNotDeadlock(t *testing.T) {
	bothModes(t, func(t *testing.T, mode actor.Mode) {
		r := newSeededRand(t)
		f := newDepot(t, 3, actor.Options{Mode: mode, Capacity: 4, MaxBatch: 2, Turns: -1})
		var wg sync.WaitGroup
		for range 8 {
			offset := r.IntN(3)
			wg.Go(func() {
				for i := range scaleRounds(300) {
					ps := []parcel{{shard: (i + offset) % 3}, {shard: (2*i + offset) % 3}, {shard: offset}, {shard: i % 3}}
					if err := f.CallBatch(context.Background(), shardOf, ps, make([]int, 4)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		if err := f.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Transfers between random pairs of accounts, in any order, neither deadlock
// nor create money, while calls go on.
func TestJointWorkConservesMoneyAndDoesNotDeadlock(t *testing.T) {
	bothModes(t, func(t *testing.T, mode actor.Mode) {
		r := newSeededRand(t)
		deposit := actor.Each(func(balance *int, amount int) int { *balance += amount; return *balance })
		f, err := actor.NewFleet(5, func(int) int { return 100 }, deposit, actor.Options{Mode: mode, Turns: -1})
		if err != nil {
			t.Fatal(err)
		}
		all := []int{4, 2, 0, 1, 3}
		var wg sync.WaitGroup
		for range 6 {
			pairs := make([][2]int, scaleRounds(200))
			for i := range pairs {
				pairs[i] = [2]int{r.IntN(5), r.IntN(4)}
			}
			wg.Go(func() {
				for _, p := range pairs {
					from, to := p[0], (p[0]+p[1]+1)%5
					err := f.DoAll(context.Background(), []int{from, to}, func(b []*int) { *b[0]--; *b[1]++ })
					if err != nil {
						t.Error(err)
					}
					sum := 0
					err = f.DoAll(context.Background(), all, func(b []*int) {
						for _, x := range b {
							sum += *x
						}
					})
					if err != nil || sum != 500 {
						t.Errorf("sum %d: %v", sum, err)
					}
					if _, err := f.Call(context.Background(), from, 0); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if err := f.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestJointWorkTakesAllOrNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		f := newDepot(t, 3, actor.Options{Mode: mode})
		ctx := t.Context()
		never := func([]*[]int) { t.Error("done") }
		if err := f.DoAll(ctx, []int{2, 0, 2}, never); !errors.Is(err, actor.ErrDuplicate) {
			t.Error(err)
		}
		until := make(chan struct{})
		go func() { _ = f.Do(context.Background(), 1, func(*[]int) { <-until }) }()
		synctest.Wait()
		err := f.DoAll(withOneSecond(t), []int{2, 1, 0}, never)
		shard := new(actor.ShardError)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &shard) || shard.Shard != 1 {
			t.Error(err)
		}
		for _, k := range []int{0, 2} { // released again
			if _, err := f.Call(ctx, k, parcel{}); err != nil {
				t.Error(err)
			}
		}
		close(until)
		err = f.DoAll(ctx, []int{2, 0}, func([]*[]int) { panicBoom() })
		if p := new(actor.PanicError); !errors.As(err, &p) {
			t.Error(err)
		}
		for k, want := range []error{actor.ErrPoisoned, nil, actor.ErrPoisoned} {
			if _, err := f.Call(ctx, k, parcel{}); !errors.Is(err, want) {
				t.Errorf("shard %d: %v", k, err)
			}
		}
		if err := f.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestShardsShareNoCacheLine(t *testing.T) {
	f := newDepot(t, 2, actor.Options{})
	a, _ := f.Shard(0)
	b, _ := f.Shard(1)
	if gap := uintptr(unsafe.Pointer(b)) + actor.FirstHot(b) - uintptr(unsafe.Pointer(a)) - actor.LastHot(a); gap < 64 {
		t.Errorf("%d bytes between the hot fields of neighbours", gap)
	}
}

// A goroutine that outlives the bubble fails the test.
func TestAFleetWhoseStateCannotBeMadeLeavesNoOwnersBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := func(shard int) []int {
			if shard == 2 {
				panic("no third state")
			}
			return nil
		}
		defer func() {
			if recover() == nil {
				t.Error("the panic did not reach the caller")
			}
		}()
		_, err := actor.NewFleet(3, state, actor.Each(deliverParcel), actor.Options{Mode: actor.Owner})
		t.Errorf("made, with %v", err)
	})
}
