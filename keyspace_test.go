package cleave

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/engine"
	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/internal/testkit/caller"
)

// What is written together is read together, however fast the writer is.
func TestGetManyIsOfOneMoment(t *testing.T) {
	for _, d := range []wal.Durability{wal.Never, wal.Always} {
		t.Run(d.String(), func(t *testing.T) {
			o := memoryOptions(1)
			o.Durability = d
			db := mustOpen(t, o)
			defer db.Close()
			ks := db.Default()
			keys := make([][]byte, 16)
			for i := range keys {
				keys[i] = numberKey(i)
			}
			write := func(n int) {
				var b Batch
				for i, key := range keys {
					if (i+n)%4 == 0 { // some come and go
						b.Delete(ks, key)
					} else {
						b.Set(ks, key, fmt.Append(nil, n))
					}
				}
				must(t, db.Write(ctx, &b))
			}
			write(0)
			var done atomic.Bool
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					for !done.Load() {
						values, err := ks.GetMany(ctx, keys...)
						must(t, err)
						oneMoment(t, values)
					}
				})
			}
			for n := range scaleRounds(400) {
				write(n)
			}
			done.Store(true)
			wg.Wait()
		})
	}
}

// oneMoment checks that all values are of one number, and the right ones absent.
func oneMoment(t *testing.T, values [][]byte) {
	n := 0
	first := values[0]
	if first == nil {
		first = values[1] // one of them is there
	}
	_, err := fmt.Sscan(string(first), &n)
	must(t, err)
	for i, value := range values {
		want := fmt.Sprint(n)
		if (i+n)%4 == 0 {
			want = ""
		}
		if string(value) != want || (value == nil) != (want == "") {
			t.Errorf("key %d is %q, want %q: %q", i, value, want, values)
			return
		}
	}
}

func TestGetManyTellsEmptyFromAbsent(t *testing.T) {
	db := openSmall(t, 3)
	ks := db.Default()
	for i := range 20 {
		must(t, ks.Set(ctx, numberKey(i), nil))
	}
	keys := [][]byte{[]byte("none")}
	for i := range 20 {
		keys = append(keys, numberKey(i))
	}
	values, err := ks.GetMany(ctx, keys...)
	must(t, err)
	for i, value := range values {
		if (value == nil) != (i == 0) || len(value) > 0 {
			t.Errorf("%s: %#v", keys[i], value)
		}
	}
	if values, err := ks.GetMany(ctx); err != nil || len(values) != 0 {
		t.Errorf("of no keys: %v, %v", values, err)
	}
	_, err = ks.HSet(ctx, []byte("hash"), Field{})
	must(t, err)
	_, err = ks.GetMany(ctx, keys[0], []byte("hash"))
	checkRefused(t, "a hash among them", err, ErrWrongType, `"hash"`)
	must(t, db.View(ctx, func(tx *Txn) error {
		_, err = tx.GetMany(ks, []byte("hash"))
		checkRefused(t, "in a transaction", err, ErrWrongType, `"hash"`)
		return nil
	}))
}

