package actor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cleavekv/cleave/actor"
)

func TestAnErrorNamesThePackageOnce(t *testing.T) {
	hit := &actor.PanicError{Value: "boom"}
	poisoned := &actor.PoisonedError{Panic: hit}
	for _, c := range []struct {
		err  error
		want string
	}{
		{hit, "actor: handler panicked: boom"},
		{&actor.PanicError{Value: actor.ErrFull}, "actor: handler panicked: mailbox full"},
		{&actor.PanicError{Value: actor.ErrGoexit}, "actor: handler panicked: handler called runtime.Goexit"},
		{poisoned, "actor: poisoned: handler panicked: boom"},
		{&actor.ShardError{Shard: 3, Err: poisoned}, "actor: shard 3: poisoned: handler panicked: boom"},
		{&actor.ShardError{Shard: 3, Err: context.Canceled}, "actor: shard 3: context canceled"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestAnAbandonedCallSaysThatItsMessageStays(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		a := newWorker(t, actor.Options{Mode: mode})
		release := occupyActor(t, a)
		_, err := a.Call(withOneSecond(t), job{id: 1})
		if !errors.Is(err, actor.ErrAbandoned) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "stays accepted") {
			t.Error(err)
		}
		release()
		if got := stopAndRead(t, a); len(got) != 2 {
			t.Errorf("handled %v", got)
		}
	})
}

// shardIn is the shard that err names, -1 if it names none.
func shardIn(err error) int {
	if e := new(actor.ShardError); errors.As(err, &e) {
		return e.Shard
	}
	return -1
}

func TestAFleetSaysWhichShardRefusedAMessage(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		f := newDepot(t, 3, actor.Options{Mode: mode, Capacity: 1, Full: actor.Refuse})
		ctx := t.Context()
		until := make(chan struct{})
		go func() { _ = f.Do(context.Background(), 2, func(*[]int) { <-until }) }()
		synctest.Wait()
		if err := f.Post(ctx, 2, parcel{}); err != nil { // now shard 2 is full
			t.Fatal(err)
		}
		_, call := f.Call(ctx, 2, parcel{})
		for _, err := range []error{call, f.Post(ctx, 2, parcel{})} {
			if !errors.Is(err, actor.ErrFull) || shardIn(err) != 2 {
				t.Error(err)
			}
		}
		do := f.Do(withOneSecond(t), 2, func(*[]int) { t.Error("done") })
		if !errors.Is(do, context.DeadlineExceeded) || shardIn(do) != 2 {
			t.Error(do)
		}
		close(until)
		synctest.Wait()
		if _, err := f.Call(ctx, 2, parcel{}); err != nil {
			t.Error(err)
		}
		if err := f.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestEveryPolicyHasItsName(t *testing.T) {
	for want, got := range map[string]fmt.Stringer{
		"combining": actor.Combining, "owner": actor.Owner, "Mode(7)": actor.Mode(7),
		"block": actor.Block, "refuse": actor.Refuse, "FullPolicy(7)": actor.FullPolicy(7),
		"poison": actor.Poison, "keep going": actor.KeepGoing, "PanicPolicy(7)": actor.PanicPolicy(7),
	} {
		if got.String() != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
}
