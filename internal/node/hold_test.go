package node

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

func claimOf(keys ...partition.Position) (claims []txn.Claim) {
	for _, p := range keys {
		claims = append(claims, txn.Claim{Span: txn.KeySpan(p), Write: true})
	}
	return claims
}

// Those before it may take long, each for itself in time. A transaction that waits for
// them is alive, so it keeps its place, and what it has got in other groups.
func TestATransactionKeepsItsPlaceForAsLongAsItWaits(t *testing.T) {
	var wall atomic.Int64
	wall.Store(1 << 40)
	o := small(2)
	o.Wall = wall.Load
	n := open(t, o)
	defer n.Close(ctx)
	a, b := keyOn(n, n.Hosts()[0], 0), keyOn(n, n.Hosts()[1], 0)
	if n.PartOf(a).ID > n.PartOf(b).ID {
		a, b = b, a
	}
	first, last := n.PartOf(a).Group, n.PartOf(b).Group
	mustTry(t, last, &txn.Hold{ID: txn.ID{1}, Claims: claimOf(b), DeadlineMS: 1 << 50})
	limited, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	type held struct {
		release func()
		err     error
	}
	turn := make(chan held, 1)
	go func() {
		_, release, err := n.Hold(limited, claimOf(a, b))
		turn <- held{release, err}
	}()
	time.Sleep(50 * time.Millisecond) // it asks at once, and again after 64 ms at the latest
	late := func(p partition.Position) bool {
		return txn.HeldBy(mustTry(t, n.PartOf(p).Group, &txn.Hold{ID: txn.ID{3}, Claims: claimOf(p), DeadlineMS: 1 << 50}))
	}
	for range 4 {
		if late(a) || late(b) {
			t.Fatal("one who came later has a turn before it")
		}
		wall.Add(transactionMS / 2)
		time.Sleep(100 * time.Millisecond)
		_, err := first.Tend(ctx)
		if _, bad := last.Tend(ctx); err != nil || bad != nil {
			t.Fatal(err, bad)
		}
	}
	mustTry(t, last, &txn.Unhold{ID: txn.ID{1}})
	h := <-turn
	if h.err != nil {
		t.Fatal(h.err)
	}
	if late(a) || late(b) {
		t.Error("two have a turn")
	}
	if h.release(); !late(a) || !late(b) {
		t.Error("its turn does not end")
	}
}

// Nobody else ends a turn before its deadline.
func TestATurnIsOverThoughTheQueueIsFullForAMoment(t *testing.T) {
	o := small(1)
	o.Refuse, o.Queue = true, 1
	n := open(t, o)
	defer n.Close(ctx)
	p := keyOn(n, n.Hosts()[0], 0)
	g := n.PartOf(p).Group
	_, release, err := n.Hold(ctx, claimOf(p))
	if err != nil {
		t.Fatal(err)
	}
	err = group.Still(ctx, []*group.Group{g}, func() {
		for full := false; !full; {
			limited, stop := context.WithTimeout(ctx, time.Millisecond)
			_, err := g.Try(limited, group.Request{Command: &command.Get{Key: p}})
			full = errors.Is(err, group.ErrOverloaded)
			stop()
		}
		release()
	})
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		reply, err := g.Try(ctx, group.Request{Command: &command.Set{Key: p}})
		if err == nil && reply.Err == nil {
			return
		}
		if time.Since(began) > time.Second {
			t.Fatalf("nobody has a turn, and a write is refused: %v, %v", reply.Err, err)
		}
	}
}

// A transaction has locked a key, and nobody ends it while the store of its decider has failed.
// Whoever would wait for that is in nobody's way: others need other keys.
func TestATurnBesideAFailedStoreIsInNobodysWay(t *testing.T) {
	n := openFailing(t)
	defer n.Close(ctx)
	keys := n.decideAndFail(t)
	n.wallMS.Add(2 * transactionMS) // nobody leads it
	k, _ := n.Keyspace(DefaultName)
	locked, free := keys[1], keysIn(k, n.Map().Find(keys[1]).Span, 1)[0]
	g := n.PartOf(free).Group
	late := func() bool {
		t.Helper()
		defer mustTry(t, g, &txn.Unhold{ID: txn.ID{3}})
		return txn.HeldBy(mustTry(t, g, &txn.Hold{ID: txn.ID{3}, Claims: claimOf(free), DeadlineMS: 1 << 50}))
	}
	limited, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	if _, _, err := n.Hold(limited, claimOf(locked, free)); !errors.Is(err, store.ErrFailed) || !late() {
		t.Errorf("a turn behind the lock: %v, or it is not over", err)
	}
	// Who needs what the failed store has hears so, or goes on and is told when it commits.
	_, release, err := n.Hold(limited, claimOf(keys[0], free))
	if err == nil {
		release()
	}
	if limited.Err() != nil || !late() {
		t.Errorf("a turn at the failed store: %v, or it is not over", err)
	}
}
