package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
	"github.com/cleavekv/cleave/partition"
)

// mustRunJob waits for a job, which must come to its end.
func mustRunJob(t *testing.T, n *Node, r mover.Request) mover.Job {
	t.Helper()
	job, err := n.StartJob(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	j, err := job.Wait(ctx)
	if err != nil || j.Phase != mover.Done {
		t.Fatalf("%v: %v, %s, %v", r.Kind, j.Phase, j.Reason, err)
	}
	return j
}

func TestJobsOfEveryKindComeToTheirEnd(t *testing.T) {
	o := smallOptions(2)
	o.Groups = 4
	o.Store.RetainBytes = 1 << 20
	n := mustOpen(t, o)
	defer n.Close(ctx)
	k, err := n.Keyspace(DefaultKeyspace)
	if err != nil {
		t.Fatal(err)
	}
	keys := 300
	for i := range keys {
		p := k.AppendPosition(nil, fmt.Append(nil, i))
		if _, err := n.GroupHostAt(p).Group.Execute(ctx, group.Request{Command: &command.Set{Key: p, Value: []byte("v")}}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string) {
		t.Helper()
		for i := range keys {
			p := k.AppendPosition(nil, fmt.Append(nil, i))
			row, ok, err := n.GroupHostAt(p).Group.Read(ctx, p, nil)
			if err != nil || !ok || string(row.Payload) != "v" {
				t.Fatalf("%s: key %d: %v, %v", when, i, ok, err)
			}
		}
		checkGroupsMatchMap(t, n)
	}
	s := n.Map().Find(k.Span().Start)
	cut := k.SlotSpan(100).Start
	mustRunJob(t, n, mover.Request{Kind: mover.Split, Shard: s.ID, In: &k.Keyspace, At: []partition.Position{cut}})
	check("split")
	right := n.Map().Find(cut)
	mustRunJob(t, n, mover.Request{Kind: mover.Merge, Shard: s.ID, Right: right.ID})
	check("merged")
	mustRunJob(t, n, mover.Request{Kind: mover.Move, Shard: s.ID, To: 2})
	check("moved within the store")
	mustRunJob(t, n, mover.Request{Kind: mover.Move, Shard: s.ID, To: 3})
	check("moved to the other store")
	mustRunJob(t, n, mover.Request{Kind: mover.Drain, Group: 2, Parallel: 4})
	check("drained")
	mustRunJob(t, n, mover.Request{Kind: mover.Regroup, Groups: 6, Parallel: 4})
	check("grown")
	before := n.GroupHosts()
	mustRunJob(t, n, mover.Request{Kind: mover.Regroup, Groups: 3, Parallel: 4})
	check("shrunk")
	if len(n.GroupHosts()) != 3 {
		t.Errorf("%d groups", len(n.GroupHosts()))
	}
	checkGroupsGone(t, n, before)
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
				stalled <- stallGroup(n.lookupGroup(2))
			}
		})
		o := smallOptions(2)
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
		n = mustOpen(t, o)
		defer n.Close(ctx)
		k, err := n.Keyspace(DefaultKeyspace)
		if err != nil {
			t.Fatal(err)
		}
		s := n.Map().Find(k.Span().Start)
		job, err := n.StartJob(ctx, mover.Request{Kind: mover.Move, Shard: s.ID, To: 2})
		if err != nil {
			t.Fatal(err)
		}
		end := <-stalled
		limited, stop := context.WithTimeout(ctx, eventually.Limit()) // many times FreezeLimitMS
		defer stop()
		key := keysIn(k, s.Span, 1)[0]
		if err := n.lookupGroup(s.Group).doCommand(limited, &command.Set{Key: key}); err != nil {
			t.Errorf("a write to the source while the %s of the destination hangs: %v", hangs, err)
		}
		close(end)
		if j, err := job.Wait(ctx); err != nil || j.Phase != mover.Done || j.Freezes < 2 {
			t.Errorf("%v after %d freezes, %s, %v", j.Phase, j.Freezes, j.Reason, err)
		}
	}
}

// A full queue where a decision is to be made is not the map's no: the job asks again.
func TestAFullQueueTakesNoJobBack(t *testing.T) {
	n := mustOpen(t, smallOptions(2))
	defer n.Close(ctx)
	k, err := n.Keyspace(DefaultKeyspace)
	if err != nil {
		t.Fatal(err)
	}
	s := n.Map().Find(k.Span().Start)
	at := []partition.Position{middleSlot(&k.Keyspace, s.Span)}
	for phase, r := range map[mover.Phase]mover.Request{
		mover.Marking:  {Kind: mover.Drain, Group: 2},
		mover.Deciding: {Kind: mover.Split, Shard: s.ID, In: &k.Keyspace, At: at},
	} {
		c := &protocol.AdmitJob{Catalog: catalogKeys, Request: r, Home: homeStores(n.Map()), NowMS: n.jobNowMS()}
		if err := n.writeCatalog(ctx, c); err != nil { // no driver drives it
			t.Fatal(err)
		}
		d := &jobDriver{node: n, job: c.Job, storedRev: c.Job.Rev}
		d.job.Phase = phase
		ev := d.handleFailure(ctx, mover.Failed{Round: d.job.Round, Err: fmt.Errorf("choose: %w", group.ErrOverloaded)})
		if d.job.Phase != phase || d.storedRev != c.Job.Rev || ev != nil {
			t.Errorf("a %v at %v is %v: %s", r.Kind, phase, d.job.Phase, d.job.Reason)
		}
	}
}

