package node

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
	"github.com/cleavekv/cleave/partition"
)

// durableOptions are options whose disks outlive the node.
func durableOptions(stores int) Options {
	disks := make([]store.FS, stores)
	for i := range disks {
		disks[i] = store.NewMemFS()
	}
	o := smallOptions(stores)
	o.FS = func(i int) store.FS { return disks[i] }
	return o
}

// checkGroupsMatchMap fails if the groups do not serve exactly what the map has for them.
func checkGroupsMatchMap(t *testing.T, n *Node) {
	t.Helper()
	m, err := n.loadNewestMap(ctx)
	if err != nil || m.Version() != n.Map().Version() {
		t.Fatalf("version %d is published, the newest is %v, %v", n.Map().Version(), m, err)
	}
	for s := range m.Shards(partition.Whole) {
		for _, p := range n.GroupHosts() {
			for r := range p.Group.OwnershipTable().ScanOverlapping(s.Span) {
				if r.IsReadable() && (p.ID != s.Group || !r.Span.Equal(s.Span) || r.Version != s.Changed || r.State != ownership.Serving) {
					t.Errorf("%v has %v, the map has %v", p.ID, r, s)
				}
			}
		}
		if !n.lookupGroup(s.Group).Group.OwnershipTable().CanReadSpan(s.Span) {
			t.Errorf("%v does not serve %v", s.Group, s.Span)
		}
	}
}

