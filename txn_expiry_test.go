package cleave

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/inside"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/internal/wal"
)

// The keys of these tests live for briefly, and their transactions take long.
const briefly, long = 20 * time.Millisecond, 60 * time.Millisecond

// What a transaction was told of a key that it gave an expiry is what comes of it, though the
// time is over at the commit.
func TestATransactionIsToldWhatComesOfKeysThatExpire(t *testing.T) {
	hash := []byte("h")
	for _, c := range []struct {
		name  string
		index string // column of an index, if there is one
		write func(tx *Txn, k *Keyspace) error
		want  int // fields that are there in the end
	}{
		{"kept after all", "", func(tx *Txn, k *Keyspace) error {
			if _, err := tx.Expire(k, hash, briefly); err != nil {
				return err
			}
			_, err := tx.Persist(k, hash)
			return err
		}, 1},
		{"kept after all, with an index", "a", func(tx *Txn, k *Keyspace) error {
			if _, err := tx.Expire(k, hash, briefly); err != nil {
				return err
			}
			_, err := tx.Persist(k, hash)
			return err
		}, 1},
		{"written again", "b", func(tx *Txn, k *Keyspace) error {
			if _, err := tx.Expire(k, hash, briefly); err != nil {
				return err
			}
			_, err := tx.HSet(k, hash, fields("b", "2")...)
			return err
		}, 0},
		{"made, written again", "b", func(tx *Txn, k *Keyspace) error {
			if _, err := tx.Delete(k, hash); err != nil {
				return err
			}
			if _, err := tx.HSet(k, hash, fields("a", "3")...); err != nil {
				return err
			}
			if _, err := tx.Expire(k, hash, briefly); err != nil {
				return err
			}
			_, err := tx.HSet(k, hash, fields("b", "2")...)
			return err
		}, 0},
	} {
		db, err := OpenMemory(Options{})
		if err != nil {
			t.Fatal(err)
		}
		k := db.Default()
		var ix *Index
		if c.index != "" {
			ix = mustIndex(t, db, IndexOptions{Name: "by", Columns: c.index})
		}
		if _, err := k.HSet(ctx, hash, fields("a", "1")...); err != nil {
			t.Fatal(err)
		}
		err = db.Update(ctx, func(tx *Txn) error {
			err := c.write(tx, k)
			time.Sleep(long)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		all, err := k.HGetAll(ctx, hash)
		if len(all) != c.want || err != nil {
			t.Errorf("%s: %q, %v; want %d fields", c.name, all, err, c.want)
		}
		if ix != nil && len(found(t, ix, IndexScanOptions{})) > 0 != (c.want > 0) {
			t.Errorf("%s: the index has %q", c.name, found(t, ix, IndexScanOptions{}))
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// So it is for the commands of a server, with times on the clock.
func TestCommandsOfATransactionAreToldWhatComesOfKeysThatExpire(t *testing.T) {
	db, err := OpenMemory(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	k := db.Default()
	if err := k.Set(ctx, []byte("k"), []byte("5")); err != nil {
		t.Fatal(err)
	}
	p := k.space.AppendPosition(nil, []byte("k"))
	var told int64
	err = inside.Update(ctx, db, func(tx inside.Txn) {
		tx.Do(k.space, p, &command.Expire{Key: p, Expiry: command.At(tx.NowMS() + briefly.Milliseconds())}, true)
		tx.Do(k.space, p, &command.Persist{Key: p}, true)
		told = tx.Do(k.space, p, &command.Add{Key: p, Delta: 1}, true).Int
		time.Sleep(long)
	})
	if err != nil {
		t.Fatal(err)
	}
	if value, err := k.Get(ctx, []byte("k")); string(value) != fmt.Sprint(told) || told != 6 {
		t.Errorf("the key holds %q, %v, and it was told %d", value, err, told)
	}
}

// A transaction comes to another store later than the time of a key that it has written. The
// key is not over for it, in whatever way it looks.
func TestAKeyIsNotOverWithinTheTransactionThatDatedIt(t *testing.T) {
	db, err := OpenMemory(Options{Stores: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	k := db.Default()
	var a, b []byte // of different stores
	for i := 0; a == nil || b == nil; i++ {
		key := []byte(fmt.Sprint("k", i))
		if k.part(k.space.AppendPosition(nil, key)).Host == db.node.Hosts()[0] {
			a = key
		} else {
			b = key
		}
	}
	var sum int64
	var item Item
	scanned := 0
	err = db.Update(ctx, func(tx *Txn) error {
		if err := tx.SetWith(k, a, []byte("5"), SetOptions{TTL: briefly}); err != nil {
			return err
		}
		time.Sleep(long)
		if _, err := tx.Exists(k, b); err != nil {
			return err
		}
		scanned = 0
		for _, err := range tx.Scan(k, ScanOptions{}) {
			if err != nil {
				return err
			}
			scanned++
		}
		if sum, err = tx.Add(k, a, 1); err != nil {
			return err
		}
		item, err = tx.Item(k, a)
		return err
	})
	if err != nil || sum != 6 || item.Expires.IsZero() || scanned != 1 {
		t.Fatalf("told %d, which expires %v, of %d keys, %v", sum, item.Expires, scanned, err)
	}
}

// A transaction is told whether a condition on an expiry holds, also if it would not by the
// clock of the commit.
func TestAConditionOnAnExpiryHoldsAsTold(t *testing.T) {
	for _, flags := range []command.ExpireFlags{command.ExpireGT, command.ExpireLT} {
		db, err := OpenMemory(Options{})
		if err != nil {
			t.Fatal(err)
		}
		k := db.Default()
		p := k.space.AppendPosition(nil, []byte("k"))
		var told, was int64
		err = inside.Update(ctx, db, func(tx inside.Txn) {
			was = tx.NowMS() + time.Minute.Milliseconds()
			tx.Do(k.space, p, &command.Set{Key: p, Expiry: command.At(was)}, true)
		})
		if err == nil {
			err = inside.Update(ctx, db, func(tx inside.Txn) {
				// It is in between when the transaction is told, and not at the commit.
				in := was - tx.NowMS() - briefly.Milliseconds()
				told = tx.Do(k.space, p, &command.Expire{Key: p, Expiry: command.In(in), Flags: flags}, true).Int
				time.Sleep(long)
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		item, err := k.Item(ctx, []byte("k"))
		if set := item.Expires.UnixMilli() != was; err != nil || set != (told == 1) || set != (flags == command.ExpireLT) {
			t.Errorf("flags %d: told %d, and it was set: %v, %v", flags, told, set, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A transaction that is in doubt has locked a key for longer than another one lets it live,
// which waits for the lock. The time does not count from the lock.
func TestATimeToLiveDoesNotCountFromALock(t *testing.T) {
	const ttl = 500 * time.Millisecond
	for _, indexed := range []bool{false, true} {
		db := mustOpen(t, tiny(wal.Never, nil, store.Memory(), store.Memory()))
		k, key := db.Default(), []byte("k")
		if indexed {
			mustIndex(t, db, IndexOptions{Name: "by", Columns: "a"})
		}
		p := k.space.AppendPosition(nil, key)
		part, span := k.part(p), db.node.Map().Find(p).Span
		do := func(c command.Command) error {
			reply, err := part.Group.Do(ctx, group.Request{Command: c})
			return errors.Join(err, reply.Err)
		}
		id, deadline := txn.ID{1, 2, 3}, part.Group.NowMS()+time.Minute.Milliseconds()
		lock := txn.Part{Span: span, Reads: []command.Read{{Key: p}}}
		if err := do(&txn.Prepare{ID: id, Decider: part.ID, DeadlineMS: deadline, Part: lock}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl + 100*time.Millisecond)
		var item Item
		var began time.Time
		err := db.Update(ctx, func(tx *Txn) (err error) {
			began = time.Now()
			if err := tx.SetWith(k, key, []byte("5"), SetOptions{TTL: ttl}); err != nil {
				return err
			}
			if _, err := tx.Add(k, key, 1); err != nil {
				return err
			}
			if item, err = tx.Item(k, key); err != nil {
				return err
			}
			return do(&txn.Resolve{ID: id, Span: span, DeadlineMS: deadline}) // it goes now
		})
		if lives := item.Expires.Sub(began); err != nil || lives < ttl-100*time.Millisecond {
			t.Errorf("indexed %v: it lives for %v, %v", indexed, lives, err)
		}
		mustClose(t, db)
	}
}

// A lock keeps a key alive whose time is over. A transaction reads it, and then dates it.
func TestATransactionDoesNotForgetWhatALockHasKept(t *testing.T) {
	const ttl = 200 * time.Millisecond
	for _, scan := range []bool{false, true} {
		db := mustOpen(t, tiny(wal.Never, nil, store.Memory(), store.Memory()))
		k, key := db.Default(), []byte("k")
		p := k.space.AppendPosition(nil, key)
		part, span := k.part(p), db.node.Map().Find(p).Span
		do := func(c command.Command) error {
			reply, err := part.Group.Do(ctx, group.Request{Command: c})
			return errors.Join(err, reply.Err)
		}
		_, err := k.SetWith(ctx, key, []byte("v"), SetOptions{TTL: ttl})
		must(t, err)
		item, err := k.Item(ctx, key)
		must(t, err)
		id, deadline := txn.ID{1, 2, 3}, part.Group.NowMS()+time.Minute.Milliseconds()
		lock := txn.Part{Span: span, Reads: []command.Read{{Key: p, Version: item.Version}}}
		must(t, do(&txn.Prepare{ID: id, Decider: part.ID, DeadlineMS: deadline, Part: lock}))
		time.Sleep(ttl + 100*time.Millisecond)
		resolved := false
		saw, expired := false, false
		err = db.Update(ctx, func(tx *Txn) error {
			saw, expired = false, false
			defer func() {
				if !resolved {
					resolved = true
					must(t, do(&txn.Resolve{ID: id, Span: span, DeadlineMS: deadline}))
				}
			}()
			if scan {
				for _, err := range tx.Scan(k, ScanOptions{}) {
					if err != nil {
						return err
					}
					saw = true
					if expired, err = tx.Expire(k, key, time.Hour); err != nil {
						return err
					}
				}
			} else {
				_, err := tx.Item(k, key)
				saw = err == nil
				if expired, err = tx.Expire(k, key, time.Hour); err != nil {
					return err
				}
			}
			if saw {
				if err := tx.Set(k, []byte("z"), []byte("k was there")); err != nil {
					return err
				}
			}
			return nil
		})
		must(t, err)
		is, err := k.Exists(ctx, key)
		must(t, err)
		if saw != is || saw != expired {
			t.Errorf("scan %v: it has seen the key: %v, Expire told %v, but after the commit: %v", scan, saw, expired, is)
		}
		mustClose(t, db)
	}
}
