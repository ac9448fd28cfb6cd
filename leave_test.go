package cleave

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/caller"
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/txn"
)

// Whoever recovers from a panic in a loop, or ends a goroutine in one, must be
// able to go on: the store holds nothing for a loop that is no more.
func TestALoopThatPanicsLeavesNothingBehind(t *testing.T) {
	ctx := context.Background()
	loops := map[string]func(db *DB, leave func()){
		"All": func(db *DB, leave func()) {
			for range db.Default().All(ctx, ScanOptions{}) {
				leave()
			}
		},
		"View": func(db *DB, leave func()) {
			_ = db.View(ctx, func(tx *Txn) error {
				for range tx.Scan(db.Default(), ScanOptions{}) {
					leave()
				}
				return nil
			})
		},
		"Update": func(db *DB, leave func()) {
			_ = db.Update(ctx, func(tx *Txn) error {
				for range tx.Scan(db.Default(), ScanOptions{}) {
					leave()
				}
				return nil
			})
		},
	}
	ways := map[string]func(){"panic": func() { panic("of the loop") }, "Goexit": runtime.Goexit}
	for name, loop := range loops {
		for way, leave := range ways {
			t.Run(name+"/"+way, func(t *testing.T) {
				db, err := OpenMemory(Options{})
				if err != nil {
					t.Fatal(err)
				}
				for i := range 3 {
					if err := db.Default().Set(ctx, fmt.Append(nil, i), nil); err != nil {
						t.Fatal(err)
					}
				}
				left := make(chan struct{})
				go func() {
					defer close(left)
					defer func() { _ = recover() }()
					loop(db, leave)
				}()
				<-left
				if err := db.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
		}
	}
}

func TestNowOfAClosedStoreIsItsEnd(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	dir := t.TempDir()
	db, err := Open(dir, Options{Stores: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		if err := db.Default().Set(ctx, fmt.Append(nil, "before", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	end := db.Now()
	if db, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Default().Set(ctx, []byte("after"), nil); err != nil {
		t.Fatal(err)
	}
	for c, err := range db.Feed(ctx, end) {
		if err != nil {
			t.Fatal(err)
		}
		if got := string(c.Ops[0].Key); got != "after" {
			t.Errorf("the feed goes on with %q, want what came after Close", got)
		}
		break
	}
}

// A transaction that is acknowledged is found: not so if its keyspace was
// dropped while its function ran.
func TestUpdateOfAKeyspaceThatWasDroppedMeanwhileIsRefused(t *testing.T) {
	ctx := context.Background()
	db, err := OpenMemory(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ks, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "short-lived"})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(ctx, func(tx *Txn) error {
		return errors.Join(tx.Set(ks, []byte("key"), nil), db.DropKeyspace(ctx, "short-lived"))
	})
	if !errors.Is(err, ErrNoKeyspace) {
		t.Errorf("Update: %v, want ErrNoKeyspace", err)
	}
}

// However a write gets to a keyspace while that is dropped: nothing stays behind.
func TestADropUnderLoadLeavesNoRows(t *testing.T) {
	o := memory(2)
	o.TendEvery = time.Millisecond
	db := mustOpen(t, o)
	defer db.Close()
	for round := range soaking(8) {
		ks, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "short-lived"})
		must(t, err)
		key := func(rng *rand.Rand) []byte { return number(rng.IntN(50)) }
		crowd(4, func(i int, rng *rand.Rand) {
			for n := 0; ; n++ {
				var err error
				switch {
				case i == 0 && n == 30:
					err = db.DropKeyspace(ctx, "short-lived")
				case i == 1:
					var b Batch
					b.HSet(ks, key(rng), Field{Value: []byte("v")})
					err = db.Write(ctx, &b)
				case i == 2:
					err = db.Update(ctx, func(tx *Txn) error { return tx.SetWith(ks, key(rng), nil, SetOptions{TTL: time.Hour}) })
				default:
					_, err = ks.AddOnce(ctx, db.NewRequestID(), key(rng), 1)
				}
				if errors.Is(err, ErrNoKeyspace) {
					return
				}
				if err != nil && !errors.Is(err, ErrWrongType) && !errors.Is(err, ErrNotInteger) {
					t.Error(err)
					return
				}
			}
		})
		for deadline := time.Now().Add(20 * time.Second); rowsOf(t, ks) > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("round %d: %d rows are never removed", round, rowsOf(t, ks))
			}
		}
	}
}

// rowsOf counts what the stores have of a keyspace, in whatever table.
func rowsOf(t *testing.T, ks *Keyspace) (rows int) {
	span := ks.space.Span()
	for _, p := range ks.db.node.Parts() {
		for _, table := range []effect.Table{effect.Rows, effect.Dedup, effect.Expiry, effect.Orphans} {
			must(t, p.Store.Scan(table.AppendKey(nil, span.Start), table.AppendKey(nil, span.End), false, func(_, _ []byte) bool { rows++; return true }))
		}
	}
	return rows
}

// A condition that can never hold ends the transaction, it does not repeat it.
func TestAVersionThatWasNeverGivenOutIsAConflictAtOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	db, err := OpenMemory(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, version := range []uint64{1, 1<<62 - 1, 1 << 62, 1<<62 + 1, 1<<64 - 1} {
		runs := 0
		err := db.Update(ctx, func(tx *Txn) error {
			runs++
			if err := tx.Set(db.Default(), []byte("key"), nil); err != nil {
				return err
			}
			if runs > 3 {
				return errors.New("it runs again and again")
			}
			return tx.SetWith(db.Default(), []byte("key"), nil, SetOptions{IfVersion: true, Version: version})
		})
		if !errors.Is(err, ErrConflict) || runs != 1 {
			t.Errorf("version %d: Update: %v after %d runs, want ErrConflict after 1", version, err, runs)
		}
	}
}

func TestABackupToAPlaceThatIsTakenIsRefusedByName(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	db, err := Open(filepath.Join(dir, "db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for to, want := range map[string]error{"": ErrOptions, dir: ErrForeign, filepath.Join(dir, "db"): ErrForeign, file: ErrForeign} {
		if err := db.Backup(ctx, to); !errors.Is(err, want) {
			t.Errorf("Backup to %q: %v, want %v", to, err, want)
		}
	}
}

// Whoever does not wait until all writes know of an index has made it all the same.
func TestWhoLeavesBeforeAllKnowOfAnIndexIsInDoubt(t *testing.T) {
	db := small(t, 1)
	ks := db.Default()
	there := func() bool { _, err := db.Index(ks.Name(), "x"); return err == nil }
	_, err := db.CreateIndex(caller.LeavesWhen(ctx, there), IndexOptions{Name: "x", Keyspace: ks, Columns: "a"})
	if !there() || !errors.Is(err, ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("it is there: %v; the error is %v", there(), err)
	}
}

// Whoever leaves while nothing but reading was done is in no doubt; and what was read with
// is the caller's again, the race detector looks on.
func TestWhoLeavesAReadIsInNoDoubt(t *testing.T) {
	db := small(t, 1)
	ks, part := db.Default(), db.node.Parts()[0]
	_, err := ks.HSet(ctx, []byte("h"), Field{[]byte("f"), []byte("v")})
	must(t, err)
	// Something else is locked, so those who read past the queue have to look twice.
	p := ks.space.AppendPosition(nil, []byte("other"))
	reply, err := part.Group.Try(ctx, group.Request{Command: &txn.Prepare{
		ID: txn.ID{1}, Decider: 1, DeadlineMS: part.Group.NowMS() + 60_000,
		Part: txn.Part{Span: db.node.Map().Find(p).Span, Writes: []command.Command{&command.Set{Key: p}}},
	}})
	must(t, errors.Join(err, reply.Err))
	release, name := blockGroup(t, part), []byte("f")
	for what, read := range map[string]func(ctx context.Context) error{
		"HGet": func(ctx context.Context) error { _, err := ks.HGet(ctx, []byte("h"), name); return err },
		"HLen": func(ctx context.Context) error { _, err := ks.HLen(ctx, []byte("h")); return err },
		"Jobs": func(ctx context.Context) error { _, err := db.Jobs(ctx); return err },
		"a split": func(ctx context.Context) error {
			_, err := db.Start(ctx, Split{Keyspace: ks, Slots: []int{7}})
			return err
		},
		"a regroup": func(ctx context.Context) error { _, err := db.Start(ctx, Regroup{Groups: 2}); return err },
		"CreateKeyspace": func(ctx context.Context) error {
			_, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "new"})
			return err
		},
	} {
		soon, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		if err := read(soon); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v", what, err)
		}
		cancel()
	}
	release()
	name[0] = 'x'
}