// A coordinator group that was removed before it was ever asked has not committed anything: a coordinator
// that asks it is sent elsewhere. One that may have been asked may have committed, and forgotten
// it.
func TestWhoeverAsksARemovedDeciderFirstIsSentElsewhere(t *testing.T) {
	n := mustOpen(t, smallOptions(2))
	defer n.Close(ctx)
	mustRunJob(t, n, mover.Request{Kind: mover.Regroup, Groups: 3, Parallel: 4})
	mustRunJob(t, n, mover.Request{Kind: mover.Regroup, Groups: 2, Parallel: 4})
	k, err := n.Keyspace(DefaultKeyspace)
	if err != nil {
		t.Fatal(err)
	}
	for _, unsure := range []bool{false, true} {
		plan := txn.Plan{ID: n.newTxnID(), DeadlineMS: n.computeDeadlineMS(), CoordinatorGroup: 3, Participants: []txn.Participant{{Span: k.Span()}}}
		l := &txnDriver{node: n, coordinatorGroup: plan.CoordinatorGroup, maybeCommitted: unsure}
		var effects []txn.Effect
		l.coordinator, effects = txn.NewCoordinator(plan)
		a, _ := l.run(ctx, effects, true)
		switch {
		case a == nil:
			t.Errorf("asked before: %v: no answer: %v", unsure, l.lastErr)
		case unsure && (a.Outcome != txn.Undecided || !errors.Is(a.Err, txn.ErrForgotten)),
			!unsure && (a.Outcome != txn.Aborted || !errors.Is(a.Err, ownership.ErrWrongGroup)):
			t.Errorf("asked before: %v: %v, %v", unsure, a.Outcome, a.Err)
		}
	}
}

// checkGroupsGone fails if removed groups are kept, or do not send their callers elsewhere.
func checkGroupsGone(t *testing.T, n *Node, before []*GroupHost) {
	t.Helper()
	eventually.Holds(t, "groups that were removed are forgotten", func() bool {
		n.jobs.mu.Lock()
		defer n.jobs.mu.Unlock()
		return len(n.retiring) == 0
	})
	for _, p := range before {
		if n.lookupGroup(p.ID) != nil {
			continue
		}
		at := (&partition.Keyspace{ID: defaultKeyspaceID}).Span().Start
		if err := p.doCommand(ctx, &command.Get{Key: at}); !errors.Is(err, ownership.ErrWrongGroup) {
			t.Errorf("%v is no more: %v", p.ID, err)
		}
	}
}

// Many jobs that are cancelled while their drivers stand still, as during a backup, end for
// their waiters: no record is forgotten before its driver has seen it.
func TestJobsEndForWhoWaitsHoweverManyAreCancelled(t *testing.T) {
	n := mustOpen(t, smallOptions(1))
	defer n.Close(ctx)
	k, err := n.CreateKeyspace(ctx, partition.Keyspace{Name: "r", Kind: partition.Range})
	if err != nil {
		t.Fatal(err)
	}
	key := func(i int) partition.Position {
		return k.AppendPosition(nil, binary.BigEndian.AppendUint32(nil, uint32(i)))
	}
	const jobs = maxEndedJobs + 20
	var at []partition.Position
	for i := 1; i <= jobs; i++ {
		at = append(at, key(i*10))
	}
	mustRunJob(t, n, mover.Request{Kind: mover.Split, Shard: n.Map().Find(k.Span().Start).ID, In: &k.Keyspace, At: at})

	release, err := n.pauseJobs(ctx) // what Backup does first
	if err != nil {
		t.Fatal(err)
	}
	var held []*Job
	for i := 1; i <= jobs; i++ {
		j, err := n.StartJob(ctx, mover.Request{Kind: mover.Split, Shard: n.Map().Find(key(i * 10)).ID, In: &k.Keyspace, At: []partition.Position{key(i*10 + 5)}})
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, j)
	}
	for _, j := range held {
		if err := j.Control(ctx, func(j mover.Job, nowMS int64) (mover.Job, error) {
			next, _, err := mover.Cancel(j, nowMS)
			return next, err
		}); err != nil {
			t.Fatal(err)
		}
	}
	release()
	for _, j := range held {
		if last, err := j.Wait(ctx); err != nil || !last.Phase.IsFinal() {
			t.Fatalf("job %d is %v: %v", j.ID, last.Phase, err)
		}
	}
}
