package node

import (
	"errors"
	"sync"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/partition"
)

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
	o := small(2)
	o.Groups = 4
	n := open(t, o)
	defer n.Close(ctx)
	s := lastShard(n)
	to := partition.GroupID(1)
	if s.Group <= 2 {
		to = 4
	}
	j := wait(t, n, mover.Request{Kind: mover.Move, Shard: s.ID, To: to})
	k, err := n.CreateKeyspace(ctx, partition.Keyspace{Name: "k"})
	if err != nil {
		t.Fatal(err)
	}
	agree(t, n)
	p := n.part(to)
	lost := 0
	for r := range p.Group.List().Over(k.Span()) {
		if r.State == own.Foreign {
			if lost++; r.Job != j.ID || r.Attempt != own.Dropped {
				t.Errorf("%v has lost %v, which job %d had brought", to, r, j.ID)
			}
			late := &mover.Settle{
				Job: j.ID, Fresh: true,
				Become: own.Range{Span: r.Span, Version: j.Expect, State: own.Incoming, Job: j.ID, Attempt: 1},
			}
			reply, err := p.Group.Do(ctx, group.Request{Command: late})
			if err = errors.Join(err, reply.Err); !errors.Is(err, own.ErrStale) {
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
	o := small(1)
	o.Groups = 2
	n := open(t, o)
	defer n.Close(ctx)
	k := partition.Keyspace{ID: n.nextID, Name: "k"}
	next, err := placed(n.Map(), &k, func(partition.Group) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	spans := []partition.Span{n.Map().Find(k.Span().Start).Span}
	changes := 0
	by := func(p *Part, m *partition.Map, s []partition.Span) command.Command {
		c := realign(p, m, s)
		if change, ok := c.(*own.Reown); ok && len(change.Expect) > 0 && changes == 0 {
			changes++
			was := change.Expect[0]
			other := was
			other.Version++
			reply, err := p.Group.Do(ctx, group.Request{Command: &own.Reown{Expect: []own.Range{was}, Become: []own.Range{other}}})
			if err = errors.Join(err, reply.Err); err != nil {
				t.Error(err)
			}
		}
		return c
	}
	if err := n.alignBy(ctx, next, spans, by); err != nil || changes == 0 {
		t.Errorf("after %d changes: %v", changes, err)
	}
	if err := n.adopt(ctx, next, nil); err != nil {
		t.Fatal(err)
	}
	agree(t, n)
}

// A crash leaves a placing that was noted and a job at work next to it, in the same
// groups: Open brings the one to its end, and then the other goes on.
func TestACrashLeavesAPlacingNextToAJob(t *testing.T) {
	for i, phase := range []mover.Phase{
		mover.Catching, mover.Finishing, mover.Releasing, mover.Activating, mover.Catching, mover.Finishing, mover.Releasing, mover.Activating,
	} {
		done := i >= 4 // half of it is done, not only noted
		disks := []*store.Crashable{store.NewCrashable(), store.NewCrashable()}
		o := small(2)
		o.Groups = 4
		o.FS = func(i int) store.FS { return disks[i].FS() }
		var n *Node
		var once sync.Once
		hit := make(chan []*store.Crashable, 1)
		o.OnJob = func(j mover.Job) {
			if j.Phase != phase {
				return
			}
			once.Do(func() {
				m, err := n.newestMap(ctx) // which nobody else may know yet
				if err != nil {
					t.Error(err)
				}
				k := partition.Keyspace{ID: n.nextID, Name: "k"}
				next, err := placed(m, &k, func(partition.Group) bool { return true })
				if err != nil {
					t.Error(err)
				}
				spans := []partition.Span{m.Find(k.Span().Start).Span}
				err = n.enter(ctx, &drive.Note{Catalog: meta, Base: m.Version(), Spans: spans, Map: next})
				if err == nil && done {
					err = n.hosts[0].align(ctx, next, spans, realign)
				}
				if err != nil {
					t.Error(err)
				}
				hit <- []*store.Crashable{disks[0].Crash(0, nil), disks[1].Crash(0, nil)}
			})
		}
		n = open(t, o)
		s := n.Map().Find((&partition.Keyspace{ID: defaultID}).Span().Start)
		job, err := n.StartJob(ctx, mover.Request{Kind: mover.Move, Shard: s.ID, To: 4})
		if err != nil {
			t.Fatal(err)
		}
		after := <-hit
		_ = n.Close(ctx) // its catalog has a note of which it knows nothing
		disks, o.OnJob = after, nil
		n = open(t, o)
		if job, err = n.Job(ctx, job.ID); err != nil {
			t.Fatal(err)
		}
		j, err := job.Wait(ctx)
		if err != nil || j.Phase != mover.Done {
			t.Errorf("crash at %v: the job is %v, %s, %v", phase, j.Phase, j.Why, err)
		}
		if _, err := n.CreateKeyspace(ctx, partition.Keyspace{Name: "next"}); err != nil {
			t.Error(err)
		}
		agree(t, n)
		if err := n.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}
