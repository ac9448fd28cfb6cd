package cleave

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/internal/wal"
	"github.com/cleavekv/cleave/partition"
)

// apart are three stores on one disk, which crash together.
func apart(disk *crashDisk) []store.FS {
	return slices.Repeat([]store.FS{disk.FS()}, 3)
}

// At everysec and no a crash may take back what was acknowledged, but not a half of it.
func TestATransactionAcrossStoresIsWholeAfterACrash(t *testing.T) {
	for _, d := range []wal.Durability{wal.EverySec, wal.Never} {
		t.Run(d.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seedOf(t), 3))
			disk := newCrashDisk()
			for round := range soaking(8) {
				db := mustOpen(t, tiny(d, nil, apart(disk)...))
				keys := marks(db)
				if round > 0 {
					alike(t, db, keys)
				}
				var clients sync.WaitGroup
				stop := make(chan struct{})
				for range 2 {
					clients.Go(func() {
						for {
							select {
							case <-stop:
								return
							default:
								must(t, addAll(db, keys))
							}
						}
					})
				}
				time.Sleep(time.Duration(2+rng.IntN(20)) * time.Millisecond)
				next := disk.Crash([]int{0, 0, 50}[round%3], rng)
				close(stop)
				clients.Wait()
				mustClose(t, db)
				disk = next
			}
		})
	}
}

// addAll adds one to each key, together.
func addAll(db *DB, keys [][]byte) error {
	return db.Update(ctx, func(tx *Txn) error {
		for _, key := range keys {
			if _, err := tx.Add(db.Default(), key, 1); err != nil {
				return err
			}
		}
		return nil
	})
}

// alike checks that keys hold the same number, and that nothing is locked.
func alike(t *testing.T, db *DB, keys [][]byte) {
	t.Helper()
	values, err := db.Default().GetMany(ctx, keys...)
	must(t, err)
	for i := range values {
		if string(values[i]) != string(values[0]) {
			t.Fatalf("key %d holds %q, the first %q", i, values[i], values[0])
		}
	}
	unlocked(t, db)
}

// unlocked waits until transactions have come to their end, which they do.
func unlocked(t *testing.T, db *DB) {
	t.Helper()
	for wait := 0; ; wait++ {
		locks := 0
		for _, p := range db.node.Parts() {
			locks += len(p.Group.Locks())
		}
		if locks == 0 && db.Metrics().Transactions.Open == 0 {
			return
		}
		if wait == 5000 {
			t.Fatalf("%d locks are left", locks)
		}
		time.Sleep(time.Millisecond)
	}
}

// Whoever leaves a transaction hears what became of it, or that nobody knows; and it
// is one of the two.
func TestATransactionThatItsCallerLeavesIsWholeOrNothing(t *testing.T) {
	db := small(t, 3)
	ks, keys := db.Default(), marks(db)
	rng := rand.New(rand.NewPCG(seedOf(t), 4))
	least, most := 0, 0
	for range soaking(200) {
		limited, cancel := context.WithCancel(ctx)
		timer := time.AfterFunc(time.Duration(rng.IntN(400))*time.Microsecond, cancel)
		err := db.Update(limited, func(tx *Txn) error {
			for _, key := range keys {
				if _, err := tx.Add(ks, key, 1); err != nil {
					return err
				}
			}
			return nil
		})
		timer.Stop()
		cancel()
		switch {
		case err == nil:
			least, most = least+1, most+1
		case errors.Is(err, ErrUnknown):
			most++
		case !errors.Is(err, context.Canceled):
			t.Fatal(err)
		}
	}
	unlocked(t, db)
	alike(t, db, keys)
	text, err := ks.Get(ctx, keys[0])
	if least == 0 && errors.Is(err, ErrNotFound) {
		return
	}
	must(t, err)
	n, err := strconv.Atoi(string(text))
	must(t, err)
	if n < least || n > most {
		t.Errorf("%d happened, of %d that did and %d that may have", n, least, most)
	}
}

// orphan locks a key for a transaction that nobody leads.
func orphan(t *testing.T, db *DB, key, decider []byte) {
	t.Helper()
	ks := db.Default()
	p := ks.space.AppendPosition(nil, key)
	m := db.node.Map()
	part := db.node.PartOf(p)
	reply, err := part.Group.Do(ctx, group.Request{Command: &txn.Prepare{
		ID: txn.ID{1, 2, 3}, Decider: m.Owner(ks.space.AppendPosition(nil, decider)).Group, DeadlineMS: part.Group.NowMS() + 5000,
		Part: txn.Part{Span: m.Find(p).Span, Writes: []command.Command{&command.Set{Key: p, Value: []byte("orphan")}}},
	}})
	must(t, errors.Join(err, reply.Err))
}

