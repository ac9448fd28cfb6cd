package cleave

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/internal/testkit/caller"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// waitGoroutines waits until no more goroutines run than before.
func waitGoroutines(t *testing.T, before int) {
	t.Helper()
	if !eventually.Within(hangTimeout(), func() bool { return runtime.NumGoroutine() <= before }) {
		stacks := make([]byte, 1<<20)
		t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
	}
}

func TestNothingIsLeftRunning(t *testing.T) {
	// The first caller starts what stays for the whole process.
	mustClose(t, mustOpen(t, memoryOptions(1)))
	before := runtime.NumGoroutine()
	dir := filepath.Join(t.TempDir(), "db")
	for range 3 {
		db := onDisk(t, dir, 3)
		writeRandom(t, db, rand.New(rand.NewPCG(1, 1)), 50)
		_, _ = Open(dir, Options{})
		mustClose(t, db)
		if err := db.Close(); err != ErrClosed {
			t.Errorf("the second Close: %v", err)
		}
		waitGoroutines(t, before)
	}
	// What fails to open leaves nothing either.
	foreign := filepath.Join(dir, "0")
	if _, err := Open(foreign, Options{}); err == nil {
		t.Error("a store's own directory was opened as a DB")
	}
	waitGoroutines(t, before)
	failing := tinyOptions(wal.Always, nil, store.NewMemFS(), store.NewMemFS())
	failing.Queue = -1 // the first part's store opens, its group does not
	if _, err := openNode(failing); !errors.Is(err, ErrOptions) || strings.Contains(err.Error(), "context") {
		t.Errorf("bad options of a group: %v", err)
	}
	waitGoroutines(t, before)
}

func TestAClosedDBRefuses(t *testing.T) {
	db := openSmall(t, 1)
	ks := db.Default()
	key := []byte("a")
	must(t, ks.Set(ctx, key, nil))
	mustIndex(t, db, IndexOptions{Name: "a", Columns: "a"})
	mustClose(t, db)
	for what, err := range map[string]error{
		"Get": secondError(ks.Get(ctx, key)), "Item": secondError(ks.Item(ctx, key)), "Set": ks.Set(ctx, key, nil),
		"SetWith": secondError(ks.SetWith(ctx, key, nil, SetOptions{})), "Delete": secondError(ks.Delete(ctx, key)),
		"Add": secondError(ks.Add(ctx, key, 1)), "Expire": secondError(ks.Expire(ctx, key, time.Second)),
		"Persist": secondError(ks.Persist(ctx, key)), "HSet": secondError(ks.HSet(ctx, key, Field{})),
		"HGet": secondError(ks.HGet(ctx, key, nil)), "HDel": secondError(ks.HDel(ctx, key, nil)),
		"HAdd": secondError(ks.HAdd(ctx, key, nil, 1)), "HGetAll": secondError(ks.HGetAll(ctx, key)),
		"HLen": secondError(ks.HLen(ctx, key)), "GetMany": secondError(ks.GetMany(ctx, key)),
		"Exists": secondError(ks.Exists(ctx, key)), "HScanPage": thirdError(ks.HScanPage(ctx, key, nil, 0)), "ScanPage": secondError(ks.ScanPage(ctx, ScanOptions{})),
		"OpenKeyspace":   secondError(db.OpenKeyspace(ctx, KeyspaceOptions{Name: "default"})),
		"OpenIndex":      secondError(db.OpenIndex(ctx, IndexOptions{Name: "a", Keyspace: ks, Columns: "a"})),
		"CreateKeyspace": secondError(db.CreateKeyspace(ctx, KeyspaceOptions{Name: "s"})),
		"Update":         db.Update(ctx, func(tx *Txn) error { return tx.Set(ks, key, nil) }),
		"View":           db.View(ctx, func(tx *Txn) error { return secondError(tx.Get(ks, key)) }),
		"empty Update":   db.Update(ctx, func(*Txn) error { return nil }),
		"empty View":     db.View(ctx, func(*Txn) error { return nil }),
		"Backup":         backupOf(t, db),
	} {
		checkRefused(t, what, err, ErrClosed)
	}
	for _, err := range db.Feed(ctx, FeedOptions{}) {
		checkRefused(t, "Feed", err, ErrClosed)
	}
	_ = db.Metrics()
}

func backupOf(t *testing.T, _ *DB) error {
	db := onDisk(t, t.TempDir(), 1)
	mustClose(t, db)
	return db.Backup(ctx, filepath.Join(t.TempDir(), "backup"))
}

