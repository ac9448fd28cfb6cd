package node

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
	"github.com/cleavekv/cleave/partition"
)

func writeClaims(keys ...partition.Position) (claims []txn.ReservedSpan) {
	for _, p := range keys {
		claims = append(claims, txn.ReservedSpan{Span: txn.KeySpan(p), Write: true})
	}
	return claims
}

// Those before it may take long, each for itself in time. A transaction that waits for
// them is alive, so it keeps its place, and what it has got in other groups.
func TestATransactionKeepsItsPlaceForAsLongAsItWaits(t *testing.T) {
	var wall atomic.Int64
	wall.Store(1 << 40)
	o := smallOptions(2)
	o.Wall = wall.Load
	n := mustOpen(t, o)
	defer n.Close(ctx)
	a, b := keyOnStore(n, n.StoreHosts()[0], 0), keyOnStore(n, n.StoreHosts()[1], 0)
	if n.GroupHostAt(a).ID > n.GroupHostAt(b).ID {
		a, b = b, a
	}
	first, last := n.GroupHostAt(a).Group, n.GroupHostAt(b).Group
	mustTryCommand(t, last, &txn.Reserve{ID: txn.ID{1}, Spans: writeClaims(b), DeadlineMS: 1 << 50})
	limited, stop := context.WithTimeout(ctx, eventually.Limit())
	defer stop()
	type held struct {
		release func()
		err     error
	}
	turn := make(chan held, 1)
	go func() {
		_, release, err := n.Reserve(limited, writeClaims(a, b))
		turn <- held{release, err}
	}()
	time.Sleep(50 * time.Millisecond) // it asks at once, and again after 64 ms at the latest
	late := func(p partition.Position) bool {
		return txn.IsReserved(mustTryCommand(t, n.GroupHostAt(p).Group, &txn.Reserve{ID: txn.ID{3}, Spans: writeClaims(p), DeadlineMS: 1 << 50}))
	}
	for range 4 {
		if late(a) || late(b) {
			t.Fatal("one who came later has a turn before it")
		}
		wall.Add(txnTimeoutMS / 2)
		time.Sleep(100 * time.Millisecond)
		_, err := first.Housekeep(ctx)
		if _, bad := last.Housekeep(ctx); err != nil || bad != nil {
			t.Fatal(err, bad)
		}
	}
	mustTryCommand(t, last, &txn.Release{ID: txn.ID{1}})
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

// No other ends a reservation before its deadline.
func TestATurnIsOverThoughTheQueueIsFullForAMoment(t *testing.T) {
	o := smallOptions(1)
	o.Refuse, o.Queue = true, 1
	o.Wall = func() int64 { return 1 << 40 } // its deadline does not come
	n := mustOpen(t, o)
	defer n.Close(ctx)
	p := keyOnStore(n, n.StoreHosts()[0], 0)
	g := n.GroupHostAt(p).Group
	_, release, err := n.Reserve(ctx, writeClaims(p))
	if err != nil {
		t.Fatal(err)
	}
	err = group.RunBetweenBatches(ctx, []*group.Group{g}, func() {
		for full := false; !full; {
			limited, stop := context.WithTimeout(ctx, time.Millisecond)
			_, err := g.Execute(limited, group.Request{NoWait: true, Command: &command.Get{Key: p}})
			full = errors.Is(err, group.ErrOverloaded)
			stop()
		}
		release()
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "a write is accepted without a reservation", func() bool {
		reply, err := g.Execute(ctx, group.Request{NoWait: true, Command: &command.Set{Key: p}})
		return err == nil && reply.Err == nil
	})
}

// A transaction has locked a key, and cannot be resolved while the store of its coordinator group has
// failed. A reservation that would wait for that blocks no other: others need other keys.
func TestATurnBesideAFailedStoreIsInNobodysWay(t *testing.T) {
	n := openFailing(t)
	defer n.Close(ctx)
	keys := n.decideAndFail(t)
	n.wallMS.Add(2 * txnTimeoutMS) // no coordinator leads it
	k, _ := n.Keyspace(DefaultKeyspace)
	locked, free := keys[1], keysIn(k, n.Map().Find(keys[1]).Span, 1)[0]
	g := n.GroupHostAt(free).Group
	late := func() bool {
		t.Helper()
		defer mustTryCommand(t, g, &txn.Release{ID: txn.ID{3}})
		return txn.IsReserved(mustTryCommand(t, g, &txn.Reserve{ID: txn.ID{3}, Spans: writeClaims(free), DeadlineMS: 1 << 50}))
	}
	limited, stop := context.WithTimeout(ctx, eventually.Limit())
	defer stop()
	if _, _, err := n.Reserve(limited, writeClaims(locked, free)); !errors.Is(err, store.ErrFailed) || !late() {
		t.Errorf("a turn behind the lock: %v, or it is not over", err)
	}
	// A reservation of what the failed store has fails, or goes on and fails when it commits.
	_, release, err := n.Reserve(limited, writeClaims(keys[0], free))
	if err == nil {
		release()
	}
	if limited.Err() != nil || !late() {
		t.Errorf("a turn at the failed store: %v, or it is not over", err)
	}
}
