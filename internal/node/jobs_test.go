package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// wait waits for a job, which must come to its end.
func wait(t *testing.T, n *Node, r mover.Request) mover.Job {
	t.Helper()
	job, err := n.StartJob(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	j, err := job.Wait(ctx)
	if err != nil || j.Phase != mover.Done {
		t.Fatalf("%v: %v, %s, %v", r.Kind, j.Phase, j.Why, err)
	}
	return j
}

func TestJobsOfEveryKindComeToTheirEnd(t *testing.T) {
	o := small(2)
	o.Groups = 4
	o.Store.RetainBytes = 1 << 20
	n := open(t, o)
	defer n.Close(ctx)
	k, err := n.Keyspace(DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	keys := 300
	for i := range keys {
		p := k.AppendPosition(nil, fmt.Append(nil, i))
		if _, err := n.PartOf(p).Group.Do(ctx, group.Request{Command: &command.Set{Key: p, Value: []byte("v")}}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string) {
		t.Helper()
		for i := range keys {
			p := k.AppendPosition(nil, fmt.Append(nil, i))
			row, ok, err := n.PartOf(p).Group.Read(ctx, p, nil)
			if err != nil || !ok || string(row.Payload) != "v" {
				t.Fatalf("%s: key %d: %v, %v", when, i, ok, err)
			}
		}
		agree(t, n)
	}
	s := n.Map().Find(k.Span().Start)
	cut := k.SlotSpan(100).Start
	wait(t, n, mover.Request{Kind: mover.Split, Shard: s.ID, In: &k.Keyspace, At: []partition.Position{cut}})
	check("split")
	right := n.Map().Find(cut)
	wait(t, n, mover.Request{Kind: mover.Merge, Shard: s.ID, Right: right.ID})
	check("merged")
	wait(t, n, mover.Request{Kind: mover.Move, Shard: s.ID, To: 2})
	check("moved within the store")
	wait(t, n, mover.Request{Kind: mover.Move, Shard: s.ID, To: 3})
	check("moved to the other store")
	wait(t, n, mover.Request{Kind: mover.Drain, Group: 2, Parallel: 4})
	check("drained")
	wait(t, n, mover.Request{Kind: mover.Regroup, Groups: 6, Parallel: 4})
	check("grown")
	before := n.Parts()
	wait(t, n, mover.Request{Kind: mover.Regroup, Groups: 3, Parallel: 4})
	check("shrunk")
	if len(n.Parts()) != 3 {
		t.Errorf("%d groups", len(n.Parts()))
	}
	gone(t, n, before)
}

// A destination that stands still while a range is handed over to it does not keep the range
// from its writers. The move goes on when it does.
func TestADestinationThatStandsStillKeepsNoRangeFrozen(t *testing.T) {
	for _, hangs := range []string{"group", "disk"} {
		var n *Node
		var slow atomic.Bool
		stalled, goOn := make(chan chan struct{}, 1), make(chan struct{})
		stand := sync.OnceFunc(func() {
			if slow.Store(hangs == "disk"); hangs == "disk" {
				stalled <- goOn
			} else {
				stalled <- stall(n.part(2))
			}
		})
		o := small(2)
		o.FS = func(i int) store.FS {
			return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
				sync := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData
				if i == 1 && sync && slow.Load() && strings.HasSuffix(op.Path, ".wal") {
					<-goOn
				}
				return nil
			}))
		}
		o.OnJob = func(j mover.Job) {
			if j.Kind == mover.Move && j.Phase == mover.Finishing {
				stand()
			}
		}
		n = open(t, o)
		defer n.Close(ctx)
		k, err := n.Keyspace(DefaultName)
		if err != nil {
			t.Fatal(err)
		}
		s := n.Map().Find(k.Span().Start)
		job, err := n.StartJob(ctx, mover.Request{Kind: mover.Move, Shard: s.ID, To: 2})
		if err != nil {
			t.Fatal(err)
		}
		end := <-stalled
		limited, stop := context.WithTimeout(ctx, 5*time.Second) // more than a hundred times FreezeLimitMS
		defer stop()
		key := keysIn(k, s.Span, 1)[0]
		if err := n.part(s.Group).do(limited, &command.Set{Key: key}); err != nil {
			t.Errorf("a write to the source while the %s of the destination hangs: %v", hangs, err)
		}
		close(end)
		if j, err := job.Wait(ctx); err != nil || j.Phase != mover.Done || j.Freezes < 2 {
			t.Errorf("%v after %d freezes, %s, %v", j.Phase, j.Freezes, j.Why, err)
		}
	}
}

