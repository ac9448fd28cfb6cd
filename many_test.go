package cleave

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/wal"
)

// What is written together is read together, however fast the writer is.
func TestGetManyIsOfOneMoment(t *testing.T) {
	for _, d := range []wal.Durability{wal.Never, wal.Always} {
		t.Run(d.String(), func(t *testing.T) {
			o := memory(1)
			o.Durability = d
			db := mustOpen(t, o)
			defer db.Close()
			ks := db.Default()
			keys := make([][]byte, 16)
			for i := range keys {
				keys[i] = number(i)
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
			for n := range soaking(400) {
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
	db := small(t, 3)
	ks := db.Default()
	for i := range 20 {
		must(t, ks.Set(ctx, number(i), nil))
	}
	keys := [][]byte{[]byte("none")}
	for i := range 20 {
		keys = append(keys, number(i))
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
	refused(t, "a hash among them", err, ErrWrongType, `"hash"`)
	must(t, db.View(ctx, func(tx *Txn) error {
		_, err = tx.GetMany(ks, []byte("hash"))
		refused(t, "in a transaction", err, ErrWrongType, `"hash"`)
		return nil
	}))
}

// A large hash is read in pages while others change it. Those that are there all
// the time come once.
func TestAHashIsReadInPages(t *testing.T) {
	db := small(t, 1)
	ks := db.Default()
	h := []byte("h")
	field := func(i int) Field { return Field{fmt.Appendf(nil, "f%04d", i), []byte("v")} }
	const fields = defaultPage + 300
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
			page, next, err := ks.HScan(ctx, h, after, limit)
			must(t, err)
			if len(page) > max(limit, defaultPage) || limit == 7 && len(page) > limit {
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
	refused(t, "a negative limit", third(ks.HScan(ctx, h, nil, -1)), ErrOptions, "limit")
	must(t, ks.Set(ctx, []byte("text"), nil))
	refused(t, "a string", third(ks.HScan(ctx, []byte("text"), nil, 1)), ErrWrongType)
	if page, next, err := ks.HScan(ctx, []byte("none"), nil, 1); err != nil || page == nil || len(page) != 0 || next != nil {
		t.Errorf("of an absent key: %v, %q, %v", page, next, err)
	}
}

func third[A, B any](_ A, _ B, err error) error { return err }

// Whatever a transaction learns of a key is a read: it conflicts with a change.
func TestEveryReadOfATransactionCounts(t *testing.T) {
	key := []byte("k")
	for what, read := range map[string]func(tx *Txn, ks *Keyspace) error{
		"Get":     func(tx *Txn, ks *Keyspace) error { return second(tx.Get(ks, key)) },
		"GetMany": func(tx *Txn, ks *Keyspace) error { return second(tx.GetMany(ks, []byte("x"), key)) },
		"Item":    func(tx *Txn, ks *Keyspace) error { return second(tx.Item(ks, key)) },
		"Exists":  func(tx *Txn, ks *Keyspace) error { return second(tx.Exists(ks, key)) },
		"Persist": func(tx *Txn, ks *Keyspace) error { return second(tx.Persist(ks, key)) },
		"Expire":  func(tx *Txn, ks *Keyspace) error { return second(tx.Expire(ks, key, time.Hour)) },
		"Delete":  func(tx *Txn, ks *Keyspace) error { return second(tx.Delete(ks, []byte("x"), key)) },
		"Add":     func(tx *Txn, ks *Keyspace) error { return second(tx.Add(ks, key, 1)) },
		"HGet":    func(tx *Txn, ks *Keyspace) error { return second(tx.HGet(ks, key, nil)) },
		"HLen":    func(tx *Txn, ks *Keyspace) error { return second(tx.HLen(ks, key)) },
		"HGetAll": func(tx *Txn, ks *Keyspace) error { return second(tx.HGetAll(ks, key)) },
		"HScan":   func(tx *Txn, ks *Keyspace) error { return third(tx.HScan(ks, key, nil, 1)) },
		"HAdd":    func(tx *Txn, ks *Keyspace) error { return second(tx.HAdd(ks, key, nil, 1)) },
		"HSet":    func(tx *Txn, ks *Keyspace) error { return second(tx.HSet(ks, key, Field{})) },
		"HDel":    func(tx *Txn, ks *Keyspace) error { return second(tx.HDel(ks, key, nil)) },
	} {
		t.Run(what, func(t *testing.T) {
			db := small(t, 1)
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
	db := small(t, 3)
	ks := db.Default()
	keys := marks(db)
	must(t, ks.Set(ctx, keys[0], nil))
	must(t, db.Update(ctx, func(tx *Txn) error {
		_, err := tx.Delete(ks, keys[0], keys[1], make([]byte, command.MaxKeyBytes+1))
		refused(t, "Delete", err, ErrTooLarge)
		return nil // as if nothing had happened
	}))
	if ok, err := ks.Exists(ctx, keys[0]); err != nil || !ok {
		t.Errorf("the first key is there: %v, %v", ok, err)
	}
}

func BenchmarkGetMany(b *testing.B) {
	db := small(b, 1)
	ks := db.Default()
	keys := make([][]byte, 10)
	for i := range keys {
		keys[i] = number(i)
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
			must(b, db.View(ctx, func(tx *Txn) error { return second(tx.GetMany(ks, keys...)) }))
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
