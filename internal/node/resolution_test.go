package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
	"github.com/cleavekv/cleave/partition"
)

// A transaction is acknowledged, and has locked two keys of a shard that is split just then: the
// group has the new ranges, and the map follows while a caller waits for what is acknowledged.
// Then both keys have what was written.
func TestWhatIsDecidedIsSettledWhileAShardIsSplit(t *testing.T) {
	o := smallOptions(2)
	o.Groups = 4
	n := mustOpen(t, o)
	defer n.Close(ctx)
	k, _ := n.Keyspace(DefaultKeyspace)
	a := keyOnStore(n, n.StoreHosts()[0], 0)
	decider, owner := n.GroupHostAt(a), n.lookupGroup(4)
	var shard partition.Shard
	for shard = range n.Map().Owned(4) {
	}
	keys := keysIn(k, shard.Span, 40)
	low, high := keys[0], keys[len(keys)-1]
	next, err := n.Map().Apply(partition.Split{Shard: shard.ID, At: []partition.Position{k.SlotSpan(uint16(k.SlotAt(high))).Start}, In: &k.Keyspace})
	if err != nil {
		t.Fatal(err)
	}
	id, deadline := n.newTxnID(), n.computeDeadlineMS()
	first := txn.Participant{Span: n.Map().Find(a).Span, Writes: []command.Command{&command.Set{Key: a}}}
	second := txn.Participant{Span: shard.Span, Writes: []command.Command{&command.Set{Key: low}, &command.Set{Key: high}}}
	mustTryCommand(t, owner.Group, &txn.Prepare{ID: id, Participant: second, CoordinatorGroup: decider.ID, DeadlineMS: deadline})
	mustTryCommand(t, decider.Group, &txn.Decide{ID: id, Commit: true, Participant: first, CoordinatorGroup: decider.ID, DeadlineMS: deadline, OtherSpans: []partition.Span{shard.Span}})
	left, right := next.Find(low), next.Find(high)
	mustTryCommand(t, owner.Group, &ownership.ChangeOwnership{
		Expect: []ownership.Range{{Span: shard.Span, Version: shard.Changed, State: ownership.Serving}},
		Become: []ownership.Range{{Span: left.Span, Version: left.Changed, State: ownership.Serving}, {Span: right.Span, Version: right.Changed, State: ownership.Serving}},
	})
	goOn := stallGroup(decider)
	settled := make(chan error, 1)
	go func() { settled <- n.ResolveDecided(ctx) }()
	waitQueued(t, decider) // it asks for one of the locks
	n.publishMap(next)
	close(goOn)
	if err := <-settled; err != nil {
		t.Fatal(err)
	}
	for _, l := range owner.Group.ListLocks() {
		t.Errorf("%x is locked by a transaction that was acknowledged before", l.Start)
	}
}

// keysIn returns the positions of so many keys of a span, in order.
func keysIn(k *Keyspace, s partition.Span, count int) (keys []partition.Position) {
	for i := 0; len(keys) < count; i++ {
		if p := k.AppendPosition(nil, []byte{byte(i >> 8), byte(i)}); s.Contains(p) {
			keys = append(keys, p)
		}
	}
	slices.SortFunc(keys, func(a, b partition.Position) int { return bytes.Compare(a, b) })
	return keys
}

// failingNode is a node of two stores of which the first fails when it is to make something durable.
type failingNode struct {
	*Node
	wallMS atomic.Int64
	broken atomic.Bool
}

func openFailing(t *testing.T) *failingNode {
	n := new(failingNode)
	n.wallMS.Store(1 << 40) // it stands still: no group reserves time, which is durable
	o := smallOptions(2)
	o.Wall = n.wallMS.Load
	o.FS = failingDisks(0, &n.broken)
	n.Node = mustOpen(t, o)
	return n
}

