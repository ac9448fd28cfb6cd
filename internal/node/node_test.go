package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
	"github.com/cleavekv/cleave/partition"
)

var ctx = context.Background()

func smallOptions(stores int) Options {
	return Options{
		Stores: stores, Durability: wal.Never, HousekeepInterval: -1,
		Store: store.Options{SegmentBytes: 64 << 10, CacheBytes: 64 << 10, BlockCacheBytes: 64 << 10},
	}
}

func mustOpen(t *testing.T, o Options) *Node {
	t.Helper()
	n, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestADroppedKeyspaceGivesBackItsRoom(t *testing.T) {
	n := mustOpen(t, smallOptions(2))
	defer n.Close(ctx)
	k, err := n.CreateKeyspace(ctx, partition.Keyspace{Name: "s"})
	if err != nil {
		t.Fatal(err)
	}
	const keys = maxClearedRows + 50 // in more than one step
	for i := range keys {
		p := k.AppendPosition(nil, []byte{byte(i >> 8), byte(i)})
		_, err := n.GroupHostAt(p).Group.Execute(ctx, group.Request{Command: &command.Set{Key: p, Expiry: command.ExpireIn(1 << 30)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	count := func() (rows int) {
		span := k.Span()
		for _, p := range n.GroupHosts() {
			for _, table := range []effect.Table{effect.Rows, effect.Expiry} {
				_ = p.Store.Scan(table.AppendKey(nil, span.Start), table.AppendKey(nil, span.End), false, func(_, _ []byte) bool { rows++; return true })
			}
		}
		return rows
	}
	if got := count(); got != 2*keys {
		t.Fatalf("%d rows, want %d", got, 2*keys)
	}
	if err := n.DropKeyspace(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	if err := n.clearDropped(ctx); err != nil {
		t.Fatal(err)
	}
	if got := count(); got != 0 {
		t.Errorf("%d rows are left", got)
	}
	again, err := n.CreateKeyspace(ctx, partition.Keyspace{Name: "s"})
	if err != nil || again.ID == k.ID {
		t.Errorf("a new one gets the id %d, %v; the old one had %d", again.ID, err, k.ID)
	}
}

func TestWhoeverListensHearsTheNextRing(t *testing.T) {
	var b notifier
	b.notify() // no goroutine listens
	first, second := b.subscribe(), b.subscribe()
	select {
	case <-first:
		t.Fatal("heard a ring of the past")
	default:
	}
	b.notify()
	<-first
	<-second
	later := b.subscribe()
	select {
	case <-later:
		t.Error("heard an old ring")
	default:
	}
	b.notify()
	<-later
}

func TestADirectoryThatWasCutShortIsMadeAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	// A crash came after STORES.new, and one after STORES and the first store.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, storeListTemp), []byte("cle"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := smallOptions(3)
	o.Dir = dir
	if _, _, err := loadStoreDirs(&o); err != nil {
		t.Fatal(err)
	}
	one := smallOptions(1)
	one.Store.Dir = filepath.Join(dir, "0")
	s, err := store.Open(one.Store)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// And one when the second had its directory, and no more.
	if err := os.Mkdir(filepath.Join(dir, "1"), 0o700); err != nil {
		t.Fatal(err)
	}
	n := mustOpen(t, o)
	if len(n.GroupHosts()) != 3 {
		t.Errorf("%d parts, want 3", len(n.GroupHosts()))
	}
	if err := n.Close(ctx); err != nil {
		t.Error(err)
	}
}

// An index is made beside a change of the number of groups: a barrier that waits for all that
// went before does not fail for a group that is gone.
func TestABarrierPassesAGroupThatWasRemoved(t *testing.T) {
	n := mustOpen(t, smallOptions(2))
	defer n.Close(ctx)
	if err := n.GroupHosts()[1].Group.Retire(ctx); err != nil {
		t.Fatal(err)
	}
	if err := n.Barrier(ctx); err != nil {
		t.Error(err)
	}
}

// What was opened before something failed is closed again, and the error is
// that of the failure alone.
func TestAFailedOpenClosesWhatItOpened(t *testing.T) {
	dir := t.TempDir()
	o := smallOptions(2)
	o.Dir = dir
	if err := mustOpen(t, o).Close(ctx); err != nil {
		t.Fatal(err)
	}
	format := filepath.Join(dir, "1", "FORMAT")
	good, err := os.ReadFile(format)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(format, []byte("spoiled"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(o)
	if !errors.Is(err, store.ErrCorrupt) || strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Fatalf("open: %v, want ErrCorrupt alone", err)
	}
	if err := os.WriteFile(format, good, 0o600); err != nil {
		t.Fatal(err)
	}
	n := mustOpen(t, o) // no process holds the first
	if err := n.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestHousekeepingGoesOnByItself(t *testing.T) {
	o := smallOptions(1)
	o.HousekeepInterval = time.Millisecond
	n := mustOpen(t, o)
	defer n.Close(ctx)
	k, err := n.Keyspace(DefaultKeyspace)
	if err != nil {
		t.Fatal(err)
	}
	p := k.AppendPosition(nil, []byte("k"))
	if _, err := n.GroupHosts()[0].Group.Execute(ctx, group.Request{Command: &command.Set{Key: p, Expiry: command.ExpireIn(1)}}); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "a key that has expired is removed", func() bool {
		_, there, err := n.GroupHosts()[0].Store.Get(effect.Rows.AppendKey(nil, p), nil)
		if err != nil {
			t.Fatal(err)
		}
		return !there
	})
}
