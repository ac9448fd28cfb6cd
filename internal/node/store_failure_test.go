package node

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

// openWithFailingStore returns a node of three stores, one group on each, of which one fails
// when fail is called. The positions that are not in use yet are with the group last.
func openWithFailingStore(t *testing.T, lame int, last partition.GroupID) (n *Node, fail func()) {
	t.Helper()
	var broken atomic.Bool
	o := smallOptions(3)
	o.Groups = 3
	o.FS = failingDisks(lame, &broken)
	n = mustOpen(t, o)
	if s := lastShard(n); s.Group != last {
		mustRunJob(t, n, mover.Request{Kind: mover.Move, Shard: s.ID, To: last})
	}
	return n, func() {
		t.Helper()
		h := n.storeHosts[lame]
		key := keyOnStore(n, h, 0)
		broken.Store(true)
		_ = n.GroupHostAt(key).doCommand(ctx, &command.Set{Key: key})
		if _ = h.Store.Sync(); !h.hasFailed() {
			t.Fatal("the store has not failed")
		}
	}
}

// checkOthersGoOn fails if a store that has failed keeps others from what they do: the groups of
// the other stores have what the map has for them, and it can change.
func checkOthersGoOn(t *testing.T, n *Node) {
	t.Helper()
	m := n.Map()
	for s := range m.Shards(partition.Whole) {
		if p := n.lookupGroup(s.Group); !p.hasFailed() && !p.Group.OwnershipTable().CanReadSpan(s.Span) {
			t.Errorf("%v does not serve %v", s.Group, s.ID)
		}
	}
	d, err := n.Keyspace(DefaultKeyspace)
	if err != nil {
		t.Fatal(err)
	}
	first := m.Find(d.Span().Start)
	at := middleSlot(&d.Keyspace, first.Span)
	mustRunJob(t, n, mover.Request{Kind: mover.Split, Shard: first.ID, In: &d.Keyspace, At: []partition.Position{at}})
}

// With a store that has failed, jobs of the others go on, and those that need it are refused.
func TestJobsBesideAStoreThatHasFailedGoOn(t *testing.T) {
	n, fail := openWithFailingStore(t, 2, 1)
	defer n.Close(ctx)
	d, err := n.Keyspace(DefaultKeyspace)
	if err != nil {
		t.Fatal(err)
	}
	key := keyInGroup(n, d, 2)
	if err := setUnindexed(n, d, key); err != nil {
		t.Fatal(err)
	}
	before, err := n.ShardSizes(ctx, n.Map(), 0)
	if err != nil {
		t.Fatal(err)
	}
	first, lost := n.Map().Find(d.Span().Start), n.Map().Find(key)
	fail()
	after, err := n.ShardSizes(ctx, n.Map(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if was := before(lost.ID); was.Rows == 0 || after(lost.ID) != was || n.LastShardSize(lost.ID) != was {
		t.Errorf("what cannot be measured was %v and is %v", was, after(lost.ID))
	}
	n.jobs.sizes.storeSizes(nil) // as if no caller had asked before
	at := []partition.Position{d.SlotSpan(1).Start, middleSlot(&d.Keyspace, first.Span)}
	for _, r := range []mover.Request{
		{Kind: mover.Move, Shard: lost.ID, To: 1},
		{Kind: mover.Move, Shard: first.ID, To: 3},
		{Kind: mover.Split, Shard: lost.ID, In: &d.Keyspace, At: []partition.Position{middleSlot(&d.Keyspace, lost.Span)}},
		{Kind: mover.PreSplit, In: &d.Keyspace, At: []partition.Position{at[0], middleSlot(&d.Keyspace, lost.Span)}},
		{Kind: mover.Drain, Group: 3},
		{Kind: mover.Regroup, Groups: 6},
	} {
		if _, err := n.StartJob(ctx, r); !errors.Is(err, store.ErrFailed) {
			t.Errorf("%v: %v, want ErrFailed", r.Kind, err)
		}
	}
	for _, r := range []mover.Request{
		{Kind: mover.Move, Shard: first.ID, To: 2},
		{Kind: mover.PreSplit, In: &d.Keyspace, At: at},
		{Kind: mover.Drain, Group: 2},
	} {
		mustRunJob(t, n, r)
	}
	for s := range n.Map().Owned(3) {
		if s.ID != lost.ID && n.Map().Version() == s.Changed {
			t.Errorf("%v was given to a group whose store has failed", s.ID)
		}
	}
}

// A keyspace that is made, or emptied, while a store has failed is with the groups of the
// others.
func TestAKeyspaceIsMadeBesideAStoreThatHasFailed(t *testing.T) {
	n, fail := openWithFailingStore(t, 1, 1)
	defer n.Close(ctx)
	d, err := n.Keyspace(DefaultKeyspace)
	if err != nil {
		t.Fatal(err)
	}
	fail()
	if err := n.EmptyKeyspace(ctx, d); err != nil {
		t.Fatal(err)
	}
	spaces := []partition.Keyspace{{Name: DefaultKeyspace}, {Name: "h"}, {Name: "r", Kind: partition.Range}, {Name: "s", Kind: partition.Range}}
	for _, k := range spaces[1:] {
		if _, err := n.CreateKeyspace(ctx, k); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range spaces {
		made, err := n.Keyspace(k.Name)
		if err != nil {
			t.Fatal(err)
		}
		for s := range n.Map().Shards(made.Span()) {
			if n.lookupGroup(s.Group).hasFailed() {
				t.Errorf("%s has %v of %v, whose store has failed", k.Name, s.ID, s.Group)
			}
		}
		if err := setUnindexed(n, made, made.AppendPosition(nil, []byte("key"))); err != nil {
			t.Errorf("a write to %s: %v", k.Name, err)
		}
	}
	checkOthersGoOn(t, n)
}

// A store that has failed has the positions that are not in use yet, and they cannot be taken
// from it: no keyspace is made, and that blocks no other caller.
func TestAKeyspaceThatAFailedStoreWouldGiveWayToIsRefused(t *testing.T) {
	n, fail := openWithFailingStore(t, 2, 3)
	defer n.Close(ctx)
	d, err := n.Keyspace(DefaultKeyspace)
	if err != nil {
		t.Fatal(err)
	}
	fail()
	checkOthersGoOn(t, n)
	for _, k := range []partition.Keyspace{{Name: "h"}, {Name: "r", Kind: partition.Range}} {
		if _, err := n.CreateKeyspace(ctx, k); !errors.Is(err, store.ErrFailed) {
			t.Errorf("%s: %v, want ErrFailed", k.Name, err)
		}
		checkOthersGoOn(t, n)
	}
	if err := n.EmptyKeyspace(ctx, d); !errors.Is(err, store.ErrFailed) {
		t.Errorf("who empties one: %v, want ErrFailed", err)
	}
	if err := setUnindexed(n, d, keyInGroup(n, d, 0)); err != nil {
		t.Errorf("a write after that: %v", err)
	}
	checkOthersGoOn(t, n)
}