// decideAndFail commits a transaction that writes a key of each store, and whose coordinator group's store
// fails then. It returns the keys when no coordinator leads it any more.
func (n *failingNode) decideAndFail(t *testing.T) (keys []partition.Position) {
	t.Helper()
	var parts []txn.Participant
	for _, h := range n.StoreHosts() { // a group of the first decides
		p := keyOnStore(n.Node, h, 0)
		keys = append(keys, p)
		parts = append(parts, writeParticipant(n.Node, p))
	}
	n.broken.Store(true)
	if err := n.Commit(ctx, Transaction{Participants: parts}); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "nobody goes on with what has no hope", func() bool { return n.Counters.Open.Load() == 0 })
	return keys
}

// A transaction is decided, and the store of its coordinator group fails before that is durable. The
// decision has no effect, since the next Open may not find it, and no coordinator goes on
// trying.
func TestADecisionThatCannotBeMadeDurableIsLeftToTheNextOpen(t *testing.T) {
	n := openFailing(t)
	defer n.Close(ctx)
	keys := n.decideAndFail(t)
	if len(n.GroupHostAt(keys[1]).Group.ListLocks()) == 0 {
		t.Error("a decision that a crash may take back was carried out")
	}
	limited, stop := context.WithTimeout(ctx, eventually.Limit())
	defer stop()
	if err := n.ResolveDecided(limited); !errors.Is(err, store.ErrFailed) || limited.Err() != nil {
		t.Errorf("who waits for it: %v, want ErrFailed", err)
	}
}

// failFirstStore makes the first store fail.
func (n *failingNode) failFirstStore(t *testing.T) {
	t.Helper()
	n.broken.Store(true)
	if err := n.StoreHosts()[0].Store.Sync(); err == nil {
		t.Fatal("the store has not failed")
	}
}

// failureWaiter is a caller that waits for what does not come any more.
type failureWaiter struct {
	name   string
	waitFn func(context.Context) error
}

// checkWaitersFail checks that waiters get the error that a store has failed.
func checkWaitersFail(t *testing.T, waiters ...failureWaiter) {
	for _, w := range waiters {
		t.Run(w.name, func(t *testing.T) {
			limited, stop := context.WithTimeout(ctx, eventually.Limit())
			defer stop()
			if err := w.waitFn(limited); !errors.Is(err, store.ErrFailed) || limited.Err() != nil {
				t.Errorf("%v, want ErrFailed", err)
			}
		})
	}
}

func writeParticipant(n *Node, p partition.Position) txn.Participant {
	return txn.Participant{Span: n.Map().Find(p).Span, Writes: []command.Command{&command.Set{Key: p}}}
}

// A transaction has locked a key, and the store of the key fails: the end of the transaction
// cannot be written there.
func TestWhoWaitsForALockInAFailedStoreIsTold(t *testing.T) {
	n := openFailing(t)
	defer n.Close(ctx)
	key, other := keyOnStore(n.Node, n.StoreHosts()[0], 0), keyOnStore(n.Node, n.StoreHosts()[1], 0)
	g := n.GroupHostAt(key).Group
	mustTryCommand(t, g, &txn.Prepare{ID: n.newTxnID(), Participant: writeParticipant(n.Node, key), CoordinatorGroup: n.GroupHostAt(other).ID, DeadlineMS: n.computeDeadlineMS()})
	n.failFirstStore(t)
	n.wallMS.Add(2 * txnTimeoutMS) // no coordinator leads it: from its deadline on it is aborted
	checkWaitersFail(t,
		failureWaiter{"a write", func(ctx context.Context) error {
			_, err := g.Execute(ctx, group.Request{Command: &command.Set{Key: key}})
			return err
		}},
		failureWaiter{"a read in its turn", func(ctx context.Context) error {
			_, err := g.EvalReadOnly(ctx, key, &command.HGet{Key: key})
			return err
		}},
		failureWaiter{"a turn", func(ctx context.Context) error {
			_, _, err := n.Reserve(ctx, writeClaims(key))
			return err
		}},
		failureWaiter{"who clears a keyspace", func(ctx context.Context) error { return n.waitForUnlockedSpan(ctx, partition.Whole) }})
}

