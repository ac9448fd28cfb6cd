package cleave

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/storage/wal"
)

// A store whose clock is far from the machine's takes the ids that it made.
func TestARequestIDIsOfTheStoresClock(t *testing.T) {
	now := time.Date(1999, 12, 31, 23, 59, 0, 0, time.UTC)
	db, err := OpenMemory(Options{Now: func() time.Time { return now }})
	must(t, err)
	defer db.Close()
	ids := map[RequestID]bool{}
	for range 3 {
		id := db.NewRequestID()
		if !id.Time().Equal(now) {
			t.Errorf("it is of %v", id.Time())
		}
		for range 2 {
			if sum, err := db.Default().AddOnce(ctx, id, []byte("n"), 1); err != nil || sum != int64(len(ids)+1) {
				t.Errorf("%d, %v", sum, err)
			}
		}
		ids[id] = true
	}
	if len(ids) != 3 {
		t.Errorf("%d ids are different, want 3", len(ids))
	}
}

// The machine's clock was wrong, and is put right: the store's waits for it.
func TestARequestIDIsTakenAfterTheClockWasSetBack(t *testing.T) {
	clock := newClock()
	o := memoryOptions(2)
	o.Wall = clock.ms.Load
	db := mustOpen(t, o)
	defer mustClose(t, db)
	for store := range 2 {
		must(t, db.Default().Set(ctx, keyOn(db, store), nil))
	}
	clock.advance(-24 * time.Hour)
	for i := range 8 {
		_, err := db.Default().AddOnce(ctx, db.NewRequestID(), numberKey(i), 1)
		must(t, err)
	}
}

// The clock of a group that was busy before a crash is ahead of the machine's, and of that of one that
// was not, by what it had reserved. If the machine's was set back meanwhile it is farther ahead.
func TestARequestIDIsTakenByAllGroupsWhoseClocksAreNotFarApart(t *testing.T) {
	for _, c := range []struct{ remember, setBack time.Duration }{
		{time.Second, 0}, {3 * time.Second, 0}, {0, 0}, {0, 9 * time.Minute}, {time.Hour, 59 * time.Minute},
	} {
		clock, disks := newClock(), newCrashables(2)
		reopen := func() *DB {
			o := disks.options(wal.Always)
			o.Wall, o.Remember, o.HousekeepInterval = clock.ms.Load, c.remember, -1
			return mustOpen(t, o)
		}
		db := reopen()
		clock.advance(2 * time.Hour)
		_, err := db.Default().Add(ctx, keyOn(db, 1), 1)
		must(t, err)
		disks = disks.crash()
		mustClose(t, db)
		clock.advance(-c.setBack)
		db = reopen()
		for store := range 2 {
			if _, err := db.Default().AddOnce(ctx, db.NewRequestID(), keyOn(db, store), 1); err != nil {
				t.Errorf("Remember is %v, the clock set back by %v: %v", c.remember, c.setBack, err)
			}
		}
		mustClose(t, db)
	}
}