// Close comes in the middle of everything. What was acknowledged is there
// afterwards, and every other call gets ErrClosed.
func TestCloseUnderLoadLosesNothing(t *testing.T) {
	var acknowledged, closed atomic.Int64
	for round := range scaleRounds(4) {
		disk := store.NewMemFS()
		db := mustOpen(t, tinyOptions(wal.EverySec, nil, disk))
		var wg sync.WaitGroup
		var written sync.Map
		for w := range 4 {
			wg.Go(func() {
				for i := 0; ; i++ {
					key := fmt.Sprintf("%d/%d", w, i)
					err := useEverything(db, key)
					if errors.Is(err, ErrClosed) {
						closed.Add(1)
						return
					}
					if err != nil {
						t.Errorf("%s: %v", key, err)
						return
					}
					written.Store(key, true)
					acknowledged.Add(1)
				}
			})
		}
		time.Sleep(time.Duration(5+5*(round%8)) * time.Millisecond)
		mustClose(t, db)
		wg.Wait()
		db = mustOpen(t, tinyOptions(wal.EverySec, nil, disk))
		for key := range written.Range {
			if _, err := db.Default().Get(ctx, []byte(key.(string))); err != nil {
				t.Errorf("%s was acknowledged: %v", key, err)
			}
		}
		mustClose(t, db)
	}
	t.Logf("%d writes acknowledged, %d callers refused", acknowledged.Load(), closed.Load())
}

// useEverything writes a key and reads in every way.
func useEverything(db *DB, key string) error {
	ks := db.Default()
	if err := ks.Set(ctx, []byte(key), []byte("v")); err != nil {
		return err
	}
	// The write counts, whatever becomes of these.
	for _, err := range []error{
		secondError(ks.Get(ctx, []byte(key))), secondError(ks.HLen(ctx, []byte("h"))), secondError(ks.HGetAll(ctx, []byte("h"))),
		secondError(ks.ScanPage(ctx, ScanOptions{Limit: 3})),
		db.Update(ctx, func(tx *Txn) error { return secondError(tx.Add(ks, []byte("n"), 1)) }),
	} {
		if err != nil && !errors.Is(err, ErrClosed) {
			return err
		}
	}
	return nil
}

// blockGroup gives a group a command that waits, so that others queue behind it.
func blockGroup(t *testing.T, p *node.GroupHost) (release func()) {
	inside, goOn := make(chan struct{}), make(chan struct{})
	go func() { _, _ = p.Group.Execute(ctx, group.Request{Command: blockingCommand{inside, goOn}}) }()
	<-inside
	return func() { close(goOn) }
}

type blockingCommand struct{ inside, goOn chan struct{} }

func (b blockingCommand) Eval(*command.Env) command.Reply {
	close(b.inside)
	<-b.goOn
	return command.Reply{Kind: command.OK}
}

// A caller that leaves while its command waits in the queue learns that the outcome is
// unknown, and its bytes are its own again at once.
func TestWhoeverLeavesTheQueueGetsItsBytesBack(t *testing.T) {
	db := openSmall(t, 1)
	ks := db.Default()
	release := blockGroup(t, db.node.StoreHosts()[0].GroupHosts()[0])
	key, value, name := []byte("key"), []byte("value"), []byte("field")
	calls := []func(context.Context) error{
		func(c context.Context) error { return ks.Set(c, key, value) },
		func(c context.Context) error {
			return secondError(ks.SetWith(c, append([]byte("with "), key...), value, SetOptions{}))
		},
		func(c context.Context) error { return secondError(ks.HSet(c, []byte("hash"), Field{name, value})) },
		func(c context.Context) error { return secondError(ks.HAdd(c, []byte("hash2"), name, 5)) },
		func(c context.Context) error {
			return db.Update(c, func(tx *Txn) error { return tx.Set(ks, []byte("tx"), value) })
		},
	}
	ended, cancel := context.WithCancel(ctx)
	errs := make(chan error, len(calls))
	for _, call := range calls {
		go func() { errs <- call(ended) }()
	}
	waitQueued(t, db, len(calls))
	cancel()
	for range calls {
		err := <-errs
		checkRefused(t, "whoever leaves", err, ErrUnknown)
		checkRefused(t, "whoever leaves", err, context.Canceled)
	}
	for _, b := range [][]byte{key, value, name} {
		clear(b) // they are the caller's
	}
	release()
	must(t, ks.Set(ctx, []byte("barrier"), nil))
	for want, got := range map[string]func() ([]byte, error){
		"value": func() ([]byte, error) { return ks.Get(ctx, []byte("key")) },
		"value ": func() ([]byte, error) {
			v, err := ks.Get(ctx, []byte("with key"))
			return append(v, ' '), err
		},
		"value  ": func() ([]byte, error) {
			v, err := ks.HGet(ctx, []byte("hash"), []byte("field"))
			return append(v, "  "...), err
		},
		"5": func() ([]byte, error) { return ks.HGet(ctx, []byte("hash2"), []byte("field")) },
		"value   ": func() ([]byte, error) {
			v, err := ks.Get(ctx, []byte("tx"))
			return append(v, "   "...), err
		},
	} {
		if v, err := got(); err != nil || string(v) != want {
			t.Errorf("%q, %v; want %q", v, err, want)
		}
	}
}

