package node

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// A transaction is acknowledged, and has locked two keys of a shard that is split just now: the
// group has the new ranges, and the map follows while somebody waits for what is acknowledged. Then
// both keys have what was written.
func TestWhatIsDecidedIsSettledWhileAShardIsSplit(t *testing.T) {
	o := small(2)
	o.Groups = 4
	n := open(t, o)
	defer n.Close(ctx)
	k, _ := n.Keyspace(DefaultName)
	a := keyOn(n, n.Hosts()[0], 0)
	decider, owner := n.PartOf(a), n.part(4)
	var shard partition.Shard
	for shard = range n.Map().Owned(4) {
	}
	keys := keysIn(k, shard.Span, 40)
	low, high := keys[0], keys[len(keys)-1]
	next, err := n.Map().Apply(partition.Split{Shard: shard.ID, At: []partition.Position{k.SlotSpan(uint16(k.SlotAt(high))).Start}, In: &k.Keyspace})
	if err != nil {
		t.Fatal(err)
	}
	id, deadline := n.newID(), n.deadlineMS()
	first := txn.Part{Span: n.Map().Find(a).Span, Writes: []command.Command{&command.Set{Key: a}}}
	second := txn.Part{Span: shard.Span, Writes: []command.Command{&command.Set{Key: low}, &command.Set{Key: high}}}
	mustTry(t, owner.Group, &txn.Prepare{ID: id, Part: second, Decider: decider.ID, DeadlineMS: deadline})
	mustTry(t, decider.Group, &txn.Decide{ID: id, Commit: true, Part: first, Decider: decider.ID, DeadlineMS: deadline, Others: []partition.Span{shard.Span}})
	left, right := next.Find(low), next.Find(high)
	mustTry(t, owner.Group, &own.Reown{
		Expect: []own.Range{{Span: shard.Span, Version: shard.Changed, State: own.Serving}},
		Become: []own.Range{{Span: left.Span, Version: left.Changed, State: own.Serving}, {Span: right.Span, Version: right.Changed, State: own.Serving}},
	})
	goOn := stall(decider)
	settled := make(chan error, 1)
	go func() { settled <- n.SettleDecided(ctx) }()
	queued(decider) // it asks for one of the locks
	n.offer(next)
	close(goOn)
	if err := <-settled; err != nil {
		t.Fatal(err)
	}
	for _, l := range owner.Group.Locks() {
		t.Errorf("%x is locked by a transaction that was acknowledged before", l.Start)
	}
}

// keysIn returns the positions of so many keys of a span, in order.
func keysIn(k *Space, s partition.Span, count int) (keys []partition.Position) {
	for i := 0; len(keys) < count; i++ {
		if p := k.AppendPosition(nil, []byte{byte(i >> 8), byte(i)}); s.Contains(p) {
			keys = append(keys, p)
		}
	}
	slices.SortFunc(keys, func(a, b partition.Position) int { return bytes.Compare(a, b) })
	return keys
}

// failing is a node of two stores of which the first fails when it is to make something durable.
type failing struct {
	*Node
	wallMS atomic.Int64
	broken atomic.Bool
}

func openFailing(t *testing.T) *failing {
	n := new(failing)
	n.wallMS.Store(1 << 40) // it stands still: nobody reserves time, which is durable
	o := small(2)
	o.Wall = n.wallMS.Load
	o.FS = failsAt(0, &n.broken)
	n.Node = open(t, o)
	return n
}

// decideAndFail commits a transaction that writes a key of each store, and whose decider's store
// fails then. It returns the keys when nobody leads it any more.
func (n *failing) decideAndFail(t *testing.T) (keys []partition.Position) {
	t.Helper()
	var parts []txn.Part
	for _, h := range n.Hosts() { // a group of the first decides
		p := keyOn(n.Node, h, 0)
		keys = append(keys, p)
		parts = append(parts, writePart(n.Node, p))
	}
	n.broken.Store(true)
	if err := n.Commit(ctx, Transaction{Parts: parts}); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); n.Count.Open.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Second {
			t.Error("somebody goes on with what has no hope")
			break
		}
	}
	return keys
}

// A transaction is decided, and the store of its decider fails before that is durable. Nobody acts
// upon it, since the next Open may not find it, and nobody goes on trying.
func TestADecisionThatCannotBeMadeDurableIsLeftToTheNextOpen(t *testing.T) {
	n := openFailing(t)
	defer n.Close(ctx)
	keys := n.decideAndFail(t)
	if len(n.PartOf(keys[1]).Group.Locks()) == 0 {
		t.Error("a decision that a crash may take back was carried out")
	}
	limited, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	if err := n.SettleDecided(limited); !errors.Is(err, store.ErrFailed) || limited.Err() != nil {
		t.Errorf("who waits for it: %v, want ErrFailed", err)
	}
}

