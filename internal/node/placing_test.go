package node

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/partition"
)

// kept are options whose disks outlive the node.
func kept(stores int) Options {
	disks := make([]store.FS, stores)
	for i := range disks {
		disks[i] = store.Memory()
	}
	o := small(stores)
	o.FS = func(i int) store.FS { return disks[i] }
	return o
}

// agree fails if the groups do not serve exactly what the map says.
func agree(t *testing.T, n *Node) {
	t.Helper()
	m, err := n.newestMap(ctx)
	if err != nil || m.Version() != n.Map().Version() {
		t.Fatalf("version %d is published, the newest is %v, %v", n.Map().Version(), m, err)
	}
	for s := range m.Shards(partition.Whole) {
		for _, p := range n.Parts() {
			for r := range p.Group.List().Over(s.Span) {
				if r.Reads() && (p.ID != s.Group || !r.Span.Equal(s.Span) || r.Version != s.Changed || r.State != own.Serving) {
					t.Errorf("%v has %v, the map has %v", p.ID, r, s)
				}
			}
		}
		if !n.part(s.Group).Group.List().Covers(s.Span) {
			t.Errorf("%v does not serve %v", s.Group, s.Span)
		}
	}
}

// The catalog is alone in its shard: in a new directory, and in one that was made
// when it was not.
func TestTheCatalogIsAShardOfItsOwn(t *testing.T) {
	o := kept(2)
	n := open(t, o)
	alone := func() {
		t.Helper()
		if s := n.Map().Find(system.Span().Start); !bytes.Equal(s.Span.End, system.Span().End) || s.Group != firstGroup {
			t.Errorf("the catalog is in %v", s)
		}
		agree(t, n)
	}
	alone()
	m := n.Map()
	left, right := m.Find(system.Span().Start), m.Find(system.Span().End)
	merged, err := m.Apply(partition.Merge{Left: left.ID, Right: right.ID})
	if err != nil {
		t.Fatal(err)
	}
	span := partition.Span{Start: left.Span.Start, End: right.Span.End}
	err = n.enter(ctx, group.Steps{
		&own.Reown{
			Expect: []own.Range{{Span: left.Span, Version: left.Changed, State: own.Serving}, {Span: right.Span, Version: right.Changed, State: own.Serving}},
			Become: []own.Range{{Span: span, Version: merged.Version(), State: own.Serving}},
		},
		&command.Set{Key: meta.Map(), Value: merged.Append(nil)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(ctx); err != nil {
		t.Fatal(err)
	}
	n = open(t, o)
	defer n.Close(ctx)
	alone()
}

// A placing that was noted and then interrupted is brought to its end by the next
// Open, next to a job that waits; the id is not used for another keyspace.
func TestAPlacingThatWasInterruptedIsBroughtToItsEnd(t *testing.T) {
	o := kept(2)
	o.Groups = 4
	n := open(t, o)
	k := partition.Keyspace{ID: n.nextID, Name: "k"}
	// The job is on the other end of the map, and stays where it is.
	s := n.Map().Find((&partition.Keyspace{ID: defaultID}).Span().Start)
	job, err := n.StartJob(ctx, mover.Request{Kind: mover.Move, Shard: s.ID, To: 4, Throttle: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := job.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	old, err := n.newestMap(ctx)
	if err != nil {
		t.Fatal(err)
	}
	next, err := placed(old, &k, func(g partition.Group) bool { return !g.Draining })
	if err != nil {
		t.Fatal(err)
	}
	home := old.Find(k.Span().Start)
	use := &command.Set{Key: nextIDRow(), Value: []byte{0, 0, 0, byte(k.ID) + 1}}
	note := &drive.Note{Catalog: meta, Base: old.Version(), Spans: []partition.Span{home.Span}, Map: next, With: []command.Command{use}}
	if err := n.enter(ctx, note); err != nil {
		t.Fatal(err)
	}
	if err := n.enter(ctx, &drive.Note{Catalog: meta, Base: old.Version() - 1, Spans: []partition.Span{home.Span}, Map: next}); !errors.Is(err, drive.ErrOvertaken) {
		t.Errorf("a map that was made from an older one: %v", err)
	}
	if err := n.Close(ctx); err != nil {
		t.Fatal(err)
	}
	n = open(t, o)
	defer n.Close(ctx)
	agree(t, n)
	if n.Map().Version() != next.Version() {
		t.Errorf("the map is at %d, want %d", n.Map().Version(), next.Version())
	}
	made, err := n.CreateKeyspace(ctx, partition.Keyspace{Name: "k", Kind: partition.Range})
	if err != nil || made.ID != k.ID+1 {
		t.Errorf("the next keyspace is %+v, %v", made, err)
	}
	agree(t, n)
}

// A router with an old map is told so by the group, waits for a newer map, and finds
// the new owner. If there is none, it waits before it asks again.
func TestARouterWithAnOldMapWaitsForTheNext(t *testing.T) {
	o := small(2)
	n := open(t, o)
	defer n.Close(ctx)
	k, err := n.Keyspace(DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	p := k.AppendPosition(nil, []byte("key"))
	before, was := n.Map().Version(), n.PartOf(p)
	to := firstGroup + 1
	if was.ID == to {
		to = firstGroup
	}
	wait(t, n, mover.Request{Kind: mover.Move, Shard: n.Map().Find(p).ID, To: to})
	reply, err := was.Group.Do(ctx, group.Request{Command: &command.Set{Key: p}})
	if err = errors.Join(err, reply.Err); !errors.Is(err, own.ErrWrongGroup) {
		t.Errorf("the group that has lost the key: %v", err)
	}
	if err := n.Reroute(ctx, before, 9); err != nil || n.PartOf(p).ID != to {
		t.Errorf("%v, then %v", err, n.PartOf(p).ID)
	}
	gone, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if err := n.Reroute(gone, n.Map().Version(), 9); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a newer map: %v", err)
	}
	woken := make(chan error, 1)
	used := n.Map().Version()
	go func() { woken <- n.Reroute(ctx, used, 20) }()
	m, err := n.Map().Apply(partition.AddGroup{})
	if err != nil {
		t.Fatal(err)
	}
	n.offer(m)
	if err := <-woken; err != nil {
		t.Error(err)
	}
}

// No more than about the last hundred jobs that have ended are remembered.
func TestOldJobsAreForgotten(t *testing.T) {
	n := open(t, small(1))
	defer n.Close(ctx)
	k, err := n.Keyspace(DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	at := k.SlotSpan(5).Start
	for range keptJobs/2 + 5 {
		left := n.Map().Find(k.Span().Start)
		wait(t, n, mover.Request{Kind: mover.Split, Shard: left.ID, In: &k.Keyspace, At: []partition.Position{at}})
		wait(t, n, mover.Request{Kind: mover.Merge, Shard: left.ID, Right: n.Map().Find(at).ID})
	}
	jobs, err := n.Jobs(ctx)
	for ; err == nil && len(jobs) > keptJobs; jobs, err = n.Jobs(ctx) {
		time.Sleep(time.Millisecond) // a job is over a moment before another is forgotten
	}
	if err != nil || len(jobs) < keptJobs-1 || jobs[len(jobs)-1].ID != keptJobs+10 {
		t.Errorf("%d jobs are remembered, %v", len(jobs), err)
	}
	if _, err := n.Job(ctx, 1); !errors.Is(err, ErrNoJob) {
		t.Errorf("the first: %v", err)
	}
	agree(t, n)
}
