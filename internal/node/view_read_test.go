package node

import (
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// A transaction has written two keys on two stores. It is committed, and not resolved yet. A
// view sees both as it leaves them, also the one that a scan of the view has ended with.
func TestAKeyThatEndsAScanIsReadThroughItsLock(t *testing.T) {
	n := open(t, small(2))
	defer n.Close(ctx)
	a, b := keyOn(n, n.Hosts()[0], 0), keyOn(n, n.Hosts()[1], 0)
	decider, owner := n.PartOf(a), n.PartOf(b)
	mustTry(t, owner.Group, &command.Set{Key: b, Value: []byte("old")})
	id, deadline := n.newID(), n.deadlineMS()
	part := func(p partition.Position) txn.Part {
		return txn.Part{Span: n.Map().Find(p).Span, Writes: []command.Command{&command.Set{Key: p, Value: []byte("new")}}}
	}
	mustTry(t, owner.Group, &txn.Prepare{ID: id, Part: part(b), Decider: decider.ID, DeadlineMS: deadline})
	mustTry(t, decider.Group, &txn.Decide{
		ID: id, Commit: true, Part: part(a), Decider: decider.ID, DeadlineMS: deadline,
		Others: []partition.Span{part(b).Span},
	})
	v, err := n.View(ctx, n.Hosts()...)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	check := func(how string, key, value []byte) {
		t.Helper()
		row, err := command.DecodeRow(value)
		if err != nil || string(row.Payload) != "new" {
			t.Errorf("%s says that %x is %q, %v", how, key, row.Payload, err)
		}
	}
	from, to := effect.Rows.Between(part(b).Span.Start, command.After(b))
	scanned := 0
	err = v.Scan(from, to, false, func(key, value []byte) bool {
		scanned++
		check("the scan", key, value)
		return true
	})
	if err != nil || scanned != 1 {
		t.Fatalf("%d rows, %v", scanned, err)
	}
	for _, p := range []partition.Position{b, a} {
		key := effect.Rows.AppendKey(nil, p)
		value, _, err := v.Get(key, nil)
		if err != nil {
			t.Fatal(err)
		}
		check("then Get", key, value)
	}
}
