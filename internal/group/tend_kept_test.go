package group

import (
	"context"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// tended is a group whose clock and housekeeping a test drives.
type tended struct {
	*Group
	t    *testing.T
	disk *disk
	wall wallClock
}

func newTended(t *testing.T, id partition.GroupID) *tended {
	w := &tended{t: t, disk: newDisk(true)}
	w.wall.ms.Store(1_000_000)
	w.Group = open(t, w.disk, Options{ID: id, Wall: w.wall.read})
	w.tend()
	return w
}

func (w *tended) tend() {
	for range 5 {
		if _, err := w.Tend(context.Background()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// hour lets an hour pass.
func (w *tended) hour() {
	for range 180 {
		w.wall.ms.Add(20_000)
		w.tend()
	}
}

// digest is that of what a range holds.
func (w *tended) digest(from, to string) command.RangeRead {
	d, err := command.DigestRange(w.disk, at(from), at(to), command.AliveAt(w.NowMS()))
	if err != nil {
		w.t.Fatal(err)
	}
	return command.RangeRead{Start: at(from), End: at(to), Digest: d}
}

// A transaction keeps alive what it has read. When it has ended, what expired meanwhile goes.
func TestAKeyThatExpiresUnderALockIsReapedWhenThatIsGone(t *testing.T) {
	for how, part := range map[string]func(w *tended, version uint64) txn.Part{
		"a write": func(*tended, uint64) txn.Part {
			return txn.Part{Writes: []command.Command{&command.Persist{Key: at("a")}}}
		},
		"a read": func(_ *tended, version uint64) txn.Part {
			return txn.Part{Reads: []command.Read{{Key: at("a"), Version: version}}}
		},
		"a range": func(w *tended, _ uint64) txn.Part {
			return txn.Part{Ranges: []command.RangeRead{w.digest("a", "b")}}
		},
	} {
		w := newTended(t, 0)
		version := do(t, w.Group, &command.Set{Key: at("a"), Value: []byte("v"), Expiry: command.In(100)}).Version
		id, deadline := txn.ID{1}, w.NowMS()+5000
		p := part(w, version)
		p.Span = partition.Whole
		do(t, w.Group, &txn.Prepare{ID: id, Decider: 2, DeadlineMS: deadline, Part: p})
		w.wall.ms.Add(200)
		w.tend()
		if n := w.disk.count(effect.Rows); n != 1 {
			t.Errorf("%s: %d rows under the lock", how, n)
		}
		do(t, w.Group, &txn.Resolve{ID: id, Span: p.Span, DeadlineMS: deadline}) // aborted
		w.hour()
		if rows, expiries := w.disk.count(effect.Rows), w.disk.count(effect.Expiry); rows+expiries > 0 {
			t.Errorf("%s: %d rows and %d expiries are left", how, rows, expiries)
		}
	}
}

// A range that is frozen when housekeeping comes, and thawed then, is kept house for again.
func TestWhatWasFrozenIsTendedWhenItIsThawed(t *testing.T) {
	w := newTended(t, 1)
	serves := serving("a", "m", 1)
	reown(t, w.Group, own.Range{}, serves)
	do(t, w.Group, &command.Set{Key: at("k"), Value: []byte("v"), Expiry: command.In(10_000)})
	do(t, w.Group, &command.HSet{Key: at("h"), Fields: []command.FieldValue{{Field: []byte("f"), Value: []byte("v")}}})
	do(t, w.Group, &command.Delete{Keys: []partition.Position{at("h")}}) // leaves an orphan
	frozen := serves
	frozen.State = own.Frozen
	reown(t, w.Group, serves, frozen)
	reown(t, w.Group, own.Range{}, serving("n", "p", 1)) // another comes: the queue is filled
	w.tend()
	reown(t, w.Group, frozen, serves)
	w.hour()
	for _, table := range []effect.Table{effect.Rows, effect.Expiry, effect.Orphans} {
		if n := w.disk.count(table); n > 0 {
			t.Errorf("%d rows are left of table %d", n, table)
		}
	}
}

// One row that is locked keeps no other from being forgotten.
func TestWhatIsNotLockedIsForgotten(t *testing.T) {
	w := newTended(t, 0)
	mark := func(n byte, key string) {
		do(t, w.Group, &txn.Resolve{ID: txn.ID{n}, Span: between(key, ""), DeadlineMS: w.NowMS() + 10})
	}
	for i := range byte(100) {
		mark(10+i, string([]byte{'b', i}))
	}
	mark(200, "x")
	do(t, w.Group, &txn.Prepare{ID: txn.ID{1}, Decider: 2, DeadlineMS: w.NowMS() + 1<<40, Part: txn.Part{
		Span: partition.Whole, Ranges: []command.RangeRead{w.digest("w", "y")},
	}})
	w.hour()
	if n := w.disk.count(effect.Marks); n != 1 {
		t.Errorf("%d marks are left, one is locked", n)
	}
}
