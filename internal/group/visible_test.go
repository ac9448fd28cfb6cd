package group

import (
	"context"
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// A range comes to a group, with locks on keys and one on a range. Who sees that the group serves it sees
// that a range is locked there: keys of that do not expire.
func TestWhoSeesARangeThatHasComeSeesThatRangesAreLocked(t *testing.T) {
	none, err := own.NewList()
	if err != nil {
		t.Fatal(err)
	}
	g := &guard{owner: own.Site{Group: 1, List: none}, locks: txn.NewLocks(), holds: new(txn.Holds), durable: none}
	var v visible
	v.init(g)
	g.begin()
	for i := range 50_000 { // so that it takes a moment to show them
		p := partition.Position(append(binary.BigEndian.AppendUint32([]byte{1, 1}, uint32(i)), 1))
		g.locks.Add(txn.Lock{Txn: txn.ID{1}, Start: p, PrepareMS: 100})
	}
	g.locks.Add(txn.Lock{Txn: txn.ID{2}, Range: true, Start: partition.Position{2, 1}, End: partition.Position{3, 1}, PrepareMS: 100})
	if g.owner.List, err = own.NewList(own.Range{State: own.Serving}); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		v.follow(g, true)
	}()
	wrong := 0
	for over := false; !over; runtime.Gosched() {
		select {
		case <-done:
			over = true
		default:
		}
		list, locked := v.list.Load(), v.locked.Load() > 0
		if spanned := v.spanned.Load() > 0; list != none && locked && !spanned {
			wrong++
		}
	}
	if wrong > 0 {
		t.Errorf("%d looks saw the range, that something is locked, and that no range is", wrong)
	}
}

// A reader meets a lock, and asks its decider. Meanwhile it is resolved, another transaction
// reads the key, and its time is over. That one keeps it alive: nobody sees it gone before it
// is decided.
func TestASlowReaderDoesNotSeeAKeyGoneThatALockKeeps(t *testing.T) {
	wall := int64(1 << 40)
	var meanwhile func()
	decided := func(context.Context, txn.Lock) (txn.Outcome, error) {
		if f := meanwhile; f != nil {
			meanwhile = nil
			f()
		}
		return txn.Committed, nil
	}
	g := open(t, newDisk(true), Options{ID: 1, Wall: func() int64 { return wall }, Decided: decided})
	reown(t, g, own.Range{}, serving("a", "", 1))
	deadline := g.NowMS() + 60_000
	first, second := txn.ID{1}, txn.ID{2}
	do(t, g, &txn.Prepare{
		ID: first, Decider: 2, DeadlineMS: deadline,
		Part: txn.Part{Span: between("a", ""), Writes: []command.Command{&command.Set{Key: at("k"), Value: []byte("v"), Expiry: command.In(50)}}},
	})
	meanwhile = func() {
		do(t, g, &txn.Resolve{ID: first, Span: between("a", ""), Commit: true, DeadlineMS: deadline})
		row, ok, err := g.Read(context.Background(), at("k"), nil)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		do(t, g, &txn.Prepare{
			ID: second, Decider: 2, DeadlineMS: deadline,
			Part: txn.Part{Span: between("a", ""), Reads: []command.Read{{Key: at("k"), Version: row.Version}}},
		})
		wall += 100
		do(t, g, set("other", "1")) // time goes on
	}
	_, slow, err := g.Read(context.Background(), at("k"), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, next, err := g.Read(context.Background(), at("k"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slow && next {
		t.Errorf("a reader sees the key gone, and the next one sees it again")
	}
}
