package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/index"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
	"github.com/cleavekv/cleave/partition"
)

// countRows counts what is left of a keyspace in all tables of all parts.
func countRows(n *Node, k *Keyspace) (rows int) {
	span := k.Span()
	for _, p := range n.GroupHosts() {
		for _, table := range []effect.Table{effect.Rows, effect.Dedup, effect.Expiry, effect.Orphans} {
			_ = p.Store.Scan(table.AppendKey(nil, span.Start), table.AppendKey(nil, span.End), false, func(_, _ []byte) bool { rows++; return true })
		}
	}
	return rows
}

// keyInGroup returns the position of a key that is in a part.
func keyInGroup(n *Node, k *Keyspace, part int) partition.Position {
	for i := 0; ; i++ {
		p := k.AppendPosition(nil, fmt.Append(nil, i))
		if n.GroupHostAt(p) == n.GroupHosts()[part] {
			return p
		}
	}
}

func newKeyspace(t *testing.T, n *Node, name string) *Keyspace {
	t.Helper()
	k, err := n.CreateKeyspace(ctx, partition.Keyspace{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// blockingCommand is a command that holds up all others.
type blockingCommand struct{ entered, release chan struct{} }

func (b blockingCommand) Eval(*command.Env) command.Reply {
	close(b.entered)
	<-b.release
	return command.Reply{Kind: command.OK}
}

// A write that is queued while its keyspace is dropped and cleared must not be executed after
// that: its row would never be removed.
func TestAWriteOnItsWayDuringADropLeavesNothing(t *testing.T) {
	n := mustOpen(t, smallOptions(2))
	defer n.Close(ctx)
	k := newKeyspace(t, n, "s")
	part := n.GroupHosts()[1] // the catalog is in the other one
	p := keyInGroup(n, k, 1)
	b := blockingCommand{make(chan struct{}), make(chan struct{})}
	go func() { _ = part.doCommand(ctx, b) }()
	<-b.entered
	wrote := make(chan error, 1)
	go func() {
		reply, err := part.Group.Execute(ctx, group.Request{Command: &command.Set{Key: p}, Gate: k})
		wrote <- errors.Join(err, reply.Err)
	}()
	depth := func() int { return part.Group.Metrics().QueueDepth }
	eventually.Holds(t, "the write waits", func() bool { return depth() > 0 })
	if err := n.DropKeyspace(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	cleared := make(chan error, 1)
	go func() { cleared <- n.clearDropped(ctx) }()
	eventually.Holds(t, "the clearing waits, or is over", func() bool { return len(cleared) > 0 || depth() >= 2 })
	close(b.release)
	if err := <-wrote; !errors.Is(err, ErrNoKeyspace) {
		t.Errorf("the write: %v, want ErrNoKeyspace", err)
	}
	if err := <-cleared; err != nil {
		t.Fatal(err)
	}
	if rows := countRows(n, k); rows != 0 {
		t.Errorf("%d rows are left", rows)
	}
}

// A write that was evaluated before the drop, and is on its way to the disk, is
// waited for.
func TestAWriteThatIsBeingCommittedDuringADropIsCleared(t *testing.T) {
	n := mustOpen(t, smallOptions(2))
	defer n.Close(ctx)
	k := newKeyspace(t, n, "s")
	part := n.GroupHosts()[1]
	first := blockingCommand{make(chan struct{}), make(chan struct{})}
	second := blockingCommand{make(chan struct{}), make(chan struct{})}
	depth := func(n int) {
		eventually.Holds(t, "so many wait", func() bool { return part.Group.Metrics().QueueDepth >= n })
	}
	go func() { _ = part.doCommand(ctx, first) }()
	<-first.entered
	wrote := make(chan error, 1)
	go func() {
		reply, err := part.Group.Execute(ctx, group.Request{Command: &command.Set{Key: keyInGroup(n, k, 1)}, Gate: k})
		wrote <- errors.Join(err, reply.Err)
	}()
	depth(1)
	go func() { _ = part.doCommand(ctx, second) }()
	depth(2)
	close(first.release)
	<-second.entered // in one batch with the write, which passed the gate
	if err := n.DropKeyspace(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	cleared := make(chan error, 1)
	go func() { cleared <- n.clearDropped(ctx) }()
	eventually.Holds(t, "the clearing waits, or is over", func() bool { return len(cleared) > 0 || part.Group.Metrics().QueueDepth > 0 })
	close(second.release)
	if err := errors.Join(<-wrote, <-cleared); err != nil {
		t.Fatal(err)
	}
	if rows := countRows(n, k); rows != 0 {
		t.Errorf("%d rows are left", rows)
	}
}

// A crash may take back what was not synced: then the note that there is
// something to clear is there too.
func TestACrashDoesNotBringBackRowsOfADroppedKeyspace(t *testing.T) {
	disks := []*store.CrashableFS{store.NewCrashableFS(), store.NewCrashableFS()}
	o := smallOptions(2)
	o.Durability = wal.Never
	o.FS = func(i int) store.FS { return disks[i].FS() }
	n := mustOpen(t, o)
	k := newKeyspace(t, n, "s")
	for i := range 2 {
		mustSet(t, n.GroupHosts()[i], keyInGroup(n, k, i))
		if err := n.GroupHosts()[i].Store.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if rows := countRows(n, k); rows != 2 {
		t.Fatalf("%d rows, want 2", rows)
	}
	if err := n.DropKeyspace(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	if err := n.clearDropped(ctx); err != nil {
		t.Fatal(err)
	}
	crashed := []*store.CrashableFS{}
	for _, d := range disks {
		crashed = append(crashed, d.Crash(0, rand.New(rand.NewPCG(1, 1))))
	}
	if err := n.Close(ctx); err != nil {
		t.Fatal(err)
	}
	disks = crashed
	n = mustOpen(t, o)
	defer n.Close(ctx)
	if err := n.clearDropped(ctx); err != nil {
		t.Fatal(err)
	}
	if rows := countRows(n, k); rows != 0 {
		t.Errorf("%d rows are back", rows)
	}
}

// waitQueued waits until a command waits for its turn in a part.
func waitQueued(t *testing.T, p *GroupHost) {
	t.Helper()
	eventually.Holds(t, "a command waits", func() bool { return p.Group.Metrics().QueueDepth > 0 })
}

// stallGroup lets a part do nothing until release is closed.
func stallGroup(p *GroupHost) (goOn chan struct{}) {
	b := blockingCommand{make(chan struct{}), make(chan struct{})}
	go func() { _ = p.doCommand(ctx, b) }()
	<-b.entered
	return b.release
}

// To clear a keyspace of many rows takes long. The groups do their housekeeping meanwhile,
// that of the catalog too.
func TestKeysExpireWhileADroppedKeyspaceIsCleared(t *testing.T) {
	o := smallOptions(2)
	o.HousekeepInterval = time.Millisecond
	n := mustOpen(t, o)
	defer n.Close(ctx)
	newKeyspace(t, n, "s")
	first, second := n.GroupHosts()[0], n.GroupHosts()[1]
	goOn := stallGroup(second)
	defer close(goOn)
	if err := n.DropKeyspace(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	waitQueued(t, second) // it is being cleared, and will be for a while
	k, err := n.Keyspace(DefaultKeyspace)
	if err != nil {
		t.Fatal(err)
	}
	p := keyInGroup(n, k, 0)
	if err := first.doCommand(ctx, &command.Set{Key: p, Expiry: command.ExpireIn(1)}); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "a row that has expired is removed while a keyspace is cleared", func() bool {
		_, ok, err := first.Store.Get(effect.Rows.AppendKey(nil, p), nil)
		if err != nil {
			t.Fatal(err)
		}
		return !ok
	})
}

// What clears a keyspace ends with the node, and before its stores do.
func TestCloseWaitsForWhatIsBeingCleared(t *testing.T) {
	o := smallOptions(2)
	o.HousekeepInterval = time.Millisecond
	n := mustOpen(t, o)
	newKeyspace(t, n, "s")
	first, second := n.GroupHosts()[0], n.GroupHosts()[1]
	cleared := stallGroup(second)
	if err := n.DropKeyspace(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	waitQueued(t, second)
	goOn := stallGroup(first)
	close(cleared)
	waitQueued(t, first) // the note that it was dropped is to go: nothing interrupts that
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
	n := mustOpen(t, smallOptions(1))
	defer n.Close(ctx)
	part := n.GroupHosts()[0]
	spaces := []*Keyspace{newKeyspace(t, n, "a"), newKeyspace(t, n, "b"), newKeyspace(t, n, "c")}
	for _, k := range spaces {
		mustSet(t, part, keyInGroup(n, k, 0))
		if err := n.DropKeyspace(ctx, k.Name); err != nil {
			t.Fatal(err)
		}
	}
	var before, away []ownership.Range
	for r := range part.Group.OwnershipTable().ScanOverlapping(spaces[0].Span()) {
		before = append(before, r)
		r.State, r.Job = ownership.Foreign, 7 // as in a move that was not published yet
		away = append(away, r)
	}
	if err := part.doCommand(ctx, &ownership.ChangeOwnership{Expect: before, Become: away}); err != nil {
		t.Fatal(err)
	}
	if err := n.clearDropped(ctx); !errors.Is(err, ownership.ErrWrongGroup) {
		t.Errorf("cleared where nobody may write: %v", err)
	}
	for i, want := range []int{1, 0, 0} {
		if rows := countRows(n, spaces[i]); rows != want {
			t.Errorf("keyspace %q has %d rows, want %d", spaces[i].Name, rows, want)
		}
	}
	if err := part.doCommand(ctx, &ownership.ChangeOwnership{Expect: away, Become: before}); err != nil {
		t.Fatal(err)
	}
	if err := n.clearDropped(ctx); err != nil || countRows(n, spaces[0]) > 0 {
		t.Errorf("%d rows are left, %v", countRows(n, spaces[0]), err)
	}
}

func setUnindexed(n *Node, k *Keyspace, p partition.Position) error {
	reply, err := n.GroupHostAt(p).Group.Execute(ctx, group.Request{Command: &command.Set{Key: p, Value: []byte("v")}, Key: p, Gate: UnindexedGate{k}})
	return errors.Join(err, reply.Err)
}

// An emptied keyspace is another one of the same name, also after a restart, and the rows
// of the old one go.
func TestAnEmptiedKeyspaceIsEmptyAndStaysSo(t *testing.T) {
	o := smallOptions(2)
	o.Dir = t.TempDir()
	n := mustOpen(t, o)
	k := newKeyspace(t, n, "k")
	p := keyInGroup(n, k, 1)
	if err := setUnindexed(n, k, p); err != nil {
		t.Fatal(err)
	}
	if err := n.EmptyKeyspace(ctx, k); err != nil {
		t.Fatal(err)
	}
	now, err := n.Successor(ctx, k)
	if err != nil || now == k || now.Name != "k" || now.ID == k.ID || now.Kind != k.Kind || now.SlotCount() != k.SlotCount() {
		t.Fatalf("the successor of %+v is %+v, %v", k, now, err)
	}
	if err := setUnindexed(n, k, p); !errors.Is(err, ErrNoKeyspace) {
		t.Errorf("the old one is written: %v", err)
	}
	if err := n.EmptyKeyspace(ctx, k); !errors.Is(err, ErrNoKeyspace) {
		t.Errorf("the old one is emptied: %v", err)
	}
	if err := setUnindexed(n, now, keyInGroup(n, now, 0)); err != nil {
		t.Error(err)
	}
	if err := n.clearDropped(ctx); err != nil || countRows(n, k) > 0 {
		t.Errorf("%d rows are left, %v", countRows(n, k), err)
	}
	if err := n.Close(ctx); err != nil {
		t.Fatal(err)
	}
	n = mustOpen(t, o)
	again, err := n.Keyspace("k")
	if err != nil || again.ID != now.ID || countRows(n, again) == 0 {
		t.Errorf("after a restart it is %+v with %d rows, %v", again, countRows(n, again), err)
	}
}

// What is written while a keyspace is being emptied is in the new one, or refused: the
// catalog may know the new one already.
func TestAKeyspaceIsClosedBeforeItIsEmptied(t *testing.T) {
	n := mustOpen(t, smallOptions(2))
	k := newKeyspace(t, n, "k")
	stop := blockingCommand{make(chan struct{}), make(chan struct{})}
	held := make(chan error, 1)
	go func() {
		_, err := n.findCatalogGroup().Execute(ctx, group.Request{Command: stop})
		held <- err
	}()
	<-stop.entered // the catalog changes only when it may go on
	done := make(chan error, 1)
	go func() { done <- n.EmptyKeyspace(ctx, k) }()
	closed := eventually.Within(eventually.Limit(), func() bool {
		return errors.Is(setUnindexed(n, k, keyInGroup(n, k, 1)), ErrNoKeyspace)
	})
	close(stop.release)
	if err := errors.Join(<-held, <-done); err != nil {
		t.Fatal(err)
	}
	if !closed {
		t.Error("it takes writes until the catalog knows another one")
	}
}

// A keyspace that could not be emptied is open again, unless another call has dropped it by
// then.
func TestAKeyspaceThatWasNotEmptiedIsAsItWas(t *testing.T) {
	for _, drop := range []bool{false, true} {
		n := mustOpen(t, smallOptions(2))
		k := newKeyspace(t, n, "k")
		goOn := stallGroup(n.lookupGroup(firstGroup))
		hurried, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- n.EmptyKeyspace(hurried, k) }()
		eventually.Holds(t, "the keyspace is closed", func() bool { return k.CheckOpen() != nil })
		n.jobs.backupLock.mu.Lock() // so that it cannot end before the drop has
		cancel()
		if err := lockContext(ctx, &n.changeMu); err != nil { // it has failed, and lets others
			t.Fatal(err)
		}
		n.changeMu.Unlock()
		close(goOn)
		var dropped error
		if drop {
			dropped = n.DropKeyspace(ctx, "k")
		}
		n.jobs.backupLock.mu.Unlock()
		if err := <-done; !errors.Is(err, context.Canceled) || dropped != nil {
			t.Fatalf("emptied: %v, dropped: %v", err, dropped)
		}
		if closed := errors.Is(setUnindexed(n, k, keyInGroup(n, k, 1)), ErrNoKeyspace); closed != drop {
			t.Errorf("closed: %v, dropped: %v", closed, drop)
		}
		if err := n.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}

func TestAKeyspaceWithAnIndexIsNotEmptiedLikeThat(t *testing.T) {
	n := mustOpen(t, smallOptions(1))
	k := newKeyspace(t, n, "k")
	d := index.Definition{Keyspace: "k", Name: "x", Columns: "f"}
	extract, err := index.NewExtractor(&d, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.CreateIndex(ctx, k, d, extract); err != nil {
		t.Fatal(err)
	}
	if err := n.EmptyKeyspace(ctx, k); !errors.Is(err, ErrIndexesChanged) {
		t.Errorf("emptied: %v", err)
	}
	if err := k.CheckOpen(); err != nil {
		t.Errorf("and closed: %v", err)
	}
}

// A caller that has waited for a backup, say, may come when another keyspace has the name.
func TestAnIndexIsOfWhatItWasAskedFor(t *testing.T) {
	n := mustOpen(t, smallOptions(1))
	d := index.Definition{Keyspace: "k", Name: "x", Columns: "f"}
	extract, err := index.NewExtractor(&d, "")
	if err != nil {
		t.Fatal(err)
	}
	var before *IndexInfo
	for range 2 {
		k := newKeyspace(t, n, "k")
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
	newKeyspace(t, n, "k")
	if x, err := n.CreateIndex(ctx, before.Rows, d, extract); !errors.Is(err, ErrNoKeyspace) {
		t.Errorf("of a keyspace that was dropped: %+v, %v", x, err)
	}
}
