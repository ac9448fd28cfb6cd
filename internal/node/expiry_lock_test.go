package node

import (
	"errors"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// keyOn returns the position of a key of a store, from a byte on.
func keyOn(n *Node, h *Host, from byte) partition.Position {
	k, _ := n.Keyspace(DefaultName)
	for i := from; ; i++ {
		if p := k.AppendPosition(nil, []byte{i}); n.PartOf(p).Host == h {
			return p
		}
	}
}

func mustTry(t *testing.T, g *group.Group, c command.Command) command.Reply {
	t.Helper()
	reply, err := g.Try(ctx, group.Request{Command: c})
	if err = errors.Join(err, reply.Err); err != nil {
		t.Fatal(err)
	}
	return reply
}

// A transaction has read a key, is decided, and what it has locked is not released yet. Until
// then the key does not expire, and from then on it has: whoever has seen it gone never sees
// it again, in a view, past the queue or in a transaction.
func TestAKeyThatWasSeenGoneStaysGone(t *testing.T) {
	for _, outcome := range []txn.Outcome{txn.Committed, txn.Aborted} {
		wall := int64(1 << 40)
		o := small(2)
		o.Wall = func() int64 { return wall }
		n := open(t, o)
		a, b := keyOn(n, n.Hosts()[0], 0), keyOn(n, n.Hosts()[1], 0)
		decider, owner := n.PartOf(a), n.PartOf(b)
		version := mustTry(t, owner.Group, &command.Set{Key: b, Value: []byte("v"), Expiry: command.In(50)}).Version
		id, deadline := n.newID(), n.deadlineMS()
		writes := txn.Part{Span: n.Map().Find(a).Span, Writes: []command.Command{&command.Set{Key: a, Value: []byte("w")}}}
		reads := txn.Part{Span: n.Map().Find(b).Span, Reads: []command.Read{{Key: b, Version: version}}}
		mustTry(t, owner.Group, &txn.Prepare{ID: id, Part: reads, Decider: decider.ID, DeadlineMS: deadline})
		mustTry(t, decider.Group, &txn.Decide{
			ID: id, Commit: outcome == txn.Committed, Part: writes, Decider: decider.ID, DeadlineMS: deadline,
			Others: []partition.Span{reads.Span},
		})
		wall += 100
		check := func(when string, want bool) {
			t.Helper()
			v, err := n.View(ctx, n.Hosts()...)
			if err != nil {
				t.Fatal(err)
			}
			value, now, seen, err := v.Read(effect.Rows.AppendKey(nil, b), nil)
			v.Close()
			if seen && err == nil {
				var row command.Row
				row, err = command.DecodeRow(value)
				seen = row.Alive(now)
			}
			_, got, err2 := owner.Group.Read(ctx, b, nil)
			reply, err3 := owner.Group.Try(ctx, group.Request{Command: &command.Commit{
				Reads:  []command.Read{{Key: b, Version: version}},
				Writes: command.Batch{Commands: []command.Command{&command.Set{Key: keyOn(n, owner.Host, 100), Value: nil}}},
			}})
			if err := errors.Join(err, err2, err3); err != nil || seen != want || got != want || (reply.Err == nil) != want {
				t.Errorf("%v, %s: a view sees it: %v, a read: %v, a transaction: %v; %v", outcome, when, seen, got, reply.Err == nil, err)
			}
		}
		check("before it is released", true)
		mustTry(t, owner.Group, &txn.Resolve{ID: id, Commit: outcome == txn.Committed, Span: reads.Span, DeadlineMS: deadline})
		check("afterwards", false)
		if err := n.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// A transaction has read a range and written a key of it that expires soon. It is
// committed, and not resolved yet, as if its range were frozen. Whoever has seen the key
// gone must not see it again.
func TestWhatACommittedTransactionHasWrittenExpires(t *testing.T) {
	wall := int64(1 << 40)
	o := small(2)
	o.Wall = func() int64 { return wall }
	n := open(t, o)
	a, b := keyOn(n, n.Hosts()[0], 0), keyOn(n, n.Hosts()[1], 0)
	decider, owner := n.PartOf(a), n.PartOf(b)
	id, deadline := n.newID(), n.deadlineMS()
	span := n.Map().Find(b).Span
	digest, err := command.DigestRange(owner.Store, span.Start, span.End, command.AliveAt(wall))
	if err != nil {
		t.Fatal(err)
	}
	writes := txn.Part{Span: n.Map().Find(a).Span, Writes: []command.Command{&command.Set{Key: a, Value: []byte("w")}}}
	part := txn.Part{
		Span: span, Ranges: []command.RangeRead{{Start: span.Start, End: span.End, Digest: digest}},
		Writes: []command.Command{&command.Set{Key: b, Value: []byte("v"), Expiry: command.In(50)}},
	}
	mustTry(t, owner.Group, &txn.Prepare{ID: id, Part: part, Decider: decider.ID, DeadlineMS: deadline})
	mustTry(t, decider.Group, &txn.Decide{ID: id, Commit: true, Part: writes, Decider: decider.ID, DeadlineMS: deadline, Others: []partition.Span{span}})
	check := func(when string, want bool) {
		t.Helper()
		_, got, err2 := owner.Group.Read(ctx, b, nil)
		v, err := n.View(ctx, n.Hosts()...)
		if err != nil {
			t.Fatal(err)
		}
		value, now, seen, err := v.Read(effect.Rows.AppendKey(nil, b), nil)
		v.Close()
		if seen && err == nil {
			var row command.Row
			row, err = command.DecodeRow(value)
			seen = row.Alive(now)
		}
		if err := errors.Join(err, err2); err != nil || seen != want || got != want {
			t.Errorf("%s: a read sees it: %v, then a view: %v; %v", when, got, seen, err)
		}
	}
	check("at once", true)
	wall += 100
	check("expired, not resolved", false)
	mustTry(t, owner.Group, &txn.Resolve{ID: id, Commit: true, Span: span, DeadlineMS: deadline})
	check("resolved", false)
	if err := n.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// A transaction across stores has read a key, so that it does not expire before that is decided. Until
// then its time stands still: it is neither told that it never expires, -1, nor that it is gone, -2.
func TestTheTimeOfAKeyThatALockKeepsAliveStandsStill(t *testing.T) {
	wall := int64(1 << 40)
	o := small(2)
	o.Wall = func() int64 { return wall }
	n := open(t, o)
	defer n.Close(ctx)
	a, b := keyOn(n, n.Hosts()[0], 0), keyOn(n, n.Hosts()[1], 0)
	decider, owner := n.PartOf(a), n.PartOf(b)
	version := mustTry(t, owner.Group, &command.Set{Key: b, Value: []byte("v"), Expiry: command.In(50)}).Version
	reads := txn.Part{Span: n.Map().Find(b).Span, Reads: []command.Read{{Key: b, Version: version}}}
	mustTry(t, owner.Group, &txn.Prepare{ID: n.newID(), Part: reads, Decider: decider.ID, DeadlineMS: n.deadlineMS()})
	for _, ms := range []int64{51, 1, 10} {
		wall += ms
		value, left := mustTry(t, owner.Group, &command.Get{Key: b}), mustTry(t, owner.Group, &command.TTL{Key: b})
		if string(value.Bytes) != "v" || left.Int != 50 {
			t.Errorf("the key is %q, and PTTL says %d", value.Bytes, left.Int)
		}
	}
}