// The catalog is alone in its shard: in a new directory, and in one that was made
// when it was not.
func TestTheCatalogIsAShardOfItsOwn(t *testing.T) {
	o := durableOptions(2)
	n := mustOpen(t, o)
	alone := func() {
		t.Helper()
		if s := n.Map().Find(systemKeyspace.Span().Start); !bytes.Equal(s.Span.End, systemKeyspace.Span().End) || s.Group != firstGroup {
			t.Errorf("the catalog is in %v", s)
		}
		checkGroupsMatchMap(t, n)
	}
	alone()
	m := n.Map()
	left, right := m.Find(systemKeyspace.Span().Start), m.Find(systemKeyspace.Span().End)
	merged, err := m.Apply(partition.Merge{Left: left.ID, Right: right.ID})
	if err != nil {
		t.Fatal(err)
	}
	span := partition.Span{Start: left.Span.Start, End: right.Span.End}
	err = n.writeCatalog(ctx, group.Steps{
		&ownership.ChangeOwnership{
			Expect: []ownership.Range{{Span: left.Span, Version: left.Changed, State: ownership.Serving}, {Span: right.Span, Version: right.Changed, State: ownership.Serving}},
			Become: []ownership.Range{{Span: span, Version: merged.Version(), State: ownership.Serving}},
		},
		&command.Set{Key: catalogKeys.MapKey(), Value: merged.Append(nil)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(ctx); err != nil {
		t.Fatal(err)
	}
	n = mustOpen(t, o)
	defer n.Close(ctx)
	alone()
}

// A placing that was noted and then interrupted is completed by the next Open, next to a job
// that waits; the id is not used for another keyspace.
func TestAPlacingThatWasInterruptedIsBroughtToItsEnd(t *testing.T) {
	o := durableOptions(2)
	o.Groups = 4
	n := mustOpen(t, o)
	k := partition.Keyspace{ID: n.nextID, Name: "k"}
	// The job is on the other end of the map, and stays where it is.
	s := n.Map().Find((&partition.Keyspace{ID: defaultKeyspaceID}).Span().Start)
	job, err := n.StartJob(ctx, mover.Request{Kind: mover.Move, Shard: s.ID, To: 4, Throttle: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := job.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	old, err := n.loadNewestMap(ctx)
	if err != nil {
		t.Fatal(err)
	}
	next, err := mapWithKeyspace(old, &k, func(g partition.Group) bool { return !g.Draining })
	if err != nil {
		t.Fatal(err)
	}
	home := old.Find(k.Span().Start)
	use := &command.Set{Key: nextIDKey(), Value: []byte{0, 0, 0, byte(k.ID) + 1}}
	note := &protocol.BeginPlacing{Catalog: catalogKeys, BaseVersion: old.Version(), Spans: []partition.Span{home.Span}, Map: next, Commands: []command.Command{use}}
	if err := n.writeCatalog(ctx, note); err != nil {
		t.Fatal(err)
	}
	if err := n.writeCatalog(ctx, &protocol.BeginPlacing{Catalog: catalogKeys, BaseVersion: old.Version() - 1, Spans: []partition.Span{home.Span}, Map: next}); !errors.Is(err, protocol.ErrStaleRecord) {
		t.Errorf("a map that was made from an older one: %v", err)
	}
	if err := n.Close(ctx); err != nil {
		t.Fatal(err)
	}
	n = mustOpen(t, o)
	defer n.Close(ctx)
	checkGroupsMatchMap(t, n)
	if n.Map().Version() != next.Version() {
		t.Errorf("the map is at %d, want %d", n.Map().Version(), next.Version())
	}
	made, err := n.CreateKeyspace(ctx, partition.Keyspace{Name: "k", Kind: partition.Range})
	if err != nil || made.ID != k.ID+1 {
		t.Errorf("the next keyspace is %+v, %v", made, err)
	}
	checkGroupsMatchMap(t, n)
}

// A router with an old map gets that error from the group, waits for a newer map, and finds the
// new owner. If there is none, it waits before it asks again.
func TestARouterWithAnOldMapWaitsForTheNext(t *testing.T) {
	o := smallOptions(2)
	n := mustOpen(t, o)
	defer n.Close(ctx)
	k, err := n.Keyspace(DefaultKeyspace)
	if err != nil {
		t.Fatal(err)
	}
	p := k.AppendPosition(nil, []byte("key"))
	before, was := n.Map().Version(), n.GroupHostAt(p)
	to := firstGroup + 1
	if was.ID == to {
		to = firstGroup
	}
	mustRunJob(t, n, mover.Request{Kind: mover.Move, Shard: n.Map().Find(p).ID, To: to})
	reply, err := was.Group.Execute(ctx, group.Request{Command: &command.Set{Key: p}})
	if err = errors.Join(err, reply.Err); !errors.Is(err, ownership.ErrWrongGroup) {
		t.Errorf("the group that has lost the key: %v", err)
	}
	if err := n.WaitForNewMap(ctx, before, 9); err != nil || n.GroupHostAt(p).ID != to {
		t.Errorf("%v, then %v", err, n.GroupHostAt(p).ID)
	}
	gone, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if err := n.WaitForNewMap(gone, n.Map().Version(), 9); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a newer map: %v", err)
	}
	woken := make(chan error, 1)
	used := n.Map().Version()
	go func() { woken <- n.WaitForNewMap(ctx, used, 20) }()
	m, err := n.Map().Apply(partition.AddGroup{})
	if err != nil {
		t.Fatal(err)
	}
	n.publishMap(m)
	if err := <-woken; err != nil {
		t.Error(err)
	}
}

// No more than about the last hundred jobs that have ended are remembered.
func TestOldJobsAreForgotten(t *testing.T) {
	n := mustOpen(t, smallOptions(1))
	defer n.Close(ctx)
	k, err := n.Keyspace(DefaultKeyspace)
	if err != nil {
		t.Fatal(err)
	}
	at := k.SlotSpan(5).Start
	for range maxEndedJobs/2 + 5 {
		left := n.Map().Find(k.Span().Start)
		mustRunJob(t, n, mover.Request{Kind: mover.Split, Shard: left.ID, In: &k.Keyspace, At: []partition.Position{at}})
		mustRunJob(t, n, mover.Request{Kind: mover.Merge, Shard: left.ID, Right: n.Map().Find(at).ID})
	}
	var jobs []mover.Job
	eventually.Holds(t, "old jobs are forgotten", func() bool { // a job is over a moment before another is forgotten
		jobs, err = n.Jobs(ctx)
		return err != nil || len(jobs) <= maxEndedJobs
	})
	if err != nil || len(jobs) < maxEndedJobs-1 || jobs[len(jobs)-1].ID != maxEndedJobs+10 {
		t.Errorf("%d jobs are remembered, %v", len(jobs), err)
	}
	if _, err := n.Job(ctx, 1); !errors.Is(err, ErrNoJob) {
		t.Errorf("the first: %v", err)
	}
	checkGroupsMatchMap(t, n)
}

// lastShard is that with the positions of keyspaces to come.
func lastShard(n *Node) (last partition.Shard) {
	for s := range n.Map().Shards(partition.Whole) {
		last = s
	}
	return last
}

// Where positions are given to another group without a job, a command of a job that
// has ended, and that comes late, finds that it is late.
func TestAPlacingForgetsNoJob(t *testing.T) {
	o := smallOptions(2)
	o.Groups = 4
	n := mustOpen(t, o)
	defer n.Close(ctx)
	s := lastShard(n)
	to := partition.GroupID(1)
	if s.Group <= 2 {
		to = 4
	}
	j := mustRunJob(t, n, mover.Request{Kind: mover.Move, Shard: s.ID, To: to})
	k, err := n.CreateKeyspace(ctx, partition.Keyspace{Name: "k"})
	if err != nil {
		t.Fatal(err)
	}
	checkGroupsMatchMap(t, n)
	p := n.lookupGroup(to)
	lost := 0
	for r := range p.Group.OwnershipTable().ScanOverlapping(k.Span()) {
		if r.State == ownership.Foreign {
			if lost++; r.Job != j.ID || r.Attempt != ownership.AttemptDropped {
				t.Errorf("%v has lost %v, which job %d had brought", to, r, j.ID)
			}
			late := &mover.ChangeDestination{
				Job: j.ID, AllowMissing: true,
				Become: ownership.Range{Span: r.Span, Version: j.Expect, State: ownership.Incoming, Job: j.ID, Attempt: 1},
			}
			reply, err := p.Group.Execute(ctx, group.Request{Command: late})
			if err = errors.Join(err, reply.Err); !errors.Is(err, ownership.ErrStale) {
				t.Errorf("a copy of before begins in %v: %v", r, err)
			}
		}
	}
	if lost == 0 {
		t.Errorf("%v has lost nothing: %v", to, n.Map())
	}
}

// A job elsewhere in a group may change its list while positions are placed there: it
// joins what was given away. Then the list is looked at again.
func TestAPlacingIsNotConfusedByAJobElsewhere(t *testing.T) {
	o := smallOptions(1)
	o.Groups = 2
	n := mustOpen(t, o)
	defer n.Close(ctx)
	k := partition.Keyspace{ID: n.nextID, Name: "k"}
	next, err := mapWithKeyspace(n.Map(), &k, func(partition.Group) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	spans := []partition.Span{n.Map().Find(k.Span().Start).Span}
	changes := 0
	by := func(p *GroupHost, m *partition.Map, s []partition.Span) command.Command {
		c := alignCommand(p, m, s)
		if change, ok := c.(*ownership.ChangeOwnership); ok && len(change.Expect) > 0 && changes == 0 {
			changes++
			was := change.Expect[0]
			other := was
			other.Version++
			reply, err := p.Group.Execute(ctx, group.Request{Command: &ownership.ChangeOwnership{Expect: []ownership.Range{was}, Become: []ownership.Range{other}}})
			if err = errors.Join(err, reply.Err); err != nil {
				t.Error(err)
			}
		}
		return c
	}
	if err := n.alignGroupsBy(ctx, next, spans, by); err != nil || changes == 0 {
		t.Errorf("after %d changes: %v", changes, err)
	}
	if err := n.finishPlacing(ctx, next, nil); err != nil {
		t.Fatal(err)
	}
	checkGroupsMatchMap(t, n)
}

// A crash leaves a placing that was noted and a job at work next to it, in the same groups: Open
// completes the placing, and then the job goes on.
func TestACrashLeavesAPlacingNextToAJob(t *testing.T) {
	for i, phase := range []mover.Phase{
		mover.CatchingUp, mover.Finishing, mover.Releasing, mover.Activating, mover.CatchingUp, mover.Finishing, mover.Releasing, mover.Activating,
	} {
		done := i >= 4 // half of it is done, not only noted
		disks := []*store.CrashableFS{store.NewCrashableFS(), store.NewCrashableFS()}
		o := smallOptions(2)
		o.Groups = 4
		o.FS = func(i int) store.FS { return disks[i].FS() }
		var n *Node
		var once sync.Once
		hit := make(chan []*store.CrashableFS, 1)
		o.OnJob = func(j mover.Job) {
			if j.Phase != phase {
				return
			}
			once.Do(func() {
				m, err := n.loadNewestMap(ctx) // which no router may have yet
				if err != nil {
					t.Error(err)
				}
				k := partition.Keyspace{ID: n.nextID, Name: "k"}
				next, err := mapWithKeyspace(m, &k, func(partition.Group) bool { return true })
				if err != nil {
					t.Error(err)
				}
				spans := []partition.Span{m.Find(k.Span().Start).Span}
				err = n.writeCatalog(ctx, &protocol.BeginPlacing{Catalog: catalogKeys, BaseVersion: m.Version(), Spans: spans, Map: next})
				if err == nil && done {
					err = n.storeHosts[0].alignGroups(ctx, next, spans, alignCommand)
				}
				if err != nil {
					t.Error(err)
				}
				hit <- []*store.CrashableFS{disks[0].Crash(0, nil), disks[1].Crash(0, nil)}
			})
		}
		n = mustOpen(t, o)
		s := n.Map().Find((&partition.Keyspace{ID: defaultKeyspaceID}).Span().Start)
		job, err := n.StartJob(ctx, mover.Request{Kind: mover.Move, Shard: s.ID, To: 4})
		if err != nil {
			t.Fatal(err)
		}
		after := <-hit
		_ = n.Close(ctx) // its catalog has a note of which it knows nothing
		disks, o.OnJob = after, nil
		n = mustOpen(t, o)
		if job, err = n.Job(ctx, job.ID); err != nil {
			t.Fatal(err)
		}
		j, err := job.Wait(ctx)
		if err != nil || j.Phase != mover.Done {
			t.Errorf("crash at %v: the job is %v, %s, %v", phase, j.Phase, j.Reason, err)
		}
		if _, err := n.CreateKeyspace(ctx, partition.Keyspace{Name: "next"}); err != nil {
			t.Error(err)
		}
		checkGroupsMatchMap(t, n)
		if err := n.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}
