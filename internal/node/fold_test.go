package node

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/partition"
)

// ranges is how many the lists of all groups have, whatever their states.
func ranges(n *Node) (count int) {
	for _, p := range n.Parts() {
		count += p.Group.List().Len()
	}
	return count
}

// Who empties keyspaces all day has no more shards in the evening than in the morning. Ids from
// 252 on take more bytes than those before.
func TestKeyspacesThatAreEmptiedAgainAndAgainLeaveNoShards(t *testing.T) {
	for _, kind := range []partition.Kind{partition.Hash, partition.Range} {
		o := kept(2)
		o.Groups = 3
		n := open(t, o)
		before := newSpace(t, n, "before")
		if _, err := n.CreateKeyspace(ctx, partition.Keyspace{Name: "k", Kind: kind}); err != nil {
			t.Fatal(err)
		}
		newSpace(t, n, "behind")
		n.nextID = 240
		var shards, lists []int
		for range 30 {
			k, err := n.Keyspace("k")
			if err != nil {
				t.Fatal(err)
			}
			if err := setIn(n, k, k.AppendPosition(nil, []byte("key"))); err != nil {
				t.Fatal(err)
			}
			if err := n.EmptyKeyspace(ctx, k); err != nil {
				t.Fatal(err)
			}
			if err := n.clearDropped(ctx); err != nil || rowsOf(n, k) > 0 {
				t.Fatalf("%d rows are left, %v", rowsOf(n, k), err)
			}
			shards, lists = append(shards, n.Map().Len()), append(lists, ranges(n))
		}
		t.Logf("a keyspace of kind %v: %d shards in the map, then %d; %d ranges in lists, then %d", kind, shards[0], shards[29], lists[0], lists[29])
		if shards[29] > slices.Max(shards[:10]) || lists[29] > slices.Max(lists[:10]) {
			t.Errorf("they grow: shards %v, ranges %v", shards, lists)
		}
		agree(t, n)
		if err := setIn(n, before, inPart(n, before, 2)); err != nil {
			t.Error(err)
		}
		if err := n.Close(ctx); err != nil {
			t.Fatal(err)
		}
		n = open(t, o)
		agree(t, n)
		if n.Map().Len() != shards[29] {
			t.Errorf("after a restart there are %d shards", n.Map().Len())
		}
		if err := n.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// emptied makes a keyspace with a shard in each of four groups and drops it. It is cleared
// unless its note is to stay.
func emptied(t *testing.T, n *Node, clear bool) *Space {
	t.Helper()
	k := newSpace(t, n, "k")
	if err := n.DropKeyspace(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	if clear {
		if err := n.clearKeyspace(ctx, k.ID); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// shardsOf is how many shards the map has over a keyspace.
func shardsOf(n *Node, k *Space) int {
	return len(slices.Collect(n.Map().Shards(k.Span())))
}

// Where rows may be left, and where a job is at work, shards stay as they are.
func TestShardsAreFoldedWhenNobodyNeedsThem(t *testing.T) {
	o := small(2)
	o.Groups = 4
	begun, goOn := make(chan struct{}), make(chan struct{})
	hold := sync.OnceFunc(func() { close(begun); <-goOn })
	o.OnJob = func(j mover.Job) {
		if j.Phase == mover.Catching {
			hold()
		}
	}
	n := open(t, o)
	defer n.Close(ctx)
	k := emptied(t, n, false)
	was := shardsOf(n, k)
	if err := n.foldDropped(ctx); err != nil || shardsOf(n, k) != was {
		t.Errorf("before it is cleared it has %d shards of %d, %v", shardsOf(n, k), was, err)
	}
	if err := n.clearKeyspace(ctx, k.ID); err != nil {
		t.Fatal(err)
	}
	s := n.Map().Find(k.Span().Start)
	job, err := n.StartJob(ctx, mover.Request{Kind: mover.Move, Shard: s.ID, To: 4})
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	n.drops.Store(false)
	if err := n.foldDropped(ctx); err != nil || shardsOf(n, k) != was || !n.drops.Load() {
		t.Errorf("with a job there it has %d shards of %d, again: %v, %v", shardsOf(n, k), was, n.drops.Load(), err)
	}
	close(goOn)
	if _, err := job.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if err := n.clearDropped(ctx); err != nil || shardsOf(n, k) != 1 {
		t.Errorf("in the end it has %d shards, %v", shardsOf(n, k), err)
	}
	agree(t, n)
}

// A command of a job that has ended, and that comes late, finds that it is late also where
// shards were folded since.
func TestFoldingForgetsNoJob(t *testing.T) {
	o := small(2)
	o.Groups = 4
	n := open(t, o)
	defer n.Close(ctx)
	k := newSpace(t, n, "k")
	to, from := n.Map().Find(k.Span().Start).Group, n.Map().Find(k.SlotSpan(16383).Start)
	if to == from.Group {
		t.Fatalf("%v has both ends", to)
	}
	j := wait(t, n, mover.Request{Kind: mover.Move, Shard: from.ID, To: to})
	if err := errors.Join(n.DropKeyspace(ctx, "k"), n.clearDropped(ctx)); err != nil || shardsOf(n, k) != 1 {
		t.Fatalf("it has %d shards, %v", shardsOf(n, k), err)
	}
	agree(t, n)
	for _, id := range []partition.GroupID{to, from.Group} {
		for r := range n.part(id).Group.List().Over(from.Span) {
			if r.Job != j.ID {
				t.Errorf("%v has %v, and job %d was there", id, r, j.ID)
			}
			late := &mover.Settle{
				Job: j.ID, Fresh: true,
				Become: own.Range{Span: from.Span, Version: j.Expect, State: own.Incoming, Job: j.ID, Attempt: 1},
			}
			reply, err := n.part(id).Group.Do(ctx, group.Request{Command: late})
			if err = errors.Join(err, reply.Err); !errors.Is(err, own.ErrStale) {
				t.Errorf("a copy of before begins in %v: %v", r, err)
			}
		}
	}
}

// A crash while shards are folded leaves a note, and Open goes on from there.
func TestACrashLeavesShardsFoldedInTheEnd(t *testing.T) {
	for _, done := range []bool{false, true} { // whether one store has done its part
		disks := []*store.Crashable{store.NewCrashable(), store.NewCrashable()}
		o := small(2)
		o.Groups = 4
		o.FS = func(i int) store.FS { return disks[i].FS() }
		n := open(t, o)
		k := emptied(t, n, true)
		old := n.Map()
		next, whole, err := folded(old, slices.Collect(old.Shards(k.Span())), func(partition.Group) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		err = n.enter(ctx, &drive.Note{Catalog: meta, Base: old.Version(), Span: whole, Map: next})
		if err == nil && done {
			err = n.hosts[1].align(ctx, next, whole, realign)
		}
		if err != nil {
			t.Fatal(err)
		}
		after := []*store.Crashable{disks[0].Crash(0, nil), disks[1].Crash(0, nil)}
		_ = n.Close(ctx) // its catalog has a note of which it knows nothing
		disks = after
		n = open(t, o)
		if agree(t, n); shardsOf(n, k) != 1 || n.Map().Version() != next.Version() {
			t.Errorf("it has %d shards at version %d, want %d", shardsOf(n, k), n.Map().Version(), next.Version())
		}
		if again := newSpace(t, n, "k"); again.ID == k.ID || setIn(n, again, inPart(n, again, 3)) != nil {
			t.Errorf("the next one is %+v", again)
		}
		if err := n.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}