// A full queue where a decision is to be made is not the map's no: the job asks again.
func TestAFullQueueTakesNoJobBack(t *testing.T) {
	n := open(t, small(2))
	defer n.Close(ctx)
	k, err := n.Keyspace(DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	s := n.Map().Find(k.Span().Start)
	at := []partition.Position{middleSlot(&k.Keyspace, s.Span)}
	for phase, r := range map[mover.Phase]mover.Request{
		mover.Marking:  {Kind: mover.Drain, Group: 2},
		mover.Deciding: {Kind: mover.Split, Shard: s.ID, In: &k.Keyspace, At: at},
	} {
		c := &drive.Admit{Catalog: meta, Request: r, Home: homes(n.Map()), NowMS: n.jobMS()}
		if err := n.enter(ctx, c); err != nil { // nobody drives it
			t.Fatal(err)
		}
		d := &driver{n: n, job: c.Job, stored: c.Job.Rev}
		d.job.Phase = phase
		ev := d.failed(ctx, mover.Failed{Round: d.job.Round, Err: fmt.Errorf("choose: %w", group.ErrOverloaded)})
		if d.job.Phase != phase || d.stored != c.Job.Rev || ev != nil {
			t.Errorf("a %v at %v is %v: %s", r.Kind, phase, d.job.Phase, d.job.Why)
		}
	}
}

// A decider that was removed before it was ever asked has not committed anything: who wants
// to is sent elsewhere. One that may have been asked may have committed, and forgotten it.
func TestWhoeverAsksARemovedDeciderFirstIsSentElsewhere(t *testing.T) {
	n := open(t, small(2))
	defer n.Close(ctx)
	wait(t, n, mover.Request{Kind: mover.Regroup, Groups: 3, Parallel: 4})
	wait(t, n, mover.Request{Kind: mover.Regroup, Groups: 2, Parallel: 4})
	k, err := n.Keyspace(DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	for _, unsure := range []bool{false, true} {
		plan := txn.Plan{ID: n.newID(), DeadlineMS: n.deadlineMS(), Decider: 3, Parts: []txn.Part{{Span: k.Span()}}}
		l := &lead{node: n, decider: plan.Decider, unsure: unsure}
		var effects []txn.Effect
		l.c, effects = txn.NewCoordinator(plan)
		a, _ := l.run(ctx, effects, true)
		switch {
		case a == nil:
			t.Errorf("asked before: %v: no answer: %v", unsure, l.failure)
		case unsure && (a.Outcome != txn.Undecided || !errors.Is(a.Err, txn.ErrForgotten)),
			!unsure && (a.Outcome != txn.Aborted || !errors.Is(a.Err, own.ErrWrongGroup)):
			t.Errorf("asked before: %v: %v, %v", unsure, a.Outcome, a.Err)
		}
	}
}

// gone fails if groups that are no more are kept, or do not send away who has hold of
// them.
func gone(t *testing.T, n *Node, before []*Part) {
	t.Helper()
	for left := 1; left > 0; time.Sleep(time.Millisecond) {
		n.jobs.mu.Lock()
		left = len(n.dismissed)
		n.jobs.mu.Unlock()
	}
	for _, p := range before {
		if n.part(p.ID) != nil {
			continue
		}
		at := (&partition.Keyspace{ID: defaultID}).Span().Start
		if err := p.do(ctx, &command.Get{Key: at}); !errors.Is(err, own.ErrWrongGroup) {
			t.Errorf("%v is no more: %v", p.ID, err)
		}
	}
}