// A conditional add that was refused stays so for its request, whatever comes after.
func TestARefusedAddIsRemembered(t *testing.T) {
	db, err := OpenMemory(Options{})
	must(t, err)
	defer db.Close()
	ks, id := db.Default(), db.NewRequestID()
	add := func(o AddOptions) (int64, error) { return ks.AddWith(ctx, []byte("n"), 5, o) }
	if _, err := add(AddOptions{IfPresent: true, Request: id}); !errors.Is(err, ErrNotStored) {
		t.Fatalf("an add to what is absent: %v", err)
	}
	if n, err := add(AddOptions{}); n != 5 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if _, err := add(AddOptions{IfPresent: true, Request: id}); !errors.Is(err, ErrNotStored) {
		t.Fatalf("its retry: %v", err)
	}
	other := db.NewRequestID()
	for range 2 {
		if n, err := add(AddOptions{IfPresent: true, Request: other}); n != 10 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	b := &Batch{}
	b.AddWith(ks, []byte("n"), 1, AddOptions{Request: other})
	if err := b.Err(); !errors.Is(err, ErrOptions) {
		t.Fatalf("a write of a batch with a request of its own: %v", err)
	}
	err = db.Update(ctx, func(tx *Txn) error {
		_, err := tx.AddWith(ks, []byte("n"), 1, AddOptions{Request: other})
		return err
	})
	if !errors.Is(err, ErrOptions) {
		t.Fatalf("a write of a transaction with a request: %v", err)
	}
}

// createSteppedIndex makes an index of the default keyspace whose function takes the next of the
// steps whenever a row is evaluated, but not while a step does.
func createSteppedIndex(t *testing.T, db *DB) (steps *[]func()) {
	steps = new([]func())
	mustIndex(t, db, IndexOptions{Name: "steps", Function: "steps", Extract: func(IndexRow) ([]IndexEntry, error) {
		if next := *steps; len(next) > 0 {
			*steps = nil
			next[0]()
			*steps = next[1:]
		}
		return nil, nil
	}})
	return steps
}

// A request that is sent again while the first is under way gets the answer of the
// first, also if its condition does not hold any more because of that.
func TestARetryMeanwhileGetsTheAnswerOfTheFirst(t *testing.T) {
	for _, stores := range []int{1, 3} {
		db := openSmall(t, stores)
		ks, steps := db.Default(), createSteppedIndex(t, db)
		old, err := ks.SetWith(ctx, []byte("k"), []byte("old"), SetOptions{})
		must(t, err)
		id, batch := db.NewRequestID(), db.NewRequestID()
		for what, send := range map[string]func(context.Context) (uint64, error){
			"SetWith": func(c context.Context) (uint64, error) {
				return ks.SetWith(c, []byte("k"), []byte("new"), SetOptions{IfVersion: true, Version: old, Request: id})
			},
			"Write": func(c context.Context) (uint64, error) {
				b := &Batch{Request: batch}
				b.SetWith(ks, []byte("a"), []byte("new"), SetOptions{IfAbsent: true})
				b.SetWith(ks, []byte("b"), []byte("new"), SetOptions{IfAbsent: true})
				return 0, db.Write(c, b)
			},
		} {
			var first uint64
			*steps = []func(){func() {
				first, err = send(ctx)
				must(t, err)
			}}
			if again, err := send(ctx); err != nil || again != first || len(*steps) > 0 {
				t.Errorf("%s on %d stores: the first is told %d, and its retry %d, %v", what, stores, first, again, err)
			}
		}
	}
}

// Without a record to be found nothing was stored; a caller that has left cannot look for one, and
// so does not get that error.
func TestARetryThatCannotLookDoesNotSayThatNothingWasStored(t *testing.T) {
	db := openSmall(t, 1)
	ks, steps := db.Default(), createSteppedIndex(t, db)
	write := func(c context.Context, id RequestID) error {
		b := &Batch{Request: id}
		b.SetWith(ks, []byte("a"), nil, SetOptions{IfAbsent: true})
		return db.Write(c, b)
	}
	old, err := ks.SetWith(ctx, []byte("k"), []byte("old"), SetOptions{})
	must(t, err)
	set := func(c context.Context, id RequestID) error {
		return secondError(ks.SetWith(c, []byte("k"), nil, SetOptions{IfVersion: true, Version: old, Request: id}))
	}
	for what, send := range map[string]func(context.Context, RequestID) error{"SetWith": set, "Write": write} {
		id := db.NewRequestID()
		leaving, cancel := context.WithCancel(ctx)
		*steps = []func(){func() { must(t, send(ctx, id)) }}
		if what == "SetWith" { // which looks at the row before it was changed too
			*steps = append(*steps, func() {})
		}
		*steps = append(*steps, cancel)
		if err := send(leaving, id); !errors.Is(err, context.Canceled) || errors.Is(err, ErrConflict) || errors.Is(err, ErrNotStored) {
			t.Errorf("%s of who leaves: %v", what, err)
		}
		must(t, send(ctx, id))
		if err := send(ctx, db.NewRequestID()); !errors.Is(err, ErrConflict) && !errors.Is(err, ErrNotStored) {
			t.Errorf("%s of another request: %v", what, err)
		}
	}
}
