package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
	"github.com/cleavekv/cleave/partition"
)

// countRanges is how many the lists of all groups have, whatever their states.
func countRanges(n *Node) (count int) {
	for _, p := range n.GroupHosts() {
		count += p.Group.OwnershipTable().Len()
	}
	return count
}

// A keyspace that is emptied again and again has no more shards at the end than at the start.
// Ids from 252 on take more bytes than those before.
func TestKeyspacesThatAreEmptiedAgainAndAgainLeaveNoShards(t *testing.T) {
	for _, kind := range []partition.Kind{partition.Hash, partition.Range} {
		o := durableOptions(2)
		o.Groups = 3
		n := mustOpen(t, o)
		before := newKeyspace(t, n, "before")
		if _, err := n.CreateKeyspace(ctx, partition.Keyspace{Name: "k", Kind: kind}); err != nil {
			t.Fatal(err)
		}
		newKeyspace(t, n, "behind")
		n.nextID = 240
		var shards, lists []int
		for range 30 {
			k, err := n.Keyspace("k")
			if err != nil {
				t.Fatal(err)
			}
			if err := setUnindexed(n, k, k.AppendPosition(nil, []byte("key"))); err != nil {
				t.Fatal(err)
			}
			if err := n.EmptyKeyspace(ctx, k); err != nil {
				t.Fatal(err)
			}
			if err := n.clearDropped(ctx); err != nil || countRows(n, k) > 0 {
				t.Fatalf("%d rows are left, %v", countRows(n, k), err)
			}
			shards, lists = append(shards, n.Map().Len()), append(lists, countRanges(n))
		}
		t.Logf("a keyspace of kind %v: %d shards in the map, then %d; %d ranges in lists, then %d", kind, shards[0], shards[29], lists[0], lists[29])
		if shards[29] > slices.Max(shards[:10]) || lists[29] > slices.Max(lists[:10]) {
			t.Errorf("they grow: shards %v, ranges %v", shards, lists)
		}
		checkGroupsMatchMap(t, n)
		if err := setUnindexed(n, before, keyInGroup(n, before, 2)); err != nil {
			t.Error(err)
		}
		if err := n.Close(ctx); err != nil {
			t.Fatal(err)
		}
		n = mustOpen(t, o)
		checkGroupsMatchMap(t, n)
		if n.Map().Len() != shards[29] {
			t.Errorf("after a restart there are %d shards", n.Map().Len())
		}
		if err := n.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// newDroppedKeyspace makes a keyspace with shards in every group and drops it.
func newDroppedKeyspace(t *testing.T, n *Node) *Keyspace {
	t.Helper()
	k := newKeyspace(t, n, "k")
	if err := n.DropKeyspace(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	return k
}

// countShards is how many shards the map has over a keyspace.
func countShards(n *Node, k *Keyspace) int {
	return len(slices.Collect(n.Map().Shards(k.Span())))
}

// pauseFirstCopy stops the first job that has copied its shard, and closes begun then, until release is
// closed.
func pauseFirstCopy(o *Options) (begun, goOn chan struct{}) {
	begun, goOn = make(chan struct{}), make(chan struct{})
	hold := sync.OnceFunc(func() { close(begun); <-goOn })
	o.OnJob = func(j mover.Job) {
		if j.Phase == mover.CatchingUp {
			hold()
		}
	}
	return begun, goOn
}

// Where rows may be left, and where a job is at work, shards stay as they are.
func TestShardsAreFoldedWhenNobodyNeedsThem(t *testing.T) {
	o := smallOptions(2)
	o.Groups = 4
	begun, goOn := pauseFirstCopy(&o)
	n := mustOpen(t, o)
	defer n.Close(ctx)
	k := newDroppedKeyspace(t, n)
	was := countShards(n, k)
	if newKeyspace(t, n, "a"); countShards(n, k) != was {
		t.Errorf("before it is cleared it has %d shards of %d", countShards(n, k), was)
	}
	if err := n.clearKeyspace(ctx, k.ID); err != nil {
		t.Fatal(err)
	}
	second := n.Map().Find(k.SlotSpan(16384 / 16).Start)
	job, err := n.StartJob(ctx, mover.Request{Kind: mover.Move, Shard: second.ID, To: 4})
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	if newKeyspace(t, n, "b"); countShards(n, k) != 3 || !n.Map().Find(second.Span.Start).Span.Equal(second.Span) {
		t.Errorf("with a job there it has %d shards of %d", countShards(n, k), was)
	}
	close(goOn)
	if _, err := job.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if newKeyspace(t, n, "c"); countShards(n, k) != 1 {
		t.Errorf("in the end it has %d shards", countShards(n, k))
	}
	checkGroupsMatchMap(t, n)
}

// A command of a job that has ended, and that comes late, finds that it is late also where
// shards were folded since.
func TestFoldingForgetsNoJob(t *testing.T) {
	o := smallOptions(2)
	o.Groups = 4
	n := mustOpen(t, o)
	defer n.Close(ctx)
	k := newKeyspace(t, n, "k")
	to, from := n.Map().Find(k.Span().Start).Group, n.Map().Find(k.SlotSpan(16383).Start)
	if to == from.Group {
		t.Fatalf("%v has both ends", to)
	}
	j := mustRunJob(t, n, mover.Request{Kind: mover.Move, Shard: from.ID, To: to})
	if err := errors.Join(n.DropKeyspace(ctx, "k"), n.clearDropped(ctx)); err != nil {
		t.Fatal(err)
	}
	if newKeyspace(t, n, "next"); countShards(n, k) != 1 {
		t.Fatalf("it has %d shards", countShards(n, k))
	}
	checkGroupsMatchMap(t, n)
	for _, id := range []partition.GroupID{to, from.Group} {
		for r := range n.lookupGroup(id).Group.OwnershipTable().ScanOverlapping(from.Span) {
			if r.Job != j.ID {
				t.Errorf("%v has %v, and job %d was there", id, r, j.ID)
			}
			late := &mover.ChangeDestination{
				Job: j.ID, AllowMissing: true,
				Become: ownership.Range{Span: from.Span, Version: j.Expect, State: ownership.Incoming, Job: j.ID, Attempt: 1},
			}
			reply, err := n.lookupGroup(id).Group.Execute(ctx, group.Request{Command: late})
			if err = errors.Join(err, reply.Err); !errors.Is(err, ownership.ErrStale) {
				t.Errorf("a copy of before begins in %v: %v", r, err)
			}
		}
	}
}

// A crash while shards are folded leaves a note, and Open goes on from there, beside a job
// between what is folded and what is placed.
func TestACrashLeavesShardsFoldedInTheEnd(t *testing.T) {
	for _, done := range []bool{false, true} { // whether one store has done its part
		disks := []*store.CrashableFS{store.NewCrashableFS(), store.NewCrashableFS()}
		o := smallOptions(2)
		o.Groups = 4
		o.FS = func(i int) store.FS { return disks[i].FS() }
		begun, crashed := pauseFirstCopy(&o)
		n := mustOpen(t, o)
		k := newDroppedKeyspace(t, n)
		if err := n.clearKeyspace(ctx, k.ID); err != nil {
			t.Fatal(err)
		}
		between, err := n.CreateKeyspace(ctx, partition.Keyspace{Name: "between", Kind: partition.Range})
		if err != nil {
			t.Fatal(err)
		}
		// That has folded it: once more.
		k = newDroppedKeyspace(t, n)
		if err := n.clearKeyspace(ctx, k.ID); err != nil {
			t.Fatal(err)
		}
		shard := n.Map().Find(between.Span().Start)
		to := 1 + shard.Group%4
		job, err := n.StartJob(ctx, mover.Request{Kind: mover.Move, Shard: shard.ID, To: to})
		if err != nil {
			t.Fatal(err)
		}
		<-begun
		gone, err := n.listVacantSpans()
		if err != nil || len(gone) != 2 {
			t.Fatalf("gone: %v, %v", gone, err)
		}
		old, any := n.Map(), func(partition.Group) bool { return true }
		placed, err := mapWithKeyspace(old, &partition.Keyspace{ID: n.nextID, Name: "k"}, any)
		if err != nil {
			t.Fatal(err)
		}
		next := foldShards(placed, gone, func(partition.Shard) bool { return false }, any)
		spans := changedSpans(next, old.Version())
		err = n.writeCatalog(ctx, &protocol.BeginPlacing{Catalog: catalogKeys, BaseVersion: old.Version(), Spans: spans, Map: next})
		if err == nil && done {
			err = n.storeHosts[1].alignGroups(ctx, next, spans, alignCommand)
		}
		if err != nil {
			t.Fatal(err)
		}
		after := []*store.CrashableFS{disks[0].Crash(0, nil), disks[1].Crash(0, nil)}
		close(crashed)
		_ = n.Close(ctx) // its catalog has a note of which it knows nothing
		disks, o.OnJob = after, nil
		n = mustOpen(t, o)
		if job, err = n.Job(ctx, job.ID); err != nil {
			t.Fatal(err)
		}
		if j, err := job.Wait(ctx); err != nil || j.Phase != mover.Done {
			t.Errorf("the job is %v, %s, %v", j.Phase, j.Reason, err)
		}
		if checkGroupsMatchMap(t, n); countShards(n, k) != 1 || n.Map().Find(between.Span().Start).Group != to {
			t.Errorf("it has %d shards in %v", countShards(n, k), n.Map())
		}
		if again := newKeyspace(t, n, "k"); again.ID == k.ID || setUnindexed(n, again, keyInGroup(n, again, 3)) != nil {
			t.Errorf("the next one is %+v", again)
		}
		if err := n.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}

// countStrayRows counts rows on stores that have not got their shards, by table.
func countStrayRows(n *Node) map[effect.Table]int {
	m, count := n.Map(), map[effect.Table]int{}
	for i, h := range n.storeHosts {
		for _, table := range effect.ByPosition {
			from, to := table.Span()
			_ = h.Store.Scan(from, to, false, func(key, _ []byte) bool {
				if StoreOf(m, m.GroupOf(key[1:])) != i {
					count[table]++
				}
				return true
			})
		}
	}
	return count
}

// A resolve that comes again after the clearing leaves a mark, which does not stay where no
// group serves it.
func TestFoldingLeavesNoMarksAstray(t *testing.T) {
	o := smallOptions(2)
	o.Groups = 4
	n := mustOpen(t, o)
	defer n.Close(ctx)
	k := newDroppedKeyspace(t, n)
	if err := n.clearKeyspace(ctx, k.ID); err != nil {
		t.Fatal(err)
	}
	last := n.Map().Find(k.SlotSpan(16383).Start)
	p := n.lookupGroup(last.Group)
	late := &txn.Resolve{ID: txn.ID{7}, Span: last.Span, Commit: true, DeadlineMS: p.Group.NowMS() + 60_000}
	if err := p.doCommand(ctx, late); err != nil {
		t.Fatal(err)
	}
	newKeyspace(t, n, "next")
	if found := countStrayRows(n); n.GroupHostAt(last.Span.Start).Host == p.Host || len(found) > 0 {
		t.Errorf("of a shard that %v had, and %v has, there is %v", p.ID, n.GroupHostAt(last.Span.Start).ID, found)
	}
	if err := p.doCommand(ctx, late); !errors.Is(err, ownership.ErrWrongGroup) {
		t.Errorf("once more: %v", err)
	}
}

// Transactions across stores and moves of any shards go on while a keyspace is emptied again
// and again. In the end lists and map agree, nothing is astray, and little is left.
func TestShardsAreFoldedUnderTransactionsAndMoves(t *testing.T) {
	o := smallOptions(2)
	o.Groups, o.HousekeepInterval = 4, 5*time.Millisecond
	n := mustOpen(t, o)
	defer n.Close(ctx)
	newKeyspace(t, n, "k")
	was := n.Map().Len()
	var over atomic.Bool
	var commits, moves atomic.Int64
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := 0; !over.Load(); i++ {
				k, err := n.Keyspace("k")
				if err != nil {
					t.Error(err)
					return
				}
				var parts []txn.Participant
				for j := range 2 {
					p := k.AppendPosition(nil, fmt.Appendf(nil, "%d/%d/%d", w, i, j))
					parts = append(parts, txn.Participant{Span: n.Map().Find(p).Span, Writes: []command.Command{&command.Set{Key: p}}})
				}
				if n.Commit(ctx, Transaction{Participants: parts, Gate: k}) == nil {
					commits.Add(1)
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	wg.Go(func() {
		for !over.Load() {
			shards := slices.Collect(n.Map().Shards(partition.Whole))
			s, to := shards[1+rand.IntN(len(shards)-1)], partition.GroupID(1+rand.IntN(4))
			job, err := n.StartJob(ctx, mover.Request{Kind: mover.Move, Shard: s.ID, To: to})
			if err != nil { // it is there, or the shard is no more
				time.Sleep(time.Millisecond)
				continue
			}
			if j, err := job.Wait(ctx); err == nil && j.Phase == mover.Done {
				moves.Add(1)
			}
		}
	})
	empty := func() {
		k, err := n.Keyspace("k")
		if err == nil {
			err = n.EmptyKeyspace(ctx, k)
		}
		if err != nil {
			t.Error(err)
		}
	}
	for range 30 {
		empty()
		time.Sleep(5 * time.Millisecond)
	}
	over.Store(true)
	wg.Wait()
	if err := n.ResolveDecided(ctx); err != nil {
		t.Error(err)
	}
	// What is gone is one shard, beside those of the last one.
	few := was + 4*shardsPerGroup + 1
	for began := time.Now(); ; {
		eventually.Holds(t, "what was dropped is cleared", func() bool { return !n.hasDropped.Load() })
		if empty(); n.Map().Len() <= few && len(countStrayRows(n)) == 0 {
			break
		}
		if time.Since(began) > 2*time.Minute {
			t.Fatalf("of %d shards there are %d; astray: %v", was, n.Map().Len(), countStrayRows(n))
		}
	}
	t.Logf("%d transactions, %d moves, %d shards and then %d", commits.Load(), moves.Load(), was, n.Map().Len())
	if commits.Load() == 0 || moves.Load() == 0 {
		t.Error("nothing was tried")
	}
	checkGroupsMatchMap(t, n)
}

// Of what lies side by side as many as there are anywhere are folded, to a group that takes
// any.
func TestTheLongestRunIsFolded(t *testing.T) {
	any := func(partition.Group) bool { return true }
	none := func(partition.Shard) bool { return false }
	m, err := partition.NewMap([]partition.Group{{ID: 1}, {ID: 2}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for id := range partition.KeyspaceID(40) {
		if m, err = mapWithKeyspace(m, &partition.Keyspace{ID: 1 + id, Name: "k", Kind: partition.Hash}, any); err != nil {
			t.Fatal(err)
		}
	}
	// between are the positions of keyspaces from one to another one, both included.
	between := func(a, b partition.KeyspaceID) partition.Span {
		from, to := partition.Keyspace{ID: a}, partition.Keyspace{ID: b}
		return partition.Span{Start: from.Span().Start, End: to.Span().End}
	}
	middle := m.Find((&partition.Keyspace{ID: 4}).SlotSpan(0x2000).Start)
	for _, c := range []struct {
		name  string
		gone  []partition.Span
		busy  func(partition.Shard) bool
		takes func(partition.Group) bool
		fewer int
		to    partition.GroupID
	}{
		{"nothing is gone", nil, none, any, 0, 0},
		{"one keyspace", []partition.Span{between(2, 2)}, none, any, 7, 1},
		{"the longer", []partition.Span{between(2, 2), between(4, 5)}, none, any, 15, 1},
		{"a job in the middle", []partition.Span{between(4, 4)}, func(s partition.Shard) bool { return s.ID == middle.ID }, any, 3, 1},
		{"a group that is drained", []partition.Span{between(2, 2)}, none, func(g partition.Group) bool { return g.ID != 1 }, 7, 2},
		{"all are drained", []partition.Span{between(2, 2)}, none, func(partition.Group) bool { return false }, 0, 0},
		{"many", []partition.Span{between(2, 39)}, none, any, 38*8 - 1, 1},
		{"a part of a shard", []partition.Span{(&partition.Keyspace{ID: 2}).SlotSpan(7)}, none, any, 0, 0},
	} {
		next := foldShards(m, c.gone, c.busy, c.takes)
		spans := changedSpans(next, m.Version())
		if m.Len()-next.Len() != c.fewer || len(spans) > 1 || (len(spans) == 1) != (c.fewer > 0) {
			t.Errorf("%s: %d shards fewer in %v, want %d", c.name, m.Len()-next.Len(), spans, c.fewer)
			continue
		}
		for _, span := range spans {
			if s := next.Find(span.Start); !s.Span.Equal(span) || s.Group != c.to {
				t.Errorf("%s: %v, want %v of %v", c.name, s, span, c.to)
			}
		}
	}
}

// An id that was used up for nothing lies between shards that are folded and those of the
// next keyspace.
func TestFoldingReachesUpToTheNextKeyspace(t *testing.T) {
	o := smallOptions(2)
	o.Groups = 4
	n := mustOpen(t, o)
	defer n.Close(ctx)
	k := newDroppedKeyspace(t, n)
	if err := n.clearKeyspace(ctx, k.ID); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := n.createKeyspace(gone, partition.Keyspace{Name: "left"}, nil, nil, nil); !errors.Is(err, context.Canceled) || n.nextID != k.ID+2 {
		t.Fatalf("%v, and the next id is %d", err, n.nextID)
	}
	newKeyspace(t, n, "next")
	if s := n.Map().Find(k.Span().Start); !bytes.Equal(s.Span.End, (&partition.Keyspace{ID: k.ID + 2}).Span().Start) {
		t.Errorf("what is gone is in %v", s)
	}
	checkGroupsMatchMap(t, n)
}

// While a store has failed, or too many look at it, keyspaces and jobs elsewhere go on.
func TestFoldingWaitsForNoStore(t *testing.T) {
	for _, failed := range []bool{true, false} {
		var broken atomic.Bool
		o := smallOptions(2)
		o.Groups = 4
		o.FS = failingDisks(1, &broken)
		n := mustOpen(t, o)
		defer n.Close(ctx)
		k := newDroppedKeyspace(t, n)
		if err := n.clearKeyspace(ctx, k.ID); err != nil {
			t.Fatal(err)
		}
		d, err := n.Keyspace(DefaultKeyspace)
		if err != nil {
			t.Fatal(err)
		}
		// The positions that are not in use yet are with store 0.
		if last := lastShard(n); StoreOf(n.Map(), last.Group) != 0 {
			mustRunJob(t, n, mover.Request{Kind: mover.Move, Shard: last.ID, To: 1})
		}
		if failed {
			broken.Store(true)
			if _ = setUnindexed(n, d, keyInGroup(n, d, 3)); !n.storeHosts[1].hasFailed() {
				_ = n.storeHosts[1].Store.Sync()
			}
			if !n.storeHosts[1].hasFailed() {
				t.Fatal("it has not failed")
			}
		} else {
			defer exhaustSnapshots(t, n, d)()
		}
		for n.nextID%4 != 0 { // of group 1
			n.nextID++
		}
		if _, err := n.CreateKeyspace(ctx, partition.Keyspace{Name: "r", Kind: partition.Range}); err != nil {
			t.Errorf("a keyspace beside a store (failed: %v): %v", failed, err)
		}
		s := n.Map().Find(d.SlotSpan(0).Start)
		j := mustRunJob(t, n, mover.Request{Kind: mover.Split, Shard: s.ID, In: &d.Keyspace, At: []partition.Position{d.SlotSpan(7).Start}})
		if j.Phase != mover.Done {
			t.Errorf("a split beside it (failed: %v): %v, %s", failed, j.Phase, j.Reason)
		}
	}
}

// exhaustSnapshots keeps as many of the second store as there may be, until the function is
// called.
func exhaustSnapshots(t *testing.T, n *Node, k *Keyspace) (end func()) {
	t.Helper()
	at := keyInGroup(n, k, 2)
	var kept []*store.Snapshot
	for {
		s, err := store.SnapshotAll(n.storeHosts[1].Store)
		if errors.Is(err, store.ErrTooManySnapshots) {
			break
		}
		if err != nil || len(kept) > 5000 {
			t.Fatalf("%d snapshots, %v", len(kept), err)
		}
		kept = append(kept, s...)
		if err := n.GroupHostAt(at).doCommand(ctx, &command.Set{Key: at, Value: make([]byte, 30<<10)}); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		for _, s := range kept {
			s.Close()
		}
	}
}
