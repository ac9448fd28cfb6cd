package cleave

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/engine"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
)

// The keys of these tests live for briefly, and their transactions take long.
const briefly, long = 20 * time.Millisecond, 60 * time.Millisecond

// The results of a transaction for a key that it gave an expiry are the outcome, though the
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
			_, err := tx.HSet(k, hash, newFields("b", "2")...)
			return err
		}, 0},
		{"made, written again", "b", func(tx *Txn, k *Keyspace) error {
			if _, err := tx.Delete(k, hash); err != nil {
				return err
			}
			if _, err := tx.HSet(k, hash, newFields("a", "3")...); err != nil {
				return err
			}
			if _, err := tx.Expire(k, hash, briefly); err != nil {
				return err
			}
			_, err := tx.HSet(k, hash, newFields("b", "2")...)
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
		if _, err := k.HSet(ctx, hash, newFields("a", "1")...); err != nil {
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
		if ix != nil && len(formatFound(t, ix, IndexScanOptions{})) > 0 != (c.want > 0) {
			t.Errorf("%s: the index has %q", c.name, formatFound(t, ix, IndexScanOptions{}))
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
	p := k.keyspace.AppendPosition(nil, []byte("k"))
	var told int64
	err = db.engine.UpdateCommands(ctx, func(tx *engine.CommandTxn) {
		tx.Eval(k.keyspace, p, &command.Expire{Key: p, Expiry: command.ExpireAt(tx.NowMS() + briefly.Milliseconds())}, true)
		tx.Eval(k.keyspace, p, &command.Persist{Key: p}, true)
		told = tx.Eval(k.keyspace, p, &command.Add{Key: p, Delta: 1}, true).Int
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
		if k.findGroupHost(k.keyspace.AppendPosition(nil, key)).Host == db.node.StoreHosts()[0] {
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

// A transaction gets the result of a condition on an expiry, also if it would differ by the
// clock of the commit.
func TestAConditionOnAnExpiryHoldsAsTold(t *testing.T) {
	for _, flags := range []command.ExpireFlags{command.ExpireGT, command.ExpireLT} {
		db, err := OpenMemory(Options{})
		if err != nil {
			t.Fatal(err)
		}
		k := db.Default()
		p := k.keyspace.AppendPosition(nil, []byte("k"))
		var told, was int64
		err = db.engine.UpdateCommands(ctx, func(tx *engine.CommandTxn) {
			was = tx.NowMS() + time.Minute.Milliseconds()
			tx.Eval(k.keyspace, p, &command.Set{Key: p, Expiry: command.ExpireAt(was)}, true)
		})
		if err == nil {
			err = db.engine.UpdateCommands(ctx, func(tx *engine.CommandTxn) {
				// It is in between for the transaction, and not at the commit.
				in := was - tx.NowMS() - briefly.Milliseconds()
				told = tx.Eval(k.keyspace, p, &command.Expire{Key: p, Expiry: command.ExpireIn(in), Flags: flags}, true).Int
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
		db := mustOpen(t, tinyOptions(wal.Never, nil, store.NewMemFS(), store.NewMemFS()))
		k, key := db.Default(), []byte("k")
		if indexed {
			mustIndex(t, db, IndexOptions{Name: "by", Columns: "a"})
		}
		p := k.keyspace.AppendPosition(nil, key)
		part, span := k.findGroupHost(p), db.node.Map().Find(p).Span
		do := func(c command.Command) error {
			reply, err := part.Group.Execute(ctx, group.Request{Command: c})
			return errors.Join(err, reply.Err)
		}
		id, deadline := txn.ID{1, 2, 3}, part.Group.NowMS()+time.Minute.Milliseconds()
		lock := txn.Participant{Span: span, Reads: []command.Read{{Key: p}}}
		if err := do(&txn.Prepare{ID: id, CoordinatorGroup: part.ID, DeadlineMS: deadline, Participant: lock}); err != nil {
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
		db := mustOpen(t, tinyOptions(wal.Never, nil, store.NewMemFS(), store.NewMemFS()))
		k, key := db.Default(), []byte("k")
		p := k.keyspace.AppendPosition(nil, key)
		part, span := k.findGroupHost(p), db.node.Map().Find(p).Span
		do := func(c command.Command) error {
			reply, err := part.Group.Execute(ctx, group.Request{Command: c})
			return errors.Join(err, reply.Err)
		}
		_, err := k.SetWith(ctx, key, []byte("v"), SetOptions{TTL: ttl})
		must(t, err)
		item, err := k.Item(ctx, key)
		must(t, err)
		id, deadline := txn.ID{1, 2, 3}, part.Group.NowMS()+time.Minute.Milliseconds()
		lock := txn.Participant{Span: span, Reads: []command.Read{{Key: p, Version: item.Version}}}
		must(t, do(&txn.Prepare{ID: id, CoordinatorGroup: part.ID, DeadlineMS: deadline, Participant: lock}))
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

// The clock of one group may be ahead of another's, by seconds after a crash. A transaction
// judges a key by that of its own group, whatever it asks or writes.
func TestATransactionJudgesTheTimeOfAKeyByItsOwnGroup(t *testing.T) {
	db := mustOpen(t, tinyOptions(wal.Never, nil, store.NewMemFS(), store.NewMemFS()))
	defer mustClose(t, db)
	k, key := db.Default(), []byte("k")
	p0, err := k.appendPosition(nil, key)
	must(t, err)
	ahead := time.Now().Add(time.Minute).UnixMilli()
	for _, other := range db.node.GroupHosts() {
		if other != db.node.GroupHostAt(p0) {
			reply, err := other.Group.Execute(ctx, group.Request{NoWait: true, Command: &ownership.ChangeOwnership{ClockFloorMS: ahead}})
			must(t, errors.Join(err, reply.Err))
		}
	}
	var other []byte
	for i := 0; other == nil; i++ {
		if p, err := k.appendPosition(nil, numberKey(i)); err != nil || db.node.GroupHostAt(p) != db.node.GroupHostAt(p0) {
			other = numberKey(i)
		}
	}
	_, err = k.SetWith(ctx, key, []byte("v"), SetOptions{TTL: 30 * time.Second})
	must(t, err)
	must(t, db.Update(ctx, func(tx *Txn) error {
		if _, err := tx.Get(k, other); !errors.Is(err, ErrNotFound) {
			return err // from here on the later clock is that of the transaction
		}
		reply, err := tx.read(k, p0, &command.TTL{Key: p0})
		if err == nil && (reply.Int <= 0 || reply.Int > 30_000) {
			t.Errorf("it lives for %d ms more", reply.Int)
		}
		if err == nil {
			err = tx.SetWith(k, key, []byte("w"), SetOptions{KeepTTL: true})
		}
		if value, missing := tx.Get(k, key); err == nil && (missing != nil || string(value) != "w") {
			t.Errorf("what was written is %q, %v", value, missing)
		}
		return err
	}))
	item, err := k.Item(ctx, key)
	if err != nil || string(item.Value) != "w" || item.Expires.IsZero() {
		t.Errorf("it is %q, until %v: %v", item.Value, item.Expires, err)
	}
}
