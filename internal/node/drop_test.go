package node

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/group"
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
