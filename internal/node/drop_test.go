package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/wal"
	"github.com/cleavekv/cleave/partition"
)

// rowsOf counts what is left of a keyspace in all tables of all parts.
func rowsOf(n *Node, k *Space) (rows int) {
	span := k.Span()
	for _, p := range n.Parts() {
		for _, table := range []effect.Table{effect.Rows, effect.Dedup, effect.Expiry, effect.Orphans} {
			_ = p.Store.Scan(table.AppendKey(nil, span.Start), table.AppendKey(nil, span.End), false, func(_, _ []byte) bool { rows++; return true })
		}
	}
	return rows
}

// inPart returns the position of a key that is in a part.
func inPart(n *Node, k *Space, part int) partition.Position {
	for i := 0; ; i++ {
		p := k.AppendPosition(nil, fmt.Append(nil, i))
		if n.PartOf(p) == n.Parts()[part] {
			return p
		}
	}
}

func newSpace(t *testing.T, n *Node, name string) *Space {
	t.Helper()
	k, err := n.CreateKeyspace(ctx, partition.Keyspace{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// blocking is a command that holds up all others.
type blocking struct{ inside, goOn chan struct{} }

func (b blocking) Eval(*command.Env) command.Reply {
	close(b.inside)
	<-b.goOn
	return command.Reply{Kind: command.OK}
}

// A write that waits for its turn while its keyspace is dropped and cleared must
// not be executed after that: nobody would ever remove it.
func TestAWriteOnItsWayDuringADropLeavesNothing(t *testing.T) {
	n := open(t, small(2))
	defer n.Close(ctx)
	k := newSpace(t, n, "s")
	part := n.Parts()[1] // the catalog is in the other one
	p := inPart(n, k, 1)
	b := blocking{make(chan struct{}), make(chan struct{})}
	go func() { _ = part.do(ctx, b) }()
	<-b.inside
	wrote := make(chan error, 1)
	go func() {
		reply, err := part.Group.Do(ctx, group.Request{Command: &command.Set{Key: p}, Gate: k})
		wrote <- errors.Join(err, reply.Err)
	}()
	depth := func() int { return part.Group.Metrics().QueueDepth }
	for depth() == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := n.DropKeyspace(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	cleared := make(chan error, 1)
	go func() { cleared <- n.clearDropped(ctx) }()
	for len(cleared) == 0 && depth() < 2 {
		time.Sleep(time.Millisecond)
	}
	close(b.goOn)
	if err := <-wrote; !errors.Is(err, ErrNoKeyspace) {
		t.Errorf("the write: %v, want ErrNoKeyspace", err)
	}
	if err := <-cleared; err != nil {
		t.Fatal(err)
	}
	if rows := rowsOf(n, k); rows != 0 {
		t.Errorf("%d rows are left", rows)
	}
}

// A write that was evaluated before the drop, and is on its way to the disk, is
// waited for.
func TestAWriteThatIsBeingCommittedDuringADropIsCleared(t *testing.T) {
	n := open(t, small(2))
	defer n.Close(ctx)
	k := newSpace(t, n, "s")
	part := n.Parts()[1]
	first := blocking{make(chan struct{}), make(chan struct{})}
	second := blocking{make(chan struct{}), make(chan struct{})}
	depth := func(n int) {
		for part.Group.Metrics().QueueDepth < n {
			time.Sleep(time.Millisecond)
		}
	}
	go func() { _ = part.do(ctx, first) }()
	<-first.inside
	wrote := make(chan error, 1)
	go func() {
		reply, err := part.Group.Do(ctx, group.Request{Command: &command.Set{Key: inPart(n, k, 1)}, Gate: k})
		wrote <- errors.Join(err, reply.Err)
	}()
	depth(1)
	go func() { _ = part.do(ctx, second) }()
	depth(2)
	close(first.goOn)
	<-second.inside // in one batch with the write, which passed the gate
	if err := n.DropKeyspace(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	cleared := make(chan error, 1)
	go func() { cleared <- n.clearDropped(ctx) }()
	for len(cleared) == 0 && part.Group.Metrics().QueueDepth == 0 {
		time.Sleep(time.Millisecond)
	}
	close(second.goOn)
	if err := errors.Join(<-wrote, <-cleared); err != nil {
		t.Fatal(err)
	}
	if rows := rowsOf(n, k); rows != 0 {
		t.Errorf("%d rows are left", rows)
	}
}

// A crash may take back what was not synced: then the note that there is
// something to clear is there too.
func TestACrashDoesNotBringBackRowsOfADroppedKeyspace(t *testing.T) {
	disks := []*store.Crashable{store.NewCrashable(), store.NewCrashable()}
	o := small(2)
	o.Durability = wal.Never
	o.FS = func(i int) store.FS { return disks[i].FS() }
	n := open(t, o)
	k := newSpace(t, n, "s")
	for i := range 2 {
		set(t, n.Parts()[i], inPart(n, k, i))
		if err := n.Parts()[i].Store.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if rows := rowsOf(n, k); rows != 2 {
		t.Fatalf("%d rows, want 2", rows)
	}
	if err := n.DropKeyspace(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	if err := n.clearDropped(ctx); err != nil {
		t.Fatal(err)
	}
	crashed := []*store.Crashable{}
	for _, d := range disks {
		crashed = append(crashed, d.Crash(0, rand.New(rand.NewPCG(1, 1))))
	}
	if err := n.Close(ctx); err != nil {
		t.Fatal(err)
	}
	disks = crashed
	n = open(t, o)
	defer n.Close(ctx)
	if err := n.clearDropped(ctx); err != nil {
		t.Fatal(err)
	}
	if rows := rowsOf(n, k); rows != 0 {
		t.Errorf("%d rows are back", rows)
	}
}

// queued waits until a command waits for its turn in a part.
func queued(p *Part) {
	for p.Group.Metrics().QueueDepth == 0 {
		time.Sleep(time.Millisecond)
	}
}

// stall lets a part do nothing until goOn is closed.
func stall(p *Part) (goOn chan struct{}) {
	b := blocking{make(chan struct{}), make(chan struct{})}
	go func() { _ = p.do(ctx, b) }()
	<-b.inside
	return b.goOn
}

// To clear a keyspace of many rows takes long. The groups do their housekeeping meanwhile,
// that of the catalog too.
func TestKeysExpireWhileADroppedKeyspaceIsCleared(t *testing.T) {
	o := small(2)
	o.TendEvery = time.Millisecond
	n := open(t, o)
	defer n.Close(ctx)
	newSpace(t, n, "s")
	first, second := n.Parts()[0], n.Parts()[1]
	goOn := stall(second)
	defer close(goOn)
	if err := n.DropKeyspace(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	queued(second) // it is being cleared, and will be for a while
	k, err := n.Keyspace(DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	p := inPart(n, k, 0)
	if err := first.do(ctx, &command.Set{Key: p, Expiry: command.In(1)}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		_, ok, err := first.Store.Get(effect.Rows.AppendKey(nil, p), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a row that has expired stays while a keyspace is cleared")
		}
	}
}

// What clears a keyspace ends with the node, and before its stores do.
func TestCloseWaitsForWhatIsBeingCleared(t *testing.T) {
	o := small(2)
	o.TendEvery = time.Millisecond
	n := open(t, o)
	newSpace(t, n, "s")
	first, second := n.Parts()[0], n.Parts()[1]
	cleared := stall(second)
	if err := n.DropKeyspace(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	queued(second)
	goOn := stall(first)
	close(cleared)
	queued(first) // the note that it was dropped is to go: nobody interrupts that
	hurried, cancel := context.WithCancel(ctx)
	cancel() // other commands that still run are not waited for
	closed := make(chan error, 1)
	go func() { closed <- n.Close(hurried) }()
	select {
	case err := <-closed:
		t.Errorf("closed while a keyspace is cleared: %v", err)
		close(goOn)
	case <-time.After(50 * time.Millisecond):
		close(goOn)
		<-closed
	}
}

// A keyspace that cannot be cleared now is cleared later, and those behind it before.
func TestAKeyspaceThatCannotBeClearedHoldsUpNoOther(t *testing.T) {
	n := open(t, small(1))
	defer n.Close(ctx)
	part := n.Parts()[0]
	spaces := []*Space{newSpace(t, n, "a"), newSpace(t, n, "b"), newSpace(t, n, "c")}
	for _, k := range spaces {
		set(t, part, inPart(n, k, 0))
		if err := n.DropKeyspace(ctx, k.Name); err != nil {
			t.Fatal(err)
		}
	}
	var before, away []own.Range
	for r := range part.Group.List().Over(spaces[0].Span()) {
		before = append(before, r)
		r.State, r.Job = own.Foreign, 7 // as in a move that nobody has published yet
		away = append(away, r)
	}
	if err := part.do(ctx, &own.Reown{Expect: before, Become: away}); err != nil {
		t.Fatal(err)
	}
	if err := n.clearDropped(ctx); !errors.Is(err, own.ErrWrongGroup) {
		t.Errorf("cleared where nobody may write: %v", err)
	}
	for i, want := range []int{1, 0, 0} {
		if rows := rowsOf(n, spaces[i]); rows != want {
			t.Errorf("keyspace %q has %d rows, want %d", spaces[i].Name, rows, want)
		}
	}
	if err := part.do(ctx, &own.Reown{Expect: away, Become: before}); err != nil {
		t.Fatal(err)
	}
	if err := n.clearDropped(ctx); err != nil || rowsOf(n, spaces[0]) > 0 {
		t.Errorf("%d rows are left, %v", rowsOf(n, spaces[0]), err)
	}
}
