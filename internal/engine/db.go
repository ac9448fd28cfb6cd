package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// DB is an open store. Its methods may be called by any goroutine.
type DB struct {
	node       *node.Node
	crossStore crossStorePredictor // of the next transaction
	cursorTag  string              // with which cursors begin
	log        *slog.Logger
	// indexWorkers build indexes, and follow the feed for those that are asynchronous.
	indexWorkers indexWorkers

	closeMu sync.Mutex // held while Close is at work
	closed  bool
}

// Open opens the store of a node.
func Open(o node.Options) (*DB, error) {
	n, err := node.Open(o)
	if err != nil {
		return nil, err
	}
	db := &DB{node: n, cursorTag: n.StoreHosts()[0].Store.ID().String()[:8], log: o.Log}
	if db.log == nil {
		db.log = slog.New(slog.DiscardHandler)
	}
	db.indexWorkers.startAll(db)
	return db, nil
}

// Close ends everything that the store runs and waits for it, and for functions of Update and View. A
// second call returns ErrClosed, when the first has returned.
func (db *DB) Close() error {
	db.closeMu.Lock()
	defer db.closeMu.Unlock()
	if db.closed {
		return ErrClosed
	}
	db.closed = true
	db.indexWorkers.stopAll()
	return db.node.Close(context.Background())
}

// Node returns the node that the engine runs on.
func (db *DB) Node() *node.Node { return db.node }

// Logger is where the engine logs.
func (db *DB) Logger() *slog.Logger { return db.log }

// DropKeyspace removes a keyspace with its keys and indexes.
func (db *DB) DropKeyspace(ctx context.Context, name string) error {
	err := db.node.DropKeyspace(ctx, name)
	db.indexWorkers.stopDropped()
	return err
}

// routeToGroup calls f with the group that has a position, again if it turns out that another has
// it.
func (db *DB) routeToGroup(ctx context.Context, p partition.Position, f func(*node.GroupHost) error) error {
	for attempt := 0; ; attempt++ {
		version := db.node.Map().Version()
		err := f(db.node.GroupHostAt(p))
		if !errors.Is(err, ownership.ErrWrongGroup) {
			return err
		}
		if err := db.node.WaitForNewMap(ctx, version, attempt); err != nil {
			return err
		}
	}
}

// AppendPosition checks a key and appends its position to dst.
func AppendPosition(dst []byte, k *node.Keyspace, key []byte) (partition.Position, error) {
	if err := k.CheckOpen(); err != nil {
		return nil, err
	}
	if err := command.CheckKey(key); err != nil {
		return nil, err
	}
	return k.AppendPosition(dst, key), nil
}

// CheckWritable refuses a keyspace that has the entries of an index.
func CheckWritable(k *node.Keyspace) error {
	if of := k.OwningIndex(); of != "" {
		return optionErrorf("keyspace %s has the entries of %s: write the rows, and they follow", k.Name, of)
	}
	return nil
}
