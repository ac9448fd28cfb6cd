package cleave

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/wal"
)

// settled waits until no more goroutines run than before.
func settled(t *testing.T, before int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > before; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

func TestNothingIsLeftRunning(t *testing.T) {
	// Whoever comes first starts what stays for the whole process.
	mustClose(t, mustOpen(t, memory(1)))
	before := runtime.NumGoroutine()
	dir := filepath.Join(t.TempDir(), "db")
	for range 3 {
		db := onDisk(t, dir, 3)
		load(t, db, rand.New(rand.NewPCG(1, 1)), 50)
		_, _ = Open(dir, Options{})
		mustClose(t, db)
		if err := db.Close(); err != ErrClosed {
			t.Errorf("the second Close: %v", err)
		}
		settled(t, before)
	}
	// What fails to open leaves nothing either.
	foreign := filepath.Join(dir, "0")
	if _, err := Open(foreign, Options{}); err == nil {
		t.Error("a store's own directory was opened as a DB")
	}
	settled(t, before)
	failing := tiny(wal.Always, nil, store.Memory(), store.Memory())
	failing.Queue = -1 // the first part's store opens, its group does not
	if _, err := openNode(failing); !errors.Is(err, ErrOptions) || strings.Contains(err.Error(), "context") {
		t.Errorf("bad options of a group: %v", err)
	}
	settled(t, before)
}

func TestAClosedDBRefuses(t *testing.T) {
	db := small(t, 1)
	ks := db.Default()
	key := []byte("a")
	must(t, ks.Set(ctx, key, nil))
	mustIndex(t, db, IndexOptions{Name: "a", Columns: "a"})
	mustClose(t, db)
	for what, err := range map[string]error{
		"Get": second(ks.Get(ctx, key)), "Item": second(ks.Item(ctx, key)), "Set": ks.Set(ctx, key, nil),
		"SetWith": second(ks.SetWith(ctx, key, nil, SetOptions{})), "Delete": second(ks.Delete(ctx, key)),
		"Add": second(ks.Add(ctx, key, 1)), "Expire": second(ks.Expire(ctx, key, time.Second)),
		"Persist": second(ks.Persist(ctx, key)), "HSet": second(ks.HSet(ctx, key, Field{})),
		"HGet": second(ks.HGet(ctx, key, nil)), "HDel": second(ks.HDel(ctx, key, nil)),
		"HAdd": second(ks.HAdd(ctx, key, nil, 1)), "HGetAll": second(ks.HGetAll(ctx, key)),
		"HLen": second(ks.HLen(ctx, key)), "GetMany": second(ks.GetMany(ctx, key)),
		"Exists": second(ks.Exists(ctx, key)), "HScan": third(ks.HScan(ctx, key, nil, 0)), "Scan": second(ks.Scan(ctx, ScanOptions{})),
		"OpenKeyspace":   second(db.OpenKeyspace(ctx, KeyspaceOptions{Name: "default"})),
		"OpenIndex":      second(db.OpenIndex(ctx, IndexOptions{Name: "a", Keyspace: ks, Columns: "a"})),
		"CreateKeyspace": second(db.CreateKeyspace(ctx, KeyspaceOptions{Name: "s"})),
		"Update":         db.Update(ctx, func(tx *Txn) error { return tx.Set(ks, key, nil) }),
		"View":           db.View(ctx, func(tx *Txn) error { return second(tx.Get(ks, key)) }),
		"empty Update":   db.Update(ctx, func(*Txn) error { return nil }),
		"empty View":     db.View(ctx, func(*Txn) error { return nil }),
		"Backup":         backupOf(t, db),
	} {
		refused(t, what, err, ErrClosed)
	}
	for _, err := range db.Feed(ctx, "") {
		refused(t, "Feed", err, ErrClosed)
	}
	_ = db.Metrics()
}

func backupOf(t *testing.T, _ *DB) error {
	db := onDisk(t, t.TempDir(), 1)
	mustClose(t, db)
	return db.Backup(ctx, filepath.Join(t.TempDir(), "backup"))
}

// Close comes in the middle of everything. What was acknowledged is there
// afterwards, and everybody else hears ErrClosed.
func TestCloseUnderLoadLosesNothing(t *testing.T) {
	var acknowledged, closed atomic.Int64
	for round := range soaking(4) {
		disk := store.Memory()
		db := mustOpen(t, tiny(wal.EverySec, nil, disk))
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
		db = mustOpen(t, tiny(wal.EverySec, nil, disk))
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
		second(ks.Get(ctx, []byte(key))), second(ks.HLen(ctx, []byte("h"))), second(ks.HGetAll(ctx, []byte("h"))),
		second(ks.Scan(ctx, ScanOptions{Limit: 3})),
		db.Update(ctx, func(tx *Txn) error { return second(tx.Add(ks, []byte("n"), 1)) }),
	} {
		if err != nil && !errors.Is(err, ErrClosed) {
			return err
		}
	}
	return nil
}

// blockGroup gives a group a command that waits, so that others queue behind it.
func blockGroup(t *testing.T, p *node.Part) (release func()) {
	inside, goOn := make(chan struct{}), make(chan struct{})
	go func() { _, _ = p.Group.Do(ctx, group.Request{Command: blocking{inside, goOn}}) }()
	<-inside
	return func() { close(goOn) }
}

type blocking struct{ inside, goOn chan struct{} }

func (b blocking) Eval(*command.Env) command.Reply {
	close(b.inside)
	<-b.goOn
	return command.Reply{Kind: command.OK}
}

// Whoever leaves while its command waits in the queue hears that the outcome is
// unknown, and its bytes are its own again at once.
func TestWhoeverLeavesTheQueueGetsItsBytesBack(t *testing.T) {
	db := small(t, 1)
	ks := db.Default()
	release := blockGroup(t, db.node.Hosts()[0].Parts()[0])
	key, value, name := []byte("key"), []byte("value"), []byte("field")
	calls := []func(context.Context) error{
		func(c context.Context) error { return ks.Set(c, key, value) },
		func(c context.Context) error {
			return second(ks.SetWith(c, append([]byte("with "), key...), value, SetOptions{}))
		},
		func(c context.Context) error { return second(ks.HSet(c, []byte("hash"), Field{name, value})) },
		func(c context.Context) error { return second(ks.HAdd(c, []byte("hash2"), name, 5)) },
		func(c context.Context) error {
			return db.Update(c, func(tx *Txn) error { return tx.Set(ks, []byte("tx"), value) })
		},
	}
	ended, cancel := context.WithCancel(ctx)
	errs := make(chan error, len(calls))
	for _, call := range calls {
		go func() { errs <- call(ended) }()
	}
	for db.Metrics().Stores[0].QueueDepth < len(calls) {
		time.Sleep(time.Millisecond)
	}
	cancel()
	for range calls {
		err := <-errs
		refused(t, "whoever leaves", err, ErrUnknown)
		refused(t, "whoever leaves", err, context.Canceled)
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
	o := memory(1)
	o.Queue, o.Refuse, o.TendEvery = 1, true, -1
	db := mustOpen(t, o)
	defer db.Close()
	release := blockGroup(t, db.node.Hosts()[0].Parts()[0])
	first := make(chan error, 1)
	go func() { first <- db.Default().Set(ctx, []byte("a"), nil) }()
	for db.Metrics().Stores[0].QueueDepth == 0 {
		time.Sleep(time.Millisecond)
	}
	refused(t, "the one too many", db.Default().Set(ctx, []byte("b"), nil), ErrOverloaded, "Queue")
	release()
	must(t, <-first)
	if _, err := db.Default().Get(ctx, []byte("b")); !errors.Is(err, ErrNotFound) {
		t.Errorf("what was refused: %v", err)
	}
}
