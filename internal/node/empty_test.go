package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/index"
	"github.com/cleavekv/cleave/partition"
)

func setIn(n *Node, k *Space, p partition.Position) error {
	reply, err := n.PartOf(p).Group.Do(ctx, group.Request{Command: &command.Set{Key: p, Value: []byte("v")}, Key: p, Gate: Plain{k}})
	return errors.Join(err, reply.Err)
}

// An emptied keyspace is another one of the same name, also after a restart, and the rows
// of the old one go.
func TestAnEmptiedKeyspaceIsEmptyAndStaysSo(t *testing.T) {
	o := small(2)
	o.Dir = t.TempDir()
	n := open(t, o)
	k := newSpace(t, n, "k")
	p := inPart(n, k, 1)
	if err := setIn(n, k, p); err != nil {
		t.Fatal(err)
	}
	if err := n.EmptyKeyspace(ctx, k); err != nil {
		t.Fatal(err)
	}
	now, err := n.Successor(ctx, k)
	if err != nil || now == k || now.Name != "k" || now.ID == k.ID || now.Kind != k.Kind || now.SlotCount() != k.SlotCount() {
		t.Fatalf("the successor of %+v is %+v, %v", k, now, err)
	}
	if err := setIn(n, k, p); !errors.Is(err, ErrNoKeyspace) {
		t.Errorf("the old one is written: %v", err)
	}
	if err := n.EmptyKeyspace(ctx, k); !errors.Is(err, ErrNoKeyspace) {
		t.Errorf("the old one is emptied: %v", err)
	}
	if err := setIn(n, now, inPart(n, now, 0)); err != nil {
		t.Error(err)
	}
	if err := n.clearDropped(ctx); err != nil || rowsOf(n, k) > 0 {
		t.Errorf("%d rows are left, %v", rowsOf(n, k), err)
	}
	if err := n.Close(ctx); err != nil {
		t.Fatal(err)
	}
	n = open(t, o)
	again, err := n.Keyspace("k")
	if err != nil || again.ID != now.ID || rowsOf(n, again) == 0 {
		t.Errorf("after a restart it is %+v with %d rows, %v", again, rowsOf(n, again), err)
	}
}

// What is written while a keyspace is being emptied is in the new one, or refused: the
// catalog may know the new one already.
func TestAKeyspaceIsClosedBeforeItIsEmptied(t *testing.T) {
	n := open(t, small(2))
	k := newSpace(t, n, "k")
	stop := blocking{make(chan struct{}), make(chan struct{})}
	held := make(chan error, 1)
	go func() {
		_, err := n.catalog().Do(ctx, group.Request{Command: stop})
		held <- err
	}()
	<-stop.inside // the catalog changes only when it may go on
	done := make(chan error, 1)
	go func() { done <- n.EmptyKeyspace(ctx, k) }()
	closed := false
	for range 500 {
		if closed = errors.Is(setIn(n, k, inPart(n, k, 1)), ErrNoKeyspace); closed {
			break
		}
		time.Sleep(time.Millisecond)
	}
	close(stop.goOn)
	if err := errors.Join(<-held, <-done); err != nil {
		t.Fatal(err)
	}
	if !closed {
		t.Error("it takes writes until the catalog knows another one")
	}
}

// Who empties a keyspace and fails opens it again, unless somebody has dropped it by then.
func TestAKeyspaceThatWasNotEmptiedIsAsItWas(t *testing.T) {
	for _, drop := range []bool{false, true} {
		n := open(t, small(2))
		k := newSpace(t, n, "k")
		goOn := stall(n.part(firstGroup))
		hurried, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- n.EmptyKeyspace(hurried, k) }()
		for k.Check() == nil {
			time.Sleep(time.Millisecond)
		}
		n.jobs.quiet.mu.Lock() // so that it cannot end before the drop has
		cancel()
		if err := lock(ctx, &n.changing); err != nil { // it has failed, and lets others
			t.Fatal(err)
		}
		n.changing.Unlock()
		close(goOn)
		var dropped error
		if drop {
			dropped = n.DropKeyspace(ctx, "k")
		}
		n.jobs.quiet.mu.Unlock()
		if err := <-done; !errors.Is(err, context.Canceled) || dropped != nil {
			t.Fatalf("emptied: %v, dropped: %v", err, dropped)
		}
		if closed := errors.Is(setIn(n, k, inPart(n, k, 1)), ErrNoKeyspace); closed != drop {
			t.Errorf("closed: %v, dropped: %v", closed, drop)
		}
		if err := n.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}

func TestAKeyspaceWithAnIndexIsNotEmptiedLikeThat(t *testing.T) {
	n := open(t, small(1))
	k := newSpace(t, n, "k")
	d := index.Definition{Keyspace: "k", Name: "x", Columns: "f"}
	extract, err := index.New(&d, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.CreateIndex(ctx, k, d, extract); err != nil {
		t.Fatal(err)
	}
	if err := n.EmptyKeyspace(ctx, k); !errors.Is(err, ErrIndexes) {
		t.Errorf("emptied: %v", err)
	}
	if err := k.Check(); err != nil {
		t.Errorf("and closed: %v", err)
	}
}

// Who has waited for a backup, say, may come when another has the name.
func TestAnIndexIsOfWhatItWasAskedFor(t *testing.T) {
	n := open(t, small(1))
	d := index.Definition{Keyspace: "k", Name: "x", Columns: "f"}
	extract, err := index.New(&d, "")
	if err != nil {
		t.Fatal(err)
	}
	var before *Index
	for range 2 {
		k := newSpace(t, n, "k")
		x, err := n.CreateIndex(ctx, k, d, extract)
		if err != nil {
			t.Fatal(err)
		}
		if before != nil {
			if now, err := n.DeclareIndex(before, extract); !errors.Is(err, ErrNoIndex) {
				t.Errorf("one that was dropped gets a function: %+v, %v", now, err)
			}
		}
		before = x
		if err := n.DropKeyspace(ctx, "k"); err != nil {
			t.Fatal(err)
		}
	}
	newSpace(t, n, "k")
	if x, err := n.CreateIndex(ctx, before.Rows, d, extract); !errors.Is(err, ErrNoKeyspace) {
		t.Errorf("of a keyspace that was dropped: %+v, %v", x, err)
	}
}
