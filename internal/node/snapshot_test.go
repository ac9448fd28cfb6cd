package node

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/testkit/caller"
	"github.com/cleavekv/cleave/partition"
)

// newSnapshotLab is a node with a key, and a clock that a test turns.
func newSnapshotLab(t *testing.T) (n *Node, key partition.Position, wall *int64) {
	wall = new(int64)
	*wall = 1 << 40
	o := smallOptions(1)
	o.Wall = func() int64 { return *wall }
	n = mustOpen(t, o)
	t.Cleanup(func() { _ = n.Close(ctx) })
	k, err := n.Keyspace(DefaultKeyspace)
	if err != nil {
		t.Fatal(err)
	}
	key = k.AppendPosition(nil, []byte("k"))
	return n, key, wall
}

func mustSet(t *testing.T, p *GroupHost, key partition.Position) {
	t.Helper()
	if err := p.doCommand(ctx, &command.Set{Key: key}); err != nil {
		t.Fatal(err)
	}
}

// isTaken reports whether a view is one of snapshots.
func isTaken(v *Snapshot) bool { return v.stores[0].snap != nil }

func TestAFewRowsAreReadWithoutASnapshot(t *testing.T) {
	n, key, _ := newSnapshotLab(t)
	for range 3 { // after the first open, and after commits
		calls := 0
		err := n.ReadSnapshot(ctx, n.StoreHosts(), func(v *Snapshot) error {
			if isTaken(v) {
				t.Error("it took a snapshot")
			}
			calls++
			return nil
		})
		if err != nil || calls != 1 {
			t.Errorf("%d calls, %v", calls, err)
		}
		mustSet(t, n.GroupHosts()[0], key)
	}
}

// Whatever changes while rows are read: the last call has them of one moment.
func TestRowsThatChangeMeanwhileAreReadAgain(t *testing.T) {
	n, key, wall := newSnapshotLab(t)
	mustSet(t, n.GroupHosts()[0], key)
	for what, change := range map[string]func(){
		"a commit": func() { mustSet(t, n.GroupHosts()[0], key) },
		"the time": func() { *wall++ },
	} {
		calls := 0
		err := n.ReadSnapshot(ctx, n.StoreHosts(), func(v *Snapshot) error {
			now, _ := v.NowMS(key)
			snapshot := isTaken(v)
			if calls++; snapshot != (calls > maxOptimisticReads) || now != n.GroupHosts()[0].Group.NowMS() {
				t.Errorf("%s: call %d: a snapshot %v at %d", what, calls, snapshot, now)
			}
			before, _, err := v.Get(effect.Rows.AppendKey(nil, key), nil)
			if err != nil {
				t.Fatal(err)
			}
			change()
			if after, _, err := v.Get(effect.Rows.AppendKey(nil, key), nil); snapshot && (err != nil || string(after) != string(before)) {
				t.Errorf("%s: the row of a snapshot changes: %v", what, err)
			}
			return nil
		})
		if err != nil || calls != maxOptimisticReads+1 {
			t.Errorf("%s: %d calls, %v", what, calls, err)
		}
	}
	bad := errors.New("bad")
	if err := n.ReadSnapshot(ctx, n.StoreHosts(), func(*Snapshot) error { return bad }); err != bad {
		t.Errorf("an error of the reader: %v", err)
	}
}

// A clock that never shows the same time twice keeps no snapshot from being taken.
func TestAViewIsTakenWhileTimeRunsOn(t *testing.T) {
	o := smallOptions(1)
	o.Groups = 3
	wall := int64(1 << 40)
	var mu sync.Mutex
	o.Wall = func() int64 {
		mu.Lock()
		defer mu.Unlock()
		wall++
		return wall
	}
	n := mustOpen(t, o)
	defer n.Close(ctx)
	k, err := n.Keyspace(DefaultKeyspace)
	if err != nil {
		t.Fatal(err)
	}
	key := k.AppendPosition(nil, []byte("k"))
	mustSet(t, n.GroupHostAt(key), key)
	v, err := n.Snapshot(ctx, n.StoreHosts()...)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if _, ok, err := v.Get(effect.Rows.AppendKey(nil, key), nil); err != nil || !ok {
		t.Errorf("the row is missing: %v", err)
	}
	if now, err := v.NowMS(key); err != nil || now > n.GroupHostAt(key).Group.NowMS() {
		t.Errorf("it is of %d, %v", now, err)
	}
}

// A job that hands a range over needs the groups, and many readers may wait for it: they look
// when it is done, and not again and again until then.
func TestNobodyLooksAtStoresBetweenWhichARangeIsHandedOver(t *testing.T) {
	var looks atomic.Int64 // a look reads the clocks of all groups
	o := smallOptions(2)
	o.Wall = func() int64 {
		looks.Add(1)
		return 1 << 40
	}
	n := mustOpen(t, o)
	defer n.Close(ctx)
	end := n.handovers.begin()
	before := looks.Load()
	views := make(chan error, 8)
	for range cap(views) {
		go func() {
			v, err := n.Snapshot(ctx, n.StoreHosts()...)
			if err == nil {
				v.Close()
			}
			views <- err
		}()
	}
	time.Sleep(maxHandoverWait / 2)
	if looked := looks.Load() - before; looked > 100 || len(views) > 0 {
		t.Errorf("while a range is handed over clocks were read %d times, and there were %d views", looked, len(views))
	}
	end()
	for range cap(views) {
		if err := <-views; err != nil {
			t.Error(err)
		}
	}
}

