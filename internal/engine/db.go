// Package engine is the runtime of a store: it executes commands on keys wherever they are.
//
// It speaks in commands, positions and [node.Keyspace], and knows nothing of the public types. Package
// cleave is the typed API over it, and the server executes Redis commands on it.
//
//   - [DB.Execute] and [DB.Read] execute one command, on the group that has the key.
//   - [DB.Update] and [DB.View] run a function in a transaction: [Txn]. [DB.UpdateCommands] and
//     [DB.ViewCommands] do so for a caller that speaks commands alone: [CommandTxn].
//   - [DB.Write] executes a [Batch], which reads nothing.
//   - [DB.Scan] and [DB.ScanKeys] visit the keys of a span, as of one moment.
//   - [FeedReader] and [DB.FollowEvents] follow what is committed.
//   - [Index] is an index: transactions maintain it, and a worker of the DB builds it and keeps an
//     asynchronous one up with its rows.
//
// The promises to a program are in package cleave; DESIGN.md has the life of a transaction and
// the invariants. The engine owns no files and no groups: see package node.
//
// Errors are those of this package, or of the packages below. Package cleave gives them their public
// names.
package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/load"
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

// Execute executes a command that writes on the group of its first key. An id that is not zero makes
// a retry harmless.
func (db *DB) Execute(ctx context.Context, k *node.Keyspace, p partition.Position, id group.RequestID, c command.Command) (command.Reply, error) {
	op, bytesIn := db.beginOp(p), countWrittenBytes(c)
	reply, err := db.execute(ctx, k, p, id, c)
	db.endOp(op, p, c, load.Op{Write: true, Failed: err != nil, BytesIn: bytesIn, BytesOut: countReplyBytes(&reply)})
	return reply, err
}

func (db *DB) execute(ctx context.Context, k *node.Keyspace, p partition.Position, id group.RequestID, c command.Command) (command.Reply, error) {
	if err := CheckWritable(k); err != nil {
		return command.Reply{}, err
	}
	if k.Indexes() != nil {
		return db.executeIndexed(ctx, k, p, id, c)
	}
	if !db.node.WriteLimits().IsEmpty() {
		if err := db.waitForTurn(ctx, func(yield func(partition.Position) bool) { yield(p) }); err != nil {
			return command.Reply{}, err
		}
	}
	r := group.Request{Command: c, Key: p, ID: id, Gate: node.UnindexedGate{Keyspace: k}}
	reply, err := db.node.GroupHostAt(p).Group.Execute(ctx, r)
	if err == nil {
		err = reply.Err
	}
	if errors.Is(err, ownership.ErrWrongGroup) {
		err = db.routeToGroup(ctx, p, func(part *node.GroupHost) (err error) {
			if reply, err = part.Group.Execute(ctx, r); err == nil {
				err = reply.Err
			}
			return err
		})
	}
	if errors.Is(err, node.ErrIndexesChanged) { // it has got one meanwhile
		return db.executeIndexed(ctx, k, p, id, c)
	}
	return reply, withKeyName(keyRef{k, p}, err)
}