func TestAFullQueueRefusesIfAskedTo(t *testing.T) {
	o := memoryOptions(1)
	o.Queue, o.Refuse, o.HousekeepInterval = 1, true, -1
	db := mustOpen(t, o)
	defer db.Close()
	release := blockGroup(t, db.node.StoreHosts()[0].GroupHosts()[0])
	first := make(chan error, 1)
	go func() { first <- db.Default().Set(ctx, []byte("a"), nil) }()
	waitQueued(t, db, 1)
	checkRefused(t, "the one too many", db.Default().Set(ctx, []byte("b"), nil), ErrOverloaded, "QueueLimit")
	release()
	must(t, <-first)
	if _, err := db.Default().Get(ctx, []byte("b")); !errors.Is(err, ErrNotFound) {
		t.Errorf("what was refused: %v", err)
	}
}

// A caller that recovers from a panic in a loop, or ends a goroutine in one, must be
// able to go on: the store holds nothing for a loop that has ended.
func TestALoopThatPanicsLeavesNothingBehind(t *testing.T) {
	ctx := context.Background()
	loops := map[string]func(db *DB, leave func()){
		"Scan": func(db *DB, leave func()) {
			for range db.Default().Scan(ctx, ScanOptions{}) {
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
	ctx, cancel := context.WithTimeout(context.Background(), hangTimeout())
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
	end := db.Head()
	if db, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Default().Set(ctx, []byte("after"), nil); err != nil {
		t.Fatal(err)
	}
	for c, err := range db.Feed(ctx, FeedOptions{From: end}) {
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
	o := memoryOptions(2)
	o.HousekeepInterval = time.Millisecond
	db := mustOpen(t, o)
	defer db.Close()
	for round := range scaleRounds(8) {
		ks, err := db.CreateKeyspace(ctx, KeyspaceOptions{Name: "short-lived"})
		must(t, err)
		key := func(rng *rand.Rand) []byte { return numberKey(rng.IntN(50)) }
		runParallel(4, func(i int, rng *rand.Rand) {
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
		waitUntil(t, fmt.Sprintf("round %d: no row is left", round), func() bool { return rowsOf(t, ks) == 0 })
	}
}

// rowsOf counts what the stores have of a keyspace, in whatever table.
func rowsOf(t *testing.T, ks *Keyspace) (rows int) {
	span := ks.keyspace.Span()
	for _, p := range ks.db.node.GroupHosts() {
		for _, table := range []effect.Table{effect.Rows, effect.Dedup, effect.Expiry, effect.Orphans} {
			must(t, p.Store.Scan(table.AppendKey(nil, span.Start), table.AppendKey(nil, span.End), false, func(_, _ []byte) bool { rows++; return true }))
		}
	}
	return rows
}

// A condition that can never hold ends the transaction, it does not repeat it.
func TestAVersionThatWasNeverGivenOutIsAConflictAtOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), hangTimeout())
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

// A caller that does not wait until all writes know of an index has made it all the same.
func TestWhoLeavesBeforeAllKnowOfAnIndexIsInDoubt(t *testing.T) {
	db := openSmall(t, 1)
	ks := db.Default()
	there := func() bool { _, err := db.Index(ks.Name(), "x"); return err == nil }
	_, err := db.CreateIndex(caller.WithCancelWhen(ctx, there), IndexOptions{Name: "x", Keyspace: ks, Columns: "a"})
	if !there() || !errors.Is(err, ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("it is there: %v; the error is %v", there(), err)
	}
}

// A caller that leaves while nothing but reading was done is in no doubt; and what was read with
// is the caller's again, as the race detector verifies.
func TestWhoLeavesAReadIsInNoDoubt(t *testing.T) {
	db := openSmall(t, 1)
	ks, part := db.Default(), db.node.GroupHosts()[0]
	_, err := ks.HSet(ctx, []byte("h"), Field{[]byte("f"), []byte("v")})
	must(t, err)
	// Another key is locked, so calls that read past the queue have to look twice.
	p := ks.keyspace.AppendPosition(nil, []byte("other"))
	reply, err := part.Group.Execute(ctx, group.Request{NoWait: true, Command: &txn.Prepare{
		ID: txn.ID{1}, CoordinatorGroup: 1, DeadlineMS: part.Group.NowMS() + 60_000,
		Participant: txn.Participant{Span: db.node.Map().Find(p).Span, Writes: []command.Command{&command.Set{Key: p}}},
	}})
	must(t, errors.Join(err, reply.Err))
	release, name := blockGroup(t, part), []byte("f")
	for what, read := range map[string]func(ctx context.Context) error{
		"HGet": func(ctx context.Context) error { _, err := ks.HGet(ctx, []byte("h"), name); return err },
		"HLen": func(ctx context.Context) error { _, err := ks.HLen(ctx, []byte("h")); return err },
		"Jobs": func(ctx context.Context) error { _, err := db.Jobs(ctx); return err },
		"a split": func(ctx context.Context) error {
			_, err := db.Start(ctx, SplitAtSlots(ks, 7))
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
