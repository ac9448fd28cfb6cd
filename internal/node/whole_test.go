package node

import (
	"sync"
	"testing"

	"github.com/cleavekv/cleave/internal/caller"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/partition"
)

// whole fails if a view of all stores has a position that nobody serves.
func whole(t *testing.T, n *Node) {
	t.Helper()
	v, err := n.View(ctx, n.Hosts()...)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if err := v.Serves(partition.Whole); err != nil {
		t.Fatal(err)
	}
}

// A batch that takes a range from one group and gives it to another shows two lists,
// one after the other. No view falls between them.
func TestAViewIsWholeWhileARangeChangesGroups(t *testing.T) {
	o := small(1)
	o.Groups = 2
	n := open(t, o)
	defer n.Close(ctx)
	k, err := n.Keyspace(DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 50 {
			s := n.Map().Find(k.Span().Start)
			job, err := n.StartJob(ctx, mover.Request{Kind: mover.Move, Shard: s.ID, To: 3 - s.Group})
			if err == nil {
				_, err = job.Wait(ctx)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for {
		whole(t, n)
		select {
		case <-done:
			return
		default:
		}
	}
}

// Between two stores a range is nobody's for a moment, and if a crash comes then,
// until the job goes on: whoever looks waits for that.
func TestAViewIsWholeAfterACrashInAHandover(t *testing.T) {
	for range 10 {
		o := kept(2)
		var n *Node
		at := make(chan struct{}, 1)
		o.OnJob = func(j mover.Job) {
			if j.Phase == mover.Activating {
				n.stop() // the source has given it up, and nobody goes on
				at <- struct{}{}
			}
		}
		n = open(t, o)
		k, err := n.Keyspace(DefaultName)
		if err != nil {
			t.Fatal(err)
		}
		s := n.Map().Find(k.Span().Start)
		to := partition.GroupID(1)
		if s.Group == to {
			to = 2
		}
		if _, err := n.StartJob(ctx, mover.Request{Kind: mover.Move, Shard: s.ID, To: to}); err != nil {
			t.Fatal(err)
		}
		<-at
		if err := n.Close(ctx); err != nil {
			t.Fatal(err)
		}
		o.OnJob = nil
		n = open(t, o)
		for range 20 {
			whole(t, n)
		}
		if err := n.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// A Regroup may remove all groups of a store. Somebody may have hold of it by then.
func TestAStoreWithoutGroupsIsLookedAt(t *testing.T) {
	n := open(t, small(2))
	defer n.Close(ctx)
	h := n.Hosts()[1]
	for _, p := range h.Parts() {
		n.dismissGroups([]partition.GroupID{p.ID})
	}
	v, err := n.View(ctx, h)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if ms := v.LatestMS(); ms != 0 || v.Serves(partition.Whole) == nil {
		t.Errorf("nobody serves anything, at %d: %v", ms, v.Serves(partition.Whole))
	}
	if still, err := n.lookStill(ctx, []*Host{h}); err != nil {
		t.Error(err)
	} else {
		still.Close()
	}
}

// A look while groups stand still is of those groups. One that was opened since does not stand
// still: nobody asks whether its clock, its list and its locks stay.
func TestALookIsOfGroupsThatStandStill(t *testing.T) {
	o := small(1)
	o.Groups = 2
	n := open(t, o)
	defer n.Close(ctx)
	held := n.Hosts()[0].groups()
	busy, goOn := make(chan struct{}), make(chan struct{})
	go func() { _ = group.Still(ctx, held[:1], func() { close(busy); <-goOn }) }()
	<-busy
	looked := make(chan *View, 1)
	waits := make(chan struct{})
	go func() {
		v, err := n.lookStill(caller.Notices(ctx, sync.OnceFunc(func() { close(waits) })), n.Hosts())
		if err != nil {
			t.Error(err)
		}
		looked <- v
	}()
	<-waits
	labels, err := partition.ParseLabels("store=0")
	if err != nil {
		t.Fatal(err)
	}
	if err := n.openGroup(partition.Group{ID: 3, Labels: labels}); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	v := <-looked
	if v == nil {
		return // it looks again
	}
	defer v.Close()
	if known := len(v.sides[0].moment.known); known != len(held) {
		t.Errorf("%d groups stand still, and the view goes by what %d knew", len(held), known)
	}
}