// A transaction has locked a key, and the store of its coordinator group fails: the outcome is unknown.
func TestWhoWaitsForALockWhoseDeciderHasFailedIsTold(t *testing.T) {
	n := openFailing(t)
	defer n.Close(ctx)
	key := n.decideAndFail(t)[1]
	// Up to its deadline a coordinator may lead it, which is refused by the coordinator group and aborts
	// it.
	limited, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	if _, err := n.GroupHostAt(key).Group.Execute(limited, group.Request{Command: &command.Set{Key: key}}); errors.Is(err, store.ErrFailed) {
		t.Errorf("a write before the deadline: %v", err)
	}
	n.wallMS.Add(2 * txnTimeoutMS)
	checkWaitersFail(t,
		failureWaiter{"a write", func(ctx context.Context) error {
			_, err := n.GroupHostAt(key).Group.Execute(ctx, group.Request{Command: &command.Set{Key: key}})
			return err
		}},
		failureWaiter{"a turn", func(ctx context.Context) error {
			_, _, err := n.Reserve(ctx, writeClaims(key))
			return err
		}})
}

// A range is frozen, and its store fails: it cannot be written there that the range is thawed,
// or given away.
func TestWhoWaitsForAFrozenRangeOfAFailedStoreIsTold(t *testing.T) {
	n := openFailing(t)
	defer n.Close(ctx)
	key, other := keyOnStore(n.Node, n.StoreHosts()[0], 0), keyOnStore(n.Node, n.StoreHosts()[1], 0)
	g := n.GroupHostAt(key).Group
	serving, _ := g.OwnershipTable().Find(key)
	frozen := serving
	frozen.State, frozen.Job = ownership.Frozen, 9
	// From the first on it knows without a look at its store what it has decided.
	mustTryCommand(t, g, &txn.Decide{ID: n.newTxnID(), CoordinatorGroup: n.GroupHostAt(key).ID, DeadlineMS: n.computeDeadlineMS()})
	mustTryCommand(t, g, &ownership.ChangeOwnership{Expect: []ownership.Range{serving}, Become: []ownership.Range{frozen}})
	n.failFirstStore(t)
	commit := func(keys ...partition.Position) func(context.Context) error {
		return func(ctx context.Context) error {
			var parts []txn.Participant
			for _, p := range keys {
				parts = append(parts, writeParticipant(n.Node, p))
			}
			return n.Commit(ctx, Transaction{Participants: parts})
		}
	}
	checkWaitersFail(t,
		failureWaiter{"a write", func(ctx context.Context) error {
			_, err := g.Execute(ctx, group.Request{Command: &command.Set{Key: key}})
			return err
		}},
		failureWaiter{"a turn", func(ctx context.Context) error {
			_, _, err := n.Reserve(ctx, writeClaims(key))
			return err
		}},
		failureWaiter{"a transaction that is prepared there", commit(other, key)},
		failureWaiter{"a transaction that is decided there", commit(key, other)})
}

// adjacentShards returns two shards side by side of a group.
func adjacentShards(t *testing.T, n *Node, g partition.GroupID) (left, right partition.Shard) {
	t.Helper()
	k, _ := n.Keyspace(DefaultKeyspace)
	m := n.Map()
	for s := range m.Owned(g) {
		next := m.Find(s.Span.End)
		if len(s.Span.End) > 0 && next.Group == g && k.Span().Covers(partition.Span{Start: s.Span.Start, End: next.Span.End}) {
			return s, next
		}
	}
	t.Fatalf("%v has no two shards side by side", g)
	return left, right
}

// keyIn returns a position of the first keyspace in a span.
func keyIn(n *Node, s partition.Span) partition.Position {
	k, _ := n.Keyspace(DefaultKeyspace)
	for i := 0; ; i++ {
		if p := k.AppendPosition(nil, fmt.Append(nil, i)); s.Contains(p) {
			return p
		}
	}
}