func TestWhatADeadTransactionHasLockedIsFreeAgain(t *testing.T) {
	clock, disk := newClock(), newCrashDisk()
	o := tiny(wal.Always, clock, apart(disk)...)
	db := mustOpen(t, o)
	ks, keys := db.Default(), marks(db)
	must(t, ks.Set(ctx, keys[0], []byte("before")))
	read := func(what string) {
		t.Helper()
		if got, err := ks.Get(ctx, keys[0]); err != nil || string(got) != "before" {
			t.Errorf("%s: the key holds %q, %v", what, got, err)
		}
	}
	orphan(t, db, keys[0], keys[1])
	read("locked")
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	if err := ks.Set(short, keys[0], nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a key was written that a transaction has locked: %v", err)
	}
	cancel()
	clock.pass(6 * time.Second) // its deadline has passed
	must(t, ks.Set(ctx, keys[0], []byte("before")))
	unlocked(t, db)
	// After a restart it is free at once: whoever led it is gone.
	orphan(t, db, keys[0], keys[2])
	mustClose(t, db)
	db = mustOpen(t, o)
	ks = db.Default()
	unlocked(t, db)
	read("opened again")
	must(t, ks.Set(ctx, keys[0], nil))
	mustClose(t, db)
}

// A decision that was made is carried out by whoever opens the store next.
func TestADecisionIsCarriedOutAfterARestart(t *testing.T) {
	disk := newCrashDisk()
	o := tiny(wal.Always, nil, apart(disk)...)
	db := mustOpen(t, o)
	ks, keys := db.Default(), marks(db)
	orphan(t, db, keys[0], keys[1])
	decider := ks.space.AppendPosition(nil, keys[1])
	m := db.node.Map()
	first := m.Find(ks.space.AppendPosition(nil, keys[0])).Span
	part := db.node.PartOf(decider)
	reply, err := part.Group.Do(ctx, group.Request{Command: &txn.Decide{
		ID: txn.ID{1, 2, 3}, Commit: true, Decider: part.ID, DeadlineMS: part.Group.NowMS() + 5000, Others: []partition.Span{first},
		Part: txn.Part{Span: m.Find(decider).Span, Writes: []command.Command{&command.Set{Key: decider, Value: []byte("orphan")}}},
	}})
	must(t, errors.Join(err, reply.Err))
	check := func(what string) {
		t.Helper()
		values, err := ks.GetMany(ctx, keys[0], keys[1])
		must(t, err)
		got, err := ks.Get(ctx, keys[0])
		must(t, err)
		if fmt.Sprintf("%s %s %s", values[0], values[1], got) != "orphan orphan orphan" {
			t.Errorf("%s: %q and %q", what, values, got)
		}
	}
	check("decided")
	mustClose(t, db)
	db = mustOpen(t, o)
	ks = db.Default()
	check("opened again")
	unlocked(t, db)
	check("carried out")
	mustClose(t, db)
}

// Nobody is turned away for ever: after three conflicts a transaction is the next one.
func TestALongTransactionHasItsTurn(t *testing.T) {
	for _, stores := range []int{1, 3} {
		t.Run(fmt.Sprintf("stores=%d", stores), func(t *testing.T) {
			db := small(t, stores)
			ks := db.Default()
			keys := make([][]byte, 12)
			for i := range keys {
				keys[i] = fmt.Append(nil, "key ", i)
			}
			stop := make(chan struct{})
			var writers sync.WaitGroup
			for w := range 3 {
				writers.Go(func() {
					for i := w; ; i++ {
						select {
						case <-stop:
							return
						default:
						}
						if _, err := ks.Add(ctx, keys[i%len(keys)], 1); err != nil {
							t.Error(err)
							return
						}
						must(t, addAll(db, [][]byte{keys[i%len(keys)], keys[(i+5)%len(keys)]}))
					}
				})
			}
			for range 5 {
				attempts := 0
				err := db.Update(ctx, func(tx *Txn) error {
					attempts++
					for _, key := range keys {
						if _, err := tx.Add(ks, key, 1); err != nil {
							return err
						}
						time.Sleep(200 * time.Microsecond)
					}
					return nil
				})
				if err != nil || attempts > patientAttempts+1 {
					t.Errorf("%d attempts: %v", attempts, err)
				}
			}
			close(stop)
			writers.Wait()
			if db.Metrics().Transactions.InTurn == 0 {
				t.Error("nobody had to wait for a turn: this test is about that")
			}
		})
	}
}
