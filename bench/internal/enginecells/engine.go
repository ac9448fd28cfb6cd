// Package enginecells sets the embedded store against the ordered stores that a
// Go program can embed: Pebble by itself, bbolt and badger.
//
// All hold the same rows in a directory of their own, side by side in one file
// system, and are called through one interface.
package enginecells

import (
	"context"
	"errors"
	"fmt"

	"github.com/cleavekv/cleave"
	"github.com/cockroachdb/pebble/v2"
	"github.com/dgraph-io/badger/v4"
	"go.etcd.io/bbolt"
)

// engine is what every embedded store can do.
type engine interface {
	// Get returns the value of a key as the caller's own bytes.
	Get(key []byte) ([]byte, error)
	// Set returns when the write is done by the durability the engine was
	// opened with.
	Set(key, value []byte) error
	// Expect says how many goroutines will write, for engines that want to know.
	Expect(writers int)
	// Scan reads n rows in order from a key on.
	Scan(from []byte, n int) (rows int, err error)
	Close() error
}

// durability is what a write waits for.
type durability string

const (
	always durability = "always"
	// everySec hands writes to the operating system and syncs within a second.
	// Only ours has it; the others do what they do for never, some of which
	// keep writes in their own memory meanwhile.
	everySec durability = "everysec"
	never    durability = "no"
)

// caches are the sizes of what an engine may keep in memory.
type caches struct{ rows, blocks int64 }

// maker opens engines of one kind.
type maker struct {
	name string
	ours bool
	open func(dir string, d durability, c caches) (engine, error)
}

var makers = []maker{
	{"cleave", true, openCleave},
	{"Pebble", false, openPebble},
	{"bbolt", false, openBolt},
	{"badger", false, openBadger},
}

type cleaveEngine struct {
	db *cleave.DB
	ks *cleave.Keyspace
}

func openCleave(dir string, d durability, c caches) (engine, error) {
	how, err := cleave.ParseDurability(string(d))
	if err != nil {
		return nil, err
	}
	o := cleave.Options{CacheBytes: c.rows, BlockCacheBytes: c.blocks, Durability: how}
	db, err := cleave.Open(dir, o)
	if err != nil {
		return nil, err
	}
	ks, err := db.Keyspace("bench")
	if errors.Is(err, cleave.ErrNoKeyspace) {
		ks, err = db.CreateKeyspace(context.Background(), cleave.KeyspaceOptions{Name: "bench", Kind: cleave.Range})
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &cleaveEngine{db, ks}, nil
}

func (e *cleaveEngine) Get(key []byte) ([]byte, error) { return e.ks.Get(context.Background(), key) }

func (e *cleaveEngine) Set(key, value []byte) error {
	return e.ks.Set(context.Background(), key, value)
}

func (e *cleaveEngine) Scan(from []byte, n int) (rows int, err error) {
	for _, err := range e.ks.Scan(context.Background(), cleave.ScanOptions{Start: from, Limit: n}) {
		if err != nil {
			return rows, err
		}
		rows++
	}
	return rows, nil
}

func (e *cleaveEngine) Expect(int) {}

func (e *cleaveEngine) Close() error { return e.db.Close() }

type pebbleEngine struct {
	db   *pebble.DB
	sync *pebble.WriteOptions
}

func openPebble(dir string, d durability, c caches) (engine, error) {
	cache := pebble.NewCache(c.rows + c.blocks) // it has one cache: it gets the room of both
	defer cache.Unref()
	db, err := pebble.Open(dir, &pebble.Options{Cache: cache, Logger: silent{}, MemTableSize: 32 << 20})
	if err != nil {
		return nil, err
	}
	e := &pebbleEngine{db, pebble.NoSync}
	if d == always {
		e.sync = pebble.Sync
	}
	return e, nil
}

// silent keeps an engine's log off the terminal.
type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

func (e *pebbleEngine) Get(key []byte) ([]byte, error) {
	v, closer, err := e.db.Get(key)
	if err != nil {
		return nil, err
	}
	own := append([]byte(nil), v...)
	return own, closer.Close()
}

func (e *pebbleEngine) Set(key, value []byte) error { return e.db.Set(key, value, e.sync) }

func (e *pebbleEngine) Scan(from []byte, n int) (rows int, err error) {
	it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: from})
	if err != nil {
		return 0, err
	}
	for ok := it.First(); ok && rows < n; ok = it.Next() {
		_ = append([]byte(nil), it.Key()...)
		_ = append([]byte(nil), it.Value()...)
		rows++
	}
	return rows, errors.Join(it.Error(), it.Close())
}

func (e *pebbleEngine) Expect(int) {}

func (e *pebbleEngine) Close() error { return e.db.Close() }

type boltEngine struct {
	db     *bbolt.DB
	shared bool // several goroutines write
}

var bucket = []byte("bench")

func openBolt(dir string, d durability, _ caches) (engine, error) {
	db, err := bbolt.Open(dir+".bolt", 0o600, &bbolt.Options{NoSync: d != always})
	if err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucket)
		return err
	})
	return &boltEngine{db: db}, err
}

func (e *boltEngine) Get(key []byte) (own []byte, err error) {
	err = e.db.View(func(tx *bbolt.Tx) error {
		own = append([]byte(nil), tx.Bucket(bucket).Get(key)...)
		return nil
	})
	return own, err
}

// Set uses Batch, bbolt's own way of sharing a sync, if there are others to
// share it with: one that is alone would wait for them.
func (e *boltEngine) Set(key, value []byte) error {
	put := func(tx *bbolt.Tx) error { return tx.Bucket(bucket).Put(key, value) }
	if e.shared {
		return e.db.Batch(put)
	}
	return e.db.Update(put)
}

func (e *boltEngine) Expect(writers int) { e.shared = writers > 1 }

func (e *boltEngine) Scan(from []byte, n int) (rows int, err error) {
	err = e.db.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucket).Cursor()
		for k, v := c.Seek(from); k != nil && rows < n; k, v = c.Next() {
			_, _ = append([]byte(nil), k...), append([]byte(nil), v...)
			rows++
		}
		return nil
	})
	return rows, err
}

func (e *boltEngine) Close() error { return e.db.Close() }

type badgerEngine struct{ db *badger.DB }

func openBadger(dir string, d durability, c caches) (engine, error) {
	db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil).WithSyncWrites(d == always).
		WithBlockCacheSize(c.blocks + c.rows).WithMemTableSize(32 << 20))
	if err != nil {
		return nil, err
	}
	return &badgerEngine{db}, nil
}

func (e *badgerEngine) Get(key []byte) (own []byte, err error) {
	err = e.db.View(func(tx *badger.Txn) error {
		item, err := tx.Get(key)
		if err != nil {
			return err
		}
		own, err = item.ValueCopy(nil)
		return err
	})
	return own, err
}

func (e *badgerEngine) Set(key, value []byte) error {
	return e.db.Update(func(tx *badger.Txn) error { return tx.Set(key, value) })
}

func (e *badgerEngine) Scan(from []byte, n int) (rows int, err error) {
	err = e.db.View(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		for it.Seek(from); it.Valid() && rows < n; it.Next() {
			_ = it.Item().KeyCopy(nil)
			if _, err := it.Item().ValueCopy(nil); err != nil {
				return err
			}
			rows++
		}
		return nil
	})
	return rows, err
}

func (e *badgerEngine) Expect(int) {}

func (e *badgerEngine) Close() error { return e.db.Close() }