// A large hash is read in pages while others change it. Those that are there all
// the time come once.
func TestAHashIsReadInPages(t *testing.T) {
	db := openSmall(t, 1)
	ks := db.Default()
	h := []byte("h")
	field := func(i int) Field { return Field{fmt.Appendf(nil, "f%04d", i), []byte("v")} }
	const fields = defaultPageItems + 300
	// What an older hash left behind lies in between.
	var b Batch
	for i := range 600 {
		b.HSet(ks, h, Field{fmt.Appendf(nil, "f%04d!", i), nil})
	}
	b.Delete(ks, h)
	for i := range fields {
		b.HSet(ks, h, field(i))
	}
	must(t, db.Write(ctx, &b))
	for _, limit := range []int{0, 7, fields, fields + 1} {
		seen := 0
		for after := []byte(nil); ; {
			page, next, err := ks.HScanPage(ctx, h, after, limit)
			must(t, err)
			if len(page) > max(limit, defaultPageItems) || limit == 7 && len(page) > limit {
				t.Fatalf("a page of %d with limit %d", len(page), limit)
			}
			for _, f := range page {
				if string(f.Name[len(f.Name)-1:]) == "?" {
					continue // came later
				}
				if string(f.Name) != string(field(seen).Name) || string(f.Value) != "v" {
					t.Fatalf("field %d is %s", seen, f.Name)
				}
				seen++
			}
			if next == nil {
				break
			}
			_, err = ks.HSet(ctx, h, Field{Name: []byte("f0000?")}, Field{Name: fmt.Appendf(nil, "%s?", next)})
			must(t, err)
			after = next
		}
		if seen != fields {
			t.Errorf("limit %d: %d fields, want %d", limit, seen, fields)
		}
	}
	checkRefused(t, "a negative limit", thirdError(ks.HScanPage(ctx, h, nil, -1)), ErrOptions, "limit")
	must(t, ks.Set(ctx, []byte("text"), nil))
	checkRefused(t, "a string", thirdError(ks.HScanPage(ctx, []byte("text"), nil, 1)), ErrWrongType)
	if page, next, err := ks.HScanPage(ctx, []byte("none"), nil, 1); err != nil || page == nil || len(page) != 0 || next != nil {
		t.Errorf("of an absent key: %v, %q, %v", page, next, err)
	}
}

func thirdError[A, B any](_ A, _ B, err error) error { return err }

// Whatever a transaction learns of a key is a read: it conflicts with a change.
func TestEveryReadOfATransactionCounts(t *testing.T) {
	key := []byte("k")
	for what, read := range map[string]func(tx *Txn, ks *Keyspace) error{
		"Get":       func(tx *Txn, ks *Keyspace) error { return secondError(tx.Get(ks, key)) },
		"GetMany":   func(tx *Txn, ks *Keyspace) error { return secondError(tx.GetMany(ks, []byte("x"), key)) },
		"Item":      func(tx *Txn, ks *Keyspace) error { return secondError(tx.Item(ks, key)) },
		"Exists":    func(tx *Txn, ks *Keyspace) error { return secondError(tx.Exists(ks, key)) },
		"Persist":   func(tx *Txn, ks *Keyspace) error { return secondError(tx.Persist(ks, key)) },
		"Expire":    func(tx *Txn, ks *Keyspace) error { return secondError(tx.Expire(ks, key, time.Hour)) },
		"Delete":    func(tx *Txn, ks *Keyspace) error { return secondError(tx.Delete(ks, []byte("x"), key)) },
		"Add":       func(tx *Txn, ks *Keyspace) error { return secondError(tx.Add(ks, key, 1)) },
		"HGet":      func(tx *Txn, ks *Keyspace) error { return secondError(tx.HGet(ks, key, nil)) },
		"HLen":      func(tx *Txn, ks *Keyspace) error { return secondError(tx.HLen(ks, key)) },
		"HGetAll":   func(tx *Txn, ks *Keyspace) error { return secondError(tx.HGetAll(ks, key)) },
		"HScanPage": func(tx *Txn, ks *Keyspace) error { return thirdError(tx.HScanPage(ks, key, nil, 1)) },
		"HAdd":      func(tx *Txn, ks *Keyspace) error { return secondError(tx.HAdd(ks, key, nil, 1)) },
		"HSet":      func(tx *Txn, ks *Keyspace) error { return secondError(tx.HSet(ks, key, Field{})) },
		"HDel":      func(tx *Txn, ks *Keyspace) error { return secondError(tx.HDel(ks, key, nil)) },
	} {
		t.Run(what, func(t *testing.T) {
			db := openSmall(t, 1)
			ks := db.Default()
			attempts := 0
			must(t, db.Update(ctx, func(tx *Txn) error {
				attempts++
				if err := read(tx, ks); err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrWrongType) {
					return err
				}
				if attempts == 1 {
					if what[0] == 'H' {
						_, err := ks.HSet(ctx, key, Field{Value: []byte("5")})
						must(t, err)
					} else {
						must(t, ks.Set(ctx, key, []byte("5")))
					}
				}
				return tx.Set(ks, []byte("result"), nil)
			}))
			if attempts != 2 {
				t.Errorf("%d attempts, want 2", attempts)
			}
		})
	}
}