// A transaction that is not decided has locked a range across two shards. Whichever of them
// moves, neither is written to before the transaction is decided.
func TestALockOnARangeStaysWhenAShardOfItMoves(t *testing.T) {
	for where, to := range map[string]partition.GroupID{"within the store": 1, "to the other store": 3} {
		for _, second := range []bool{true, false} {
			o := smallOptions(2)
			o.Groups = 4
			o.Store.RetainBytes = 1 << 20
			n := mustOpen(t, o)
			left, right := adjacentShards(t, n, 2)
			span := partition.Span{Start: left.Span.Start, End: right.Span.End}
			reply, err := n.lookupGroup(2).Group.Execute(ctx, group.Request{NoWait: true, Command: &txn.Prepare{
				ID: n.newTxnID(), CoordinatorGroup: 4, DeadlineMS: n.computeDeadlineMS() + 1<<30,
				Participant: txn.Participant{Span: span, Ranges: []command.RangeRead{{Start: span.Start, End: span.End}}},
			}})
			if err = errors.Join(err, reply.Err); err != nil {
				t.Fatal(err)
			}
			moved := left
			if second {
				moved = right
			}
			mustRunJob(t, n, mover.Request{Kind: mover.Move, Shard: moved.ID, To: to})
			for _, s := range []partition.Shard{left, right} {
				p := keyIn(n, s.Span)
				reply, err := n.GroupHostAt(p).Group.Execute(ctx, group.Request{NoWait: true, Command: &command.Set{Key: p, Value: []byte("phantom")}, Key: p})
				if err != nil || !errors.Is(reply.Err, txn.ErrLocked) {
					t.Errorf("%v moves %s, and %v is written: %v, %v", moved.ID, where, s.ID, err, reply.Err)
				}
			}
			if err := n.Close(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Maps from before may have a shard that begins with the first slot of a hash keyspace. The
// record of a lock on all of the keyspace lies in that shard, and moves with it. The resolve of
// the transaction finds it there.
func TestALockIsEndedWhereItsRecordIs(t *testing.T) {
	o := smallOptions(2)
	o.Groups = 4
	o.Store.RetainBytes = 1 << 20
	for _, moves := range []bool{false, true} {
		n := mustOpen(t, o)
		k, _ := n.Keyspace(DefaultKeyspace)
		first := k.SlotSpan(0).Start
		ordered := partition.Keyspace{ID: k.ID, Kind: partition.Range} // of a hash keyspace it would be refused
		left := n.Map().Find(k.Span().Start)
		mustRunJob(t, n, mover.Request{Kind: mover.Split, Shard: left.ID, In: &ordered, At: []partition.Position{first}})
		right := n.Map().Find(first)
		span := partition.Span{Start: k.Span().Start, End: right.Span.End}
		mustTryCommand(t, n.lookupGroup(right.Group).Group, &txn.Prepare{
			ID: n.newTxnID(), CoordinatorGroup: 4, DeadlineMS: n.computeDeadlineMS(),
			Participant: txn.Participant{Span: span, Ranges: []command.RangeRead{{Start: span.Start, End: span.End}}},
		})
		owner := n.lookupGroup(right.Group)
		if moves {
			mustRunJob(t, n, mover.Request{Kind: mover.Move, Shard: right.ID, To: 3})
			if locks := owner.Group.ListLocks(); len(locks) > 0 {
				t.Errorf("the range has gone, and %x is locked still", locks[0].Start)
			}
			owner = n.lookupGroup(3)
		}
		locks := n.firstLocks(owner)
		if len(locks) != 1 {
			t.Fatalf("there are %d locks", len(locks))
		}
		if err := n.resolveAbandoned(ctx, locks[0]); err != nil || len(owner.Group.ListLocks()) > 0 {
			t.Errorf("it is over, and %d locks are left, %v", len(owner.Group.ListLocks()), err)
		}
		if err := n.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// keyOnStore returns the position of a key of a store, from a byte on.
func keyOnStore(n *Node, h *StoreHost, from byte) partition.Position {
	k, _ := n.Keyspace(DefaultKeyspace)
	for i := from; ; i++ {
		if p := k.AppendPosition(nil, []byte{i}); n.GroupHostAt(p).Host == h {
			return p
		}
	}
}

func mustTryCommand(t *testing.T, g *group.Group, c command.Command) command.Reply {
	t.Helper()
	reply, err := g.Execute(ctx, group.Request{NoWait: true, Command: c})
	if err = errors.Join(err, reply.Err); err != nil {
		t.Fatal(err)
	}
	return reply
}

// A transaction has read a key, is decided, and what it has locked is not released yet. Until
// then the key does not expire, and from then on it has: a reader that has seen it gone never
// sees it again, in a view, past the queue or in a transaction.
func TestAKeyThatWasSeenGoneStaysGone(t *testing.T) {
	for _, outcome := range []txn.Outcome{txn.Committed, txn.Aborted} {
		wall := int64(1 << 40)
		o := smallOptions(2)
		o.Wall = func() int64 { return wall }
		n := mustOpen(t, o)
		a, b := keyOnStore(n, n.StoreHosts()[0], 0), keyOnStore(n, n.StoreHosts()[1], 0)
		decider, owner := n.GroupHostAt(a), n.GroupHostAt(b)
		version := mustTryCommand(t, owner.Group, &command.Set{Key: b, Value: []byte("v"), Expiry: command.ExpireIn(50)}).Version
		id, deadline := n.newTxnID(), n.computeDeadlineMS()
		writes := txn.Participant{Span: n.Map().Find(a).Span, Writes: []command.Command{&command.Set{Key: a, Value: []byte("w")}}}
		reads := txn.Participant{Span: n.Map().Find(b).Span, Reads: []command.Read{{Key: b, Version: version}}}
		mustTryCommand(t, owner.Group, &txn.Prepare{ID: id, Participant: reads, CoordinatorGroup: decider.ID, DeadlineMS: deadline})
		mustTryCommand(t, decider.Group, &txn.Decide{
			ID: id, Commit: outcome == txn.Committed, Participant: writes, CoordinatorGroup: decider.ID, DeadlineMS: deadline,
			OtherSpans: []partition.Span{reads.Span},
		})
		wall += 100
		check := func(when string, want bool) {
			t.Helper()
			v, err := n.Snapshot(ctx, n.StoreHosts()...)
			if err != nil {
				t.Fatal(err)
			}
			value, now, seen, err := v.GetWithTime(effect.Rows.AppendKey(nil, b), nil)
			v.Close()
			if seen && err == nil {
				var row command.Row
				row, err = command.DecodeRow(value)
				seen = row.IsAlive(now)
			}
			_, got, err2 := owner.Group.Read(ctx, b, nil)
			reply, err3 := owner.Group.Execute(ctx, group.Request{NoWait: true, Command: &command.Commit{
				Reads:  []command.Read{{Key: b, Version: version}},
				Writes: command.Batch{Commands: []command.Command{&command.Set{Key: keyOnStore(n, owner.Host, 100), Value: nil}}},
			}})
			if err := errors.Join(err, err2, err3); err != nil || seen != want || got != want || (reply.Err == nil) != want {
				t.Errorf("%v, %s: a view sees it: %v, a read: %v, a transaction: %v; %v", outcome, when, seen, got, reply.Err == nil, err)
			}
		}
		check("before it is released", true)
		mustTryCommand(t, owner.Group, &txn.Resolve{ID: id, Commit: outcome == txn.Committed, Span: reads.Span, DeadlineMS: deadline})
		check("afterwards", false)
		if err := n.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// A transaction has read a range and written a key of it that expires soon. It is committed, and
// not resolved yet, as if its range were frozen. A reader that has seen the key gone must not
// see it again.
func TestWhatACommittedTransactionHasWrittenExpires(t *testing.T) {
	wall := int64(1 << 40)
	o := smallOptions(2)
	o.Wall = func() int64 { return wall }
	n := mustOpen(t, o)
	a, b := keyOnStore(n, n.StoreHosts()[0], 0), keyOnStore(n, n.StoreHosts()[1], 0)
	decider, owner := n.GroupHostAt(a), n.GroupHostAt(b)
	id, deadline := n.newTxnID(), n.computeDeadlineMS()
	span := n.Map().Find(b).Span
	digest, err := command.DigestRange(owner.Store, span.Start, span.End, command.AliveAt(wall))
	if err != nil {
		t.Fatal(err)
	}
	writes := txn.Participant{Span: n.Map().Find(a).Span, Writes: []command.Command{&command.Set{Key: a, Value: []byte("w")}}}
	part := txn.Participant{
		Span: span, Ranges: []command.RangeRead{{Start: span.Start, End: span.End, Digest: digest}},
		Writes: []command.Command{&command.Set{Key: b, Value: []byte("v"), Expiry: command.ExpireIn(50)}},
	}
	mustTryCommand(t, owner.Group, &txn.Prepare{ID: id, Participant: part, CoordinatorGroup: decider.ID, DeadlineMS: deadline})
	mustTryCommand(t, decider.Group, &txn.Decide{ID: id, Commit: true, Participant: writes, CoordinatorGroup: decider.ID, DeadlineMS: deadline, OtherSpans: []partition.Span{span}})
	check := func(when string, want bool) {
		t.Helper()
		_, got, err2 := owner.Group.Read(ctx, b, nil)
		v, err := n.Snapshot(ctx, n.StoreHosts()...)
		if err != nil {
			t.Fatal(err)
		}
		value, now, seen, err := v.GetWithTime(effect.Rows.AppendKey(nil, b), nil)
		v.Close()
		if seen && err == nil {
			var row command.Row
			row, err = command.DecodeRow(value)
			seen = row.IsAlive(now)
		}
		if err := errors.Join(err, err2); err != nil || seen != want || got != want {
			t.Errorf("%s: a read sees it: %v, then a view: %v; %v", when, got, seen, err)
		}
	}
	check("at once", true)
	wall += 100
	check("expired, not resolved", false)
	mustTryCommand(t, owner.Group, &txn.Resolve{ID: id, Commit: true, Span: span, DeadlineMS: deadline})
	check("resolved", false)
	if err := n.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// A transaction across stores has read a key, so that it does not expire before that is decided.
// Until then its time stands still: a reader gets neither that it never expires, -1, nor that it
// is gone, -2.
func TestTheTimeOfAKeyThatALockKeepsAliveStandsStill(t *testing.T) {
	wall := int64(1 << 40)
	o := smallOptions(2)
	o.Wall = func() int64 { return wall }
	n := mustOpen(t, o)
	defer n.Close(ctx)
	a, b := keyOnStore(n, n.StoreHosts()[0], 0), keyOnStore(n, n.StoreHosts()[1], 0)
	decider, owner := n.GroupHostAt(a), n.GroupHostAt(b)
	version := mustTryCommand(t, owner.Group, &command.Set{Key: b, Value: []byte("v"), Expiry: command.ExpireIn(50)}).Version
	reads := txn.Participant{Span: n.Map().Find(b).Span, Reads: []command.Read{{Key: b, Version: version}}}
	mustTryCommand(t, owner.Group, &txn.Prepare{ID: n.newTxnID(), Participant: reads, CoordinatorGroup: decider.ID, DeadlineMS: n.computeDeadlineMS()})
	for _, ms := range []int64{51, 1, 10} {
		wall += ms
		value, left := mustTryCommand(t, owner.Group, &command.Get{Key: b}), mustTryCommand(t, owner.Group, &command.TTL{Key: b})
		if string(value.Bytes) != "v" || left.Int != 50 {
			t.Errorf("the key is %q, and PTTL says %d", value.Bytes, left.Int)
		}
	}
}