// fail makes the first store fail.
func (n *failing) fail(t *testing.T) {
	t.Helper()
	n.broken.Store(true)
	if err := n.Hosts()[0].Store.Sync(); err == nil {
		t.Fatal("the store has not failed")
	}
}

// waiter is somebody who waits for what does not come any more.
type waiter struct {
	name  string
	waits func(context.Context) error
}

// areTold checks that those who wait hear that a store has failed.
func areTold(t *testing.T, waiters ...waiter) {
	for _, w := range waiters {
		t.Run(w.name, func(t *testing.T) {
			limited, stop := context.WithTimeout(ctx, 5*time.Second)
			defer stop()
			if err := w.waits(limited); !errors.Is(err, store.ErrFailed) || limited.Err() != nil {
				t.Errorf("%v, want ErrFailed", err)
			}
		})
	}
}

func writePart(n *Node, p partition.Position) txn.Part {
	return txn.Part{Span: n.Map().Find(p).Span, Writes: []command.Command{&command.Set{Key: p}}}
}

// A transaction has locked a key, and the store of the key fails: nobody can write there that the
// transaction is over.
func TestWhoWaitsForALockInAFailedStoreIsTold(t *testing.T) {
	n := openFailing(t)
	defer n.Close(ctx)
	key, other := keyOn(n.Node, n.Hosts()[0], 0), keyOn(n.Node, n.Hosts()[1], 0)
	g := n.PartOf(key).Group
	mustTry(t, g, &txn.Prepare{ID: n.newID(), Part: writePart(n.Node, key), Decider: n.PartOf(other).ID, DeadlineMS: n.deadlineMS()})
	n.fail(t)
	n.wallMS.Add(2 * transactionMS) // nobody leads it: from its deadline on it is aborted
	areTold(t,
		waiter{"a write", func(ctx context.Context) error {
			_, err := g.Do(ctx, group.Request{Command: &command.Set{Key: key}})
			return err
		}},
		waiter{"a read in its turn", func(ctx context.Context) error {
			_, err := g.Peek(ctx, key, &command.HGet{Key: key})
			return err
		}},
		waiter{"a turn", func(ctx context.Context) error {
			_, _, err := n.Hold(ctx, claimOf(key))
			return err
		}},
		waiter{"who clears a keyspace", func(ctx context.Context) error { return n.settleSpan(ctx, partition.Whole) }})
}

// A transaction has locked a key, and the store of its decider fails: nobody can tell what became
// of it.
func TestWhoWaitsForALockWhoseDeciderHasFailedIsTold(t *testing.T) {
	n := openFailing(t)
	defer n.Close(ctx)
	key := n.decideAndFail(t)[1]
	// Up to its deadline somebody may lead it, who is refused by the decider and aborts it.
	limited, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	if _, err := n.PartOf(key).Group.Do(limited, group.Request{Command: &command.Set{Key: key}}); errors.Is(err, store.ErrFailed) {
		t.Errorf("a write before the deadline: %v", err)
	}
	n.wallMS.Add(2 * transactionMS)
	areTold(t,
		waiter{"a write", func(ctx context.Context) error {
			_, err := n.PartOf(key).Group.Do(ctx, group.Request{Command: &command.Set{Key: key}})
			return err
		}},
		waiter{"a turn", func(ctx context.Context) error {
			_, _, err := n.Hold(ctx, claimOf(key))
			return err
		}})
}

// A range is frozen, and its store fails: nobody can write there that it is thawed, or given away.
func TestWhoWaitsForAFrozenRangeOfAFailedStoreIsTold(t *testing.T) {
	n := openFailing(t)
	defer n.Close(ctx)
	key, other := keyOn(n.Node, n.Hosts()[0], 0), keyOn(n.Node, n.Hosts()[1], 0)
	g := n.PartOf(key).Group
	serving, _ := g.List().Find(key)
	frozen := serving
	frozen.State, frozen.Job = own.Frozen, 9
	// From the first on it knows without a look at its store what it has decided.
	mustTry(t, g, &txn.Decide{ID: n.newID(), Decider: n.PartOf(key).ID, DeadlineMS: n.deadlineMS()})
	mustTry(t, g, &own.Reown{Expect: []own.Range{serving}, Become: []own.Range{frozen}})
	n.fail(t)
	commit := func(keys ...partition.Position) func(context.Context) error {
		return func(ctx context.Context) error {
			var parts []txn.Part
			for _, p := range keys {
				parts = append(parts, writePart(n.Node, p))
			}
			return n.Commit(ctx, Transaction{Parts: parts})
		}
	}
	areTold(t,
		waiter{"a write", func(ctx context.Context) error {
			_, err := g.Do(ctx, group.Request{Command: &command.Set{Key: key}})
			return err
		}},
		waiter{"a turn", func(ctx context.Context) error {
			_, _, err := n.Hold(ctx, claimOf(key))
			return err
		}},
		waiter{"a transaction that is prepared there", commit(other, key)},
		waiter{"a transaction that is decided there", commit(key, other)})
}