func TestADeleteThatIsRefusedLeavesNothingInTheTransaction(t *testing.T) {
	db := openSmall(t, 3)
	ks := db.Default()
	keys := keyPerStore(db)
	must(t, ks.Set(ctx, keys[0], nil))
	must(t, db.Update(ctx, func(tx *Txn) error {
		_, err := tx.Delete(ks, keys[0], keys[1], make([]byte, command.MaxKeyBytes+1))
		checkRefused(t, "Delete", err, ErrTooLarge)
		return nil // as if nothing had happened
	}))
	if ok, err := ks.Exists(ctx, keys[0]); err != nil || !ok {
		t.Errorf("the first key is there: %v, %v", ok, err)
	}
}

func BenchmarkGetMany(b *testing.B) {
	db := openSmall(b, 1)
	ks := db.Default()
	keys := make([][]byte, 10)
	for i := range keys {
		keys[i] = numberKey(i)
		must(b, ks.Set(ctx, keys[i], make([]byte, 100)))
	}
	b.Run("how=many", func(b *testing.B) {
		for b.Loop() {
			_, err := ks.GetMany(ctx, keys...)
			must(b, err)
		}
	})
	b.Run("how=view", func(b *testing.B) {
		for b.Loop() {
			must(b, db.View(ctx, func(tx *Txn) error { return secondError(tx.GetMany(ks, keys...)) }))
		}
	})
	b.Run("how=get", func(b *testing.B) {
		for b.Loop() {
			for _, key := range keys {
				_, err := ks.Get(ctx, key)
				must(b, err)
			}
		}
	})
}

// openHalfway opens a store with a keyspace that has the keys a and z, and stops where the shard of z
// is between two stores, until goOn is called.
func openHalfway(t *testing.T) (ks *Keyspace, goOn func()) {
	o := memoryOptions(2)
	o.Groups, o.HousekeepInterval = 2, time.Millisecond
	between, after := make(chan struct{}), make(chan struct{})
	reached := sync.OnceFunc(func() { close(between) })
	o.OnJob = func(j mover.Job) {
		if j.Kind == mover.Move && j.Phase == mover.Activating {
			reached()
			<-after
		}
	}
	db := mustOpen(t, o)
	ks = rangeSpace(t, db, "s")
	var b Batch
	b.Set(ks, []byte("a"), []byte("v"))
	for i := range 1200 { // more than are cleared in one step
		b.Set(ks, append([]byte("b"), numberKey(i)...), nil)
	}
	b.Set(ks, []byte("z"), []byte("v"))
	must(t, db.Write(ctx, &b))
	_, err := mustStart(t, db, SplitAtKeys(ks, []byte("m"))).Wait(ctx)
	must(t, err)
	job := mustStart(t, db, Move{Shard: shardAt(ks, "z"), To: groupOnOtherStore(ks, "z")})
	<-between
	goOn = sync.OnceFunc(func() { close(after) })
	t.Cleanup(func() {
		goOn()
		_, _ = job.Wait(ctx)
		mustClose(t, db)
	})
	return ks, goOn
}

// A keyspace is dropped while a reader waits for a shard of it, to read keys as of one moment. The reader
// sees all of them or none, or gets the error that it is gone: its rows go piece by piece.
func TestWhoReadsADroppedKeyspaceSeesNoHalfOfIt(t *testing.T) {
	count := func(item Item, err error) int {
		if err == nil && len(item.Key) == 1 {
			return 1
		}
		return 0
	}
	for how, read := range map[string]func(ctx context.Context, ks *Keyspace) (seen int, err error){
		"GetMany": func(ctx context.Context, ks *Keyspace) (seen int, err error) {
			values, err := ks.GetMany(ctx, []byte("a"), []byte("z"))
			for _, v := range values {
				seen += len(v)
			}
			return seen, err
		},
		"Scan": func(ctx context.Context, ks *Keyspace) (seen int, err error) {
			for item, failed := range ks.Scan(ctx, ScanOptions{}) {
				seen, err = seen+count(item, failed), failed
			}
			return seen, err
		},
		"Scan in a View": func(ctx context.Context, ks *Keyspace) (seen int, err error) {
			return seen, ks.db.View(ctx, func(tx *Txn) error {
				for item, failed := range tx.Scan(ks, ScanOptions{}) {
					seen, err = seen+count(item, failed), failed
				}
				return err
			})
		},
	} {
		t.Run(how, func(t *testing.T) {
			seen, err := readDropped(t, read)
			if err == nil && seen == 1 {
				t.Error("one of two keys was seen")
			}
			if err != nil && !errors.Is(err, ErrNoKeyspace) {
				t.Error(err)
			}
		})
	}
}

