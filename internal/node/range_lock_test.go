package node

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// neighbours returns two shards side by side of a group.
func neighbours(t *testing.T, n *Node, g partition.GroupID) (left, right partition.Shard) {
	t.Helper()
	k, _ := n.Keyspace(DefaultName)
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
	k, _ := n.Keyspace(DefaultName)
	for i := 0; ; i++ {
		if p := k.AppendPosition(nil, fmt.Append(nil, i)); s.Contains(p) {
			return p
		}
	}
}

// A transaction that is not decided has locked a range across two shards. Wherever one of
// them goes: nobody writes into either before it is.
func TestALockOnARangeStaysWhenAShardOfItMoves(t *testing.T) {
	for where, to := range map[string]partition.GroupID{"within the store": 1, "to the other store": 3} {
		for _, second := range []bool{true, false} {
			o := small(2)
			o.Groups = 4
			o.Store.RetainBytes = 1 << 20
			n := open(t, o)
			left, right := neighbours(t, n, 2)
			span := partition.Span{Start: left.Span.Start, End: right.Span.End}
			reply, err := n.part(2).Group.Try(ctx, group.Request{Command: &txn.Prepare{
				ID: n.newID(), Decider: 4, DeadlineMS: n.deadlineMS() + 1<<30,
				Part: txn.Part{Span: span, Ranges: []command.RangeRead{{Start: span.Start, End: span.End}}},
			}})
			if err = errors.Join(err, reply.Err); err != nil {
				t.Fatal(err)
			}
			moved := left
			if second {
				moved = right
			}
			wait(t, n, mover.Request{Kind: mover.Move, Shard: moved.ID, To: to})
			for _, s := range []partition.Shard{left, right} {
				p := keyIn(n, s.Span)
				reply, err := n.PartOf(p).Group.Try(ctx, group.Request{Command: &command.Set{Key: p, Value: []byte("phantom")}, Key: p})
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

// Maps from before may have a shard that begins with the first slot of a hash keyspace. The record
// of a lock on all of the keyspace lies in that one, and goes with it. Whoever ends the
// transaction finds it there.
func TestALockIsEndedWhereItsRecordIs(t *testing.T) {
	o := small(2)
	o.Groups = 4
	o.Store.RetainBytes = 1 << 20
	for _, moves := range []bool{false, true} {
		n := open(t, o)
		k, _ := n.Keyspace(DefaultName)
		first := k.SlotSpan(0).Start
		ordered := partition.Keyspace{ID: k.ID, Kind: partition.Range} // of a hash keyspace it would be refused
		left := n.Map().Find(k.Span().Start)
		wait(t, n, mover.Request{Kind: mover.Split, Shard: left.ID, In: &ordered, At: []partition.Position{first}})
		right := n.Map().Find(first)
		span := partition.Span{Start: k.Span().Start, End: right.Span.End}
		mustTry(t, n.part(right.Group).Group, &txn.Prepare{
			ID: n.newID(), Decider: 4, DeadlineMS: n.deadlineMS(),
			Part: txn.Part{Span: span, Ranges: []command.RangeRead{{Start: span.Start, End: span.End}}},
		})
		owner := n.part(right.Group)
		if moves {
			wait(t, n, mover.Request{Kind: mover.Move, Shard: right.ID, To: 3})
			if locks := owner.Group.Locks(); len(locks) > 0 {
				t.Errorf("the range has gone, and %x is locked still", locks[0].Start)
			}
			owner = n.part(3)
		}
		locks := n.firstLocks(owner)
		if len(locks) != 1 {
			t.Fatalf("there are %d locks", len(locks))
		}
		if err := n.abandon(ctx, locks[0]); err != nil || len(owner.Group.Locks()) > 0 {
			t.Errorf("it is over, and %d locks are left, %v", len(owner.Group.Locks()), err)
		}
		if err := n.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