// checkWhole fails if a view of all stores has a position that no group serves.
func checkWhole(t *testing.T, n *Node) {
	t.Helper()
	v, err := n.Snapshot(ctx, n.StoreHosts()...)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if err := v.CheckServed(partition.Whole); err != nil {
		t.Fatal(err)
	}
}

// A batch that takes a range from one group and gives it to another shows two lists,
// one after the other. No view falls between them.
func TestAViewIsWholeWhileARangeChangesGroups(t *testing.T) {
	o := smallOptions(1)
	o.Groups = 2
	n := mustOpen(t, o)
	defer n.Close(ctx)
	k, err := n.Keyspace(DefaultKeyspace)
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
		checkWhole(t, n)
		select {
		case <-done:
			return
		default:
		}
	}
}

// Between two stores no group serves a range for a moment, and if a crash comes then, until the
// job goes on: a reader waits for that.
func TestAViewIsWholeAfterACrashInAHandover(t *testing.T) {
	for range 10 {
		o := durableOptions(2)
		var n *Node
		at := make(chan struct{}, 1)
		o.OnJob = func(j mover.Job) {
			if j.Phase == mover.Activating {
				n.stop() // the source has given it up, and no driver goes on
				at <- struct{}{}
			}
		}
		n = mustOpen(t, o)
		k, err := n.Keyspace(DefaultKeyspace)
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
		n = mustOpen(t, o)
		for range 20 {
			checkWhole(t, n)
		}
		if err := n.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// A Regroup may remove all groups of a store. A caller may still have the store by then.
func TestAStoreWithoutGroupsIsLookedAt(t *testing.T) {
	n := mustOpen(t, smallOptions(2))
	defer n.Close(ctx)
	h := n.StoreHosts()[1]
	for _, p := range h.GroupHosts() {
		n.removeGroups([]partition.GroupID{p.ID})
	}
	v, err := n.Snapshot(ctx, h)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if ms := v.LatestMS(); ms != 0 || v.CheckServed(partition.Whole) == nil {
		t.Errorf("nobody serves anything, at %d: %v", ms, v.CheckServed(partition.Whole))
	}
	if still, err := n.takeSnapshotWhilePaused(ctx, []*StoreHost{h}); err != nil {
		t.Error(err)
	} else {
		still.Close()
	}
}

// A snapshot while groups stand still is of those groups. A group that was opened since does not
// stand still: whether its clock, its table and its locks stay is not asked.
func TestALookIsOfGroupsThatStandStill(t *testing.T) {
	o := smallOptions(1)
	o.Groups = 2
	n := mustOpen(t, o)
	defer n.Close(ctx)
	held := n.StoreHosts()[0].listGroups()
	busy, goOn := make(chan struct{}), make(chan struct{})
	go func() { _ = group.RunBetweenBatches(ctx, held[:1], func() { close(busy); <-goOn }) }()
	<-busy
	looked := make(chan *Snapshot, 1)
	waits := make(chan struct{})
	go func() {
		v, err := n.takeSnapshotWhilePaused(caller.WithOnWait(ctx, sync.OnceFunc(func() { close(waits) })), n.StoreHosts())
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
	if known := len(v.stores[0].groups.states); known != len(held) {
		t.Errorf("%d groups stand still, and the view goes by what %d knew", len(held), known)
	}
}

// A transaction has written two keys on two stores. It is committed, and not resolved yet. A
// view sees both as it leaves them, also the one that a scan of the view has ended with.
func TestAKeyThatEndsAScanIsReadThroughItsLock(t *testing.T) {
	n := mustOpen(t, smallOptions(2))
	defer n.Close(ctx)
	a, b := keyOnStore(n, n.StoreHosts()[0], 0), keyOnStore(n, n.StoreHosts()[1], 0)
	decider, owner := n.GroupHostAt(a), n.GroupHostAt(b)
	mustTryCommand(t, owner.Group, &command.Set{Key: b, Value: []byte("old")})
	id, deadline := n.newTxnID(), n.computeDeadlineMS()
	part := func(p partition.Position) txn.Participant {
		return txn.Participant{Span: n.Map().Find(p).Span, Writes: []command.Command{&command.Set{Key: p, Value: []byte("new")}}}
	}
	mustTryCommand(t, owner.Group, &txn.Prepare{ID: id, Participant: part(b), CoordinatorGroup: decider.ID, DeadlineMS: deadline})
	mustTryCommand(t, decider.Group, &txn.Decide{
		ID: id, Commit: true, Participant: part(a), CoordinatorGroup: decider.ID, DeadlineMS: deadline,
		OtherSpans: []partition.Span{part(b).Span},
	})
	v, err := n.Snapshot(ctx, n.StoreHosts()...)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	check := func(how string, key, value []byte) {
		t.Helper()
		row, err := command.DecodeRow(value)
		if err != nil || string(row.Payload) != "new" {
			t.Errorf("%s says that %x is %q, %v", how, key, row.Payload, err)
		}
	}
	from, to := effect.Rows.SpanBetween(part(b).Span.Start, command.NextPosition(b))
	scanned := 0
	err = v.Scan(from, to, false, func(key, value []byte) bool {
		scanned++
		check("the scan", key, value)
		return true
	})
	if err != nil || scanned != 1 {
		t.Fatalf("%d rows, %v", scanned, err)
	}
	for _, p := range []partition.Position{b, a} {
		key := effect.Rows.AppendKey(nil, p)
		value, _, err := v.Get(key, nil)
		if err != nil {
			t.Fatal(err)
		}
		check("then Get", key, value)
	}
}