// What was written after a keyspace was dropped is not seen together with a key of that.
func TestWhoReadsADroppedKeyspaceSeesNothingThatCameLater(t *testing.T) {
	for how, read := range map[string]func(ctx context.Context, ks *Keyspace) (seen int, err error){
		"Get in a View": func(ctx context.Context, ks *Keyspace) (seen int, err error) {
			err = ks.db.View(ctx, func(tx *Txn) error {
				was, err1 := tx.Get(ks, []byte("z"))
				later, err2 := tx.Get(ks.db.Default(), []byte("later"))
				seen = len(was) + len(later)
				return errors.Join(err1, err2)
			})
			return seen, err
		},
		"commands of the server": func(ctx context.Context, ks *Keyspace) (seen int, err error) {
			err = ks.db.engine.ViewCommands(ctx, func(tx *engine.CommandTxn) {
				was, later := ks.keyspace.AppendPosition(nil, []byte("z")), ks.db.Default().After([]byte("later"))
				seen += len(tx.Eval(ks.keyspace, was, &command.Get{Key: was}, false).Bytes)
				seen += len(tx.Eval(ks.db.Default().keyspace, later, &command.Get{Key: later}, false).Bytes)
			})
			return seen, toPublicError(err)
		},
	} {
		t.Run(how, func(t *testing.T) {
			if seen, err := readDropped(t, read); !errors.Is(err, ErrNoKeyspace) {
				t.Errorf("%d of two keys were seen: %v", seen, err)
			}
		})
	}
}

// readDropped calls read, and drops the keyspace when it waits for a shard of that. It goes on when a
// part of the keyspace is cleared, and something was written elsewhere.
func readDropped(t *testing.T, read func(ctx context.Context, ks *Keyspace) (seen int, err error)) (seen int, err error) {
	ks, goOn := openHalfway(t)
	begun, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		seen, err = read(caller.WithOnWait(ctx, sync.OnceFunc(func() { close(begun) })), ks)
	}()
	<-begun
	must(t, ks.db.DropKeyspace(ctx, "s"))
	first := ks.keyspace.AppendPosition(nil, []byte("a"))
	waitUntil(t, "its rows are removed", func() bool {
		_, there, err := ks.findGroupHost(first).Group.Read(ctx, first, nil)
		must(t, err)
		return !there
	})
	must(t, ks.db.Default().Set(ctx, []byte("later"), []byte("v")))
	goOn()
	<-done
	return seen, err
}

// What a large hash leaves behind when it is deleted goes from the tables by itself, so that a hash
// of that name is not slow: nothing else is written that would make the store compact.
func TestHash_DeletedLargeOne_LeavesNoDeletionsBehind(t *testing.T) {
	db, err := Open(t.TempDir(), Options{Durability: Never})
	must(t, err)
	defer mustClose(t, db)
	ks, key := db.Default(), []byte("hash")
	for i := 0; i < 20_000; i += 5000 {
		var fields []Field
		for j := i; j < i+5000; j++ {
			fields = append(fields, Field{Name: numberKey(j), Value: []byte("v")})
		}
		_, err := ks.HSet(ctx, key, fields...)
		must(t, err)
	}
	store := db.node.StoreHosts()[0].Store
	before := store.Metrics()
	_, err = ks.Delete(ctx, key)
	must(t, err)
	_, err = ks.HSet(ctx, key, Field{Name: numberKey(10_000), Value: []byte("new")})
	must(t, err)
	waitUntil(t, "the store compacts", func() bool { return store.Metrics().Flushes > before.Flushes })
	if n, err := ks.HLen(ctx, key); n != 1 || err != nil {
		t.Errorf("the hash has %d fields, %v", n, err)
	}
}
