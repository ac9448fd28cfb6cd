package group

import (
	"context"
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/partition"
)

// A range comes to a group, with locks on keys and one on a range. A reader that sees that the
// group serves it sees that a range is locked there: keys of that do not expire.
func TestWhoSeesARangeThatHasComeSeesThatRangesAreLocked(t *testing.T) {
	none, err := ownership.NewTable()
	if err != nil {
		t.Fatal(err)
	}
	g := &guard{ownerSite: ownership.Site{Group: 1, Table: none}, locks: txn.NewLocks(), reservations: new(txn.ReservationQueue), durableTable: none}
	var v publishedGuard
	v.init(g)
	g.beginBatch()
	for i := range 50_000 { // so that it takes a moment to show them
		p := partition.Position(append(binary.BigEndian.AppendUint32([]byte{1, 1}, uint32(i)), 1))
		g.locks.Add(txn.Lock{Txn: txn.ID{1}, Start: p, PrepareMS: 100})
	}
	g.locks.Add(txn.Lock{Txn: txn.ID{2}, Range: true, Start: partition.Position{2, 1}, End: partition.Position{3, 1}, PrepareMS: 100})
	if g.ownerSite.Table, err = ownership.NewTable(ownership.Range{State: ownership.Serving}); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		v.publishGuard(g, true)
	}()
	wrong := 0
	for over := false; !over; runtime.Gosched() {
		select {
		case <-done:
			over = true
		default:
		}
		list, locked := v.table.Load(), v.lockCount.Load() > 0
		if spanned := v.rangeLockCount.Load() > 0; list != none && locked && !spanned {
			wrong++
		}
	}
	if wrong > 0 {
		t.Errorf("%d looks saw the range, that something is locked, and that no range is", wrong)
	}
}

// A reader meets a lock, and asks its coordinator group. Meanwhile the lock is resolved, another
// transaction reads the key, and the key's time is over. That transaction keeps the key alive:
// no reader sees it gone before the transaction is decided.
func TestASlowReaderDoesNotSeeAKeyGoneThatALockKeeps(t *testing.T) {
	wall := int64(1 << 40)
	var meanwhile func()
	decided := func(context.Context, txn.Lock) (txn.Outcome, error) {
		if f := meanwhile; f != nil {
			meanwhile = nil
			f()
		}
		return txn.Committed, nil
	}
	g := openGroup(t, newMemoryDisk(true), Options{ID: 1, Wall: func() int64 { return wall }, LookupOutcome: decided})
	replaceRange(t, g, ownership.Range{}, servingRange("a", "", 1))
	deadline := g.NowMS() + 60_000
	first, second := txn.ID{1}, txn.ID{2}
	mustDo(t, g, &txn.Prepare{
		ID: first, CoordinatorGroup: 2, DeadlineMS: deadline,
		Participant: txn.Participant{Span: spanBetween("a", ""), Writes: []command.Command{&command.Set{Key: positionOf("k"), Value: []byte("v"), Expiry: command.ExpireIn(50)}}},
	})
	meanwhile = func() {
		mustDo(t, g, &txn.Resolve{ID: first, Span: spanBetween("a", ""), Commit: true, DeadlineMS: deadline})
		row, ok, err := g.Read(context.Background(), positionOf("k"), nil)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		mustDo(t, g, &txn.Prepare{
			ID: second, CoordinatorGroup: 2, DeadlineMS: deadline,
			Participant: txn.Participant{Span: spanBetween("a", ""), Reads: []command.Read{{Key: positionOf("k"), Version: row.Version}}},
		})
		wall += 100
		mustDo(t, g, newSet("other", "1")) // time goes on
	}
	_, slow, err := g.Read(context.Background(), positionOf("k"), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, next, err := g.Read(context.Background(), positionOf("k"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slow && next {
		t.Errorf("a reader sees the key gone, and the next one sees it again")
	}
}

func TestAKeyThatWasLockedInASnapshotIsNamed(t *testing.T) {
	d := newMemoryDisk(true)
	g := openGroup(t, d, Options{ID: 1, Wall: func() int64 { return 1000 }})
	r := servingRange("a", "m", 1)
	replaceRange(t, g, ownership.Range{}, r)
	span := spanBetween("a", "m")
	id := byte(0)
	lock := func(g *Group) error {
		id++
		return tryCommand(g, &txn.Prepare{
			ID: txn.ID{id}, CoordinatorGroup: 9, DeadlineMS: 5000,
			Participant: txn.Participant{Span: span, Writes: []command.Command{newSet("b", "1")}},
		})
	}
	unlock := func(g *Group) error { return tryCommand(g, &txn.Resolve{ID: txn.ID{id}, Span: span, DeadlineMS: 5000}) }
	may := func(g *Group, epoch uint64, want bool, when string) {
		t.Helper()
		if got := g.MayHaveLock(positionOf("b"), epoch); got != want {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	may(g, g.LockEpoch(), false, "nobody has ever locked anything")
	// In each turn a snapshot is taken before, while and after the lock is there.
	for range 3 {
		if err := lock(g); err != nil { // the epochs of what was before are over
			t.Fatal(err)
		}
		during := g.LockEpoch()
		may(g, during, true, "locked")
		d.before = func() { may(g, during, true, "on its way to be unlocked") }
		if err := unlock(g); err != nil {
			t.Fatal(err)
		}
		may(g, during, true, "unlocked since")
		d.before = func() { may(g, g.LockEpoch(), true, "on its way to be locked") }
		if err := lock(g); err != nil {
			t.Fatal(err)
		}
		d.before = nil
		if err := unlock(g); err != nil {
			t.Fatal(err)
		}
	}
	d.refuse = errFull
	if err := lock(g); err == nil {
		t.Fatal("a full disk has taken it")
	}
	d.refuse = nil
	before := g.LockEpoch()
	may(g, before, false, "refused, and nobody has locked anything since")
	if err := lock(g); err != nil {
		t.Fatal(err)
	}
	may(g, before, true, "locked again")

	// A lock that is found, or comes with a range, is one too.
	g = openGroup(t, d, Options{ID: 1, Wall: func() int64 { return 1000 }})
	may(g, g.LockEpoch()+1, true, "after a restart")
	other := openGroup(t, d, Options{ID: 2, Wall: func() int64 { return 1000 }})
	gone, come := r, r
	gone.State, gone.Version, come.Version = ownership.Foreign, 2, 2
	epoch := g.LockEpoch()
	replaceRange(t, g, r, gone)
	replaceRange(t, other, ownership.Range{}, come)
	may(g, epoch, true, "it has gone since")
	may(other, other.LockEpoch()+1, true, "it has come")
}
