package group

import (
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/txn"
)

func TestAKeyThatWasLockedInASnapshotIsNamed(t *testing.T) {
	d := newDisk(true)
	g := open(t, d, Options{ID: 1, Wall: func() int64 { return 1000 }})
	r := serving("a", "m", 1)
	reown(t, g, own.Range{}, r)
	span := between("a", "m")
	id := byte(0)
	lock := func(g *Group) error {
		id++
		return try(g, &txn.Prepare{
			ID: txn.ID{id}, Decider: 9, DeadlineMS: 5000,
			Part: txn.Part{Span: span, Writes: []command.Command{set("b", "1")}},
		})
	}
	unlock := func(g *Group) error { return try(g, &txn.Resolve{ID: txn.ID{id}, Span: span, DeadlineMS: 5000}) }
	may := func(g *Group, epoch uint64, want bool, when string) {
		t.Helper()
		if got := g.MayLock(at("b"), epoch); got != want {
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
	g = open(t, d, Options{ID: 1, Wall: func() int64 { return 1000 }})
	may(g, g.LockEpoch()+1, true, "after a restart")
	other := open(t, d, Options{ID: 2, Wall: func() int64 { return 1000 }})
	gone, come := r, r
	gone.State, gone.Version, come.Version = own.Foreign, 2, 2
	epoch := g.LockEpoch()
	reown(t, g, r, gone)
	reown(t, other, own.Range{}, come)
	may(g, epoch, true, "it has gone since")
	may(other, other.LockEpoch()+1, true, "it has come")
}
