package cleave

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cleavekv/cleave/internal/engine"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/partition"
)

// Txn is a transaction: a consistent state to read from, and writes that happen
// together when its function returns, or not at all. It belongs to the
// goroutine of that function and must not be used after it.
type Txn engine.Txn

// engine returns the transaction itself.
func (tx *Txn) engine() *engine.Txn { return (*engine.Txn)(tx) }

// Update runs f in a transaction and commits it. If something that f has read
// was changed by others meanwhile, nothing is committed and f runs again on the
// newer state, until ctx ends: so f must have no effects besides those on tx. Use
// the methods of tx in f, not those of a Keyspace, which are not part of it.
// If f returns an error, nothing is committed and Update returns it.
//
// Where the keys are does not matter: in one group the commit is one command, in
// several groups of one store one batch of theirs, and otherwise it takes two phases,
// see Options.Stores. A transaction that has failed three times waits for its turn,
// and then no other comes before it. Only time does: a key that it has read, or that is in a
// range that it has read, and that expires before the commit, has changed.
func (db *DB) Update(ctx context.Context, f func(tx *Txn) error) error {
	return toPublicError(db.engine.Update(ctx, func(tx *engine.Txn) error {
		tx.RecordLoad()
		return f((*Txn)(tx))
	}))
}

// View runs f on one consistent state, which stays the same for f whatever
// happens meanwhile.
func (db *DB) View(ctx context.Context, f func(tx *Txn) error) error {
	return toPublicError(db.engine.View(ctx, func(tx *engine.Txn) error {
		tx.RecordLoad()
		return f((*Txn)(tx))
	}))
}

// Cursor returns the place in the feed behind the state that the transaction reads:
// what it sees was committed before, and what comes there is not seen yet, but for
// writes of transactions across stores that it sees already, which come again.
func (tx *Txn) Cursor() (Cursor, error) {
	at, err := tx.engine().LogPositions()
	if err != nil {
		return "", toPublicError(err)
	}
	return Cursor(tx.engine().DB().FormatCursor(at)), nil
}

// toPosition checks a key and returns its position.
func (tx *Txn) toPosition(k *Keyspace, key []byte) (partition.Position, error) {
	if err := tx.checkUsable(k); err != nil {
		return nil, err
	}
	return k.appendPosition(nil, key)
}

// checkUsable refuses a keyspace of another DB, and a transaction that cannot go on.
func (tx *Txn) checkUsable(k *Keyspace) error {
	if err := tx.engine().Err(); err != nil {
		return toPublicError(err)
	}
	if k.db.engine != tx.engine().DB() {
		return optionErrorf("keyspace %s is of another DB than the transaction", k.Name())
	}
	return nil
}

// read evaluates a command that only reads on the transaction's state.
func (tx *Txn) read(k *Keyspace, p partition.Position, c command.Command) (command.Reply, error) {
	reply, err := tx.engine().Read(k.keyspace, p, c)
	return reply, toPublicError(err)
}

// write evaluates a command on the transaction's state and keeps it for the commit. seen reports
// whether the program learns something about the key from it.
func (tx *Txn) write(k *Keyspace, p partition.Position, c command.Command, seen bool) (command.Reply, error) {
	reply, err := tx.engine().Write(k.keyspace, p, c, seen)
	return reply, toPublicError(err)
}

// Get returns the value of a key, or ErrNotFound.
func (tx *Txn) Get(k *Keyspace, key []byte) ([]byte, error) {
	p, err := tx.toPosition(k, key)
	if err != nil {
		return nil, err
	}
	reply, err := tx.read(k, p, &command.Get{Key: p})
	if err == nil && reply.Kind == command.Nil {
		err = ErrNotFound
	}
	return reply.Bytes, err
}

// GetMany returns the values of keys in their order, nil for one that is absent.
func (tx *Txn) GetMany(k *Keyspace, keys ...[]byte) ([][]byte, error) {
	values := make([][]byte, len(keys))
	for i, key := range keys {
		value, err := tx.Get(k, key)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, fmt.Errorf("%s: %w", formatKey(k, key), err)
		}
		values[i] = value
	}
	return values, nil
}

// Item returns a key with its value, version and expiry, or ErrNotFound. The
// version of what the transaction wrote is 0: it is not known before the commit.
func (tx *Txn) Item(k *Keyspace, key []byte) (Item, error) {
	p, err := tx.toPosition(k, key)
	if err != nil {
		return Item{}, err
	}
	item, found, err := tx.engine().Item(k.keyspace, p)
	switch {
	case err != nil:
		return Item{}, toPublicError(err)
	case !found:
		return Item{}, ErrNotFound
	}
	item.Key = bytes.Clone(key)
	return toItem(item), nil
}

// Exists reports whether there is a key, whatever it holds.
func (tx *Txn) Exists(k *Keyspace, key []byte) (bool, error) {
	p, err := tx.toPosition(k, key)
	if err != nil {
		return false, err
	}
	reply, err := tx.read(k, p, &command.Exists{Keys: []partition.Position{p}})
	return reply.Int == 1, err
}

var errTxnRequest = optionErrorf("a transaction takes no Request: read a key that stands for the request, and set it in the same transaction; or use a Batch")

// Set stores a value.
func (tx *Txn) Set(k *Keyspace, key, value []byte) error {
	return tx.SetWith(k, key, value, SetOptions{})
}

// SetWith stores a value under conditions. Its versions are not known before
// the commit, so it returns none. A Request is refused: an Update may be made
// harmless to repeat by a key that it reads first and sets.
func (tx *Txn) SetWith(k *Keyspace, key, value []byte, o SetOptions) error {
	if o.Request != (RequestID{}) {
		return errTxnRequest
	}
	if o.IfVersion && o.Version >= engine.FirstTxnVersion {
		// No key has it, but what the transaction wrote looks as if it had.
		return fmt.Errorf("%w: version %d was never given out", ErrConflict, o.Version)
	}
	p, err := tx.toPosition(k, key)
	if err != nil {
		return err
	}
	c, err := o.toCommand(p, bytes.Clone(value))
	if err != nil {
		return err
	}
	// An expiry that is kept is what a later Item shows.
	seen := o.IfAbsent || o.IfPresent || o.IfVersion || o.KeepTTL
	reply, err := tx.write(k, p, c, seen)
	if err == nil && reply.Kind == command.Nil {
		err = ErrNotStored
	}
	return err
}

// Delete deletes keys and returns how many there were.
func (tx *Txn) Delete(k *Keyspace, keys ...[]byte) (n int, err error) {
	at := make([]partition.Position, len(keys))
	for i, key := range keys {
		if at[i], err = tx.toPosition(k, key); err != nil {
			return 0, err
		}
	}
	n, err = tx.engine().Delete(k.keyspace, at)
	return n, toPublicError(err)
}

// Add adds delta to the decimal number that the key holds and returns the sum.
func (tx *Txn) Add(k *Keyspace, key []byte, delta int64) (int64, error) {
	return tx.AddWith(k, key, delta, AddOptions{})
}

// AddWith is Add under conditions. A Request is refused, as that of a SetWith is.
func (tx *Txn) AddWith(k *Keyspace, key []byte, delta int64, o AddOptions) (int64, error) {
	if o.Request != (RequestID{}) {
		return 0, errTxnRequest
	}
	p, err := tx.toPosition(k, key)
	if err != nil {
		return 0, err
	}
	reply, err := tx.write(k, p, &command.Add{Key: p, Delta: delta, IfPresent: o.IfPresent}, true)
	if err == nil && reply.Kind == command.Nil {
		err = ErrNotStored
	}
	return reply.Int, err
}

// Expire makes a key expire after a time, and reports whether there is one. A time
// that is not positive deletes it. For the transaction the key does not expire before it
// ends. The time counts from the commit, or from the moment of the transaction's state if the
// keyspace has indexes.
func (tx *Txn) Expire(k *Keyspace, key []byte, after time.Duration) (bool, error) {
	p, err := tx.toPosition(k, key)
	if err != nil {
		return false, err
	}
	reply, err := tx.write(k, p, &command.Expire{Key: p, Expiry: command.ExpireIn(ceilMS(after))}, true)
	return reply.Int == 1, err
}

// Persist makes a key live for ever, and reports whether it had an expiry.
func (tx *Txn) Persist(k *Keyspace, key []byte) (bool, error) {
	p, err := tx.toPosition(k, key)
	if err != nil {
		return false, err
	}
	reply, err := tx.write(k, p, &command.Persist{Key: p}, true)
	return reply.Int == 1, err
}

// HGet returns the value of a field of the hash at key, or ErrNotFound.
func (tx *Txn) HGet(k *Keyspace, key, name []byte) ([]byte, error) {
	p, err := tx.toPosition(k, key)
	if err != nil {
		return nil, err
	}
	reply, err := tx.read(k, p, &command.HGet{Key: p, Field: name})
	if err == nil && reply.Kind == command.Nil {
		err = ErrNotFound
	}
	return reply.Bytes, err
}

// HGetAll returns all fields of the hash at key by name.
func (tx *Txn) HGetAll(k *Keyspace, key []byte) ([]Field, error) {
	p, err := tx.toPosition(k, key)
	if err != nil {
		return nil, err
	}
	reply, err := tx.read(k, p, &command.HGetAll{Key: p})
	return toFields(reply), err
}

// HSet sets fields of the hash at key and returns how many of them are new.
func (tx *Txn) HSet(k *Keyspace, key []byte, fields ...Field) (int, error) {
	p, err := tx.toPosition(k, key)
	if err != nil {
		return 0, err
	}
	reply, err := tx.write(k, p, newHSetCommand(p, fields, bytes.Clone), true)
	return int(reply.Int), err
}

// HDel removes fields of the hash at key and returns how many there were.
func (tx *Txn) HDel(k *Keyspace, key []byte, names ...[]byte) (int, error) {
	p, err := tx.toPosition(k, key)
	if err != nil {
		return 0, err
	}
	reply, err := tx.write(k, p, newHDelCommand(p, names, bytes.Clone), true)
	return int(reply.Int), err
}

// HAdd adds delta to the decimal number in a field of the hash at key and
// returns the sum.
func (tx *Txn) HAdd(k *Keyspace, key, name []byte, delta int64) (int64, error) {
	p, err := tx.toPosition(k, key)
	if err != nil {
		return 0, err
	}
	reply, err := tx.write(k, p, &command.HIncrBy{Key: p, Field: bytes.Clone(name), Delta: delta}, true)
	return reply.Int, err
}

// HLen returns how many fields the hash at key has, 0 if there is none.
func (tx *Txn) HLen(k *Keyspace, key []byte) (int, error) {
	p, err := tx.toPosition(k, key)
	if err != nil {
		return 0, err
	}
	reply, err := tx.read(k, p, &command.HLen{Key: p})
	return int(reply.Int), err
}

// HScanPage returns the next fields of the hash at key, as [Keyspace.HScanPage] does.
func (tx *Txn) HScanPage(k *Keyspace, key, after []byte, limit int) (fields []Field, next []byte, err error) {
	p, err := tx.toPosition(k, key)
	if err != nil {
		return nil, nil, err
	}
	return scanFields(p, after, limit, func(c *command.HScan) (command.Reply, error) { return tx.read(k, p, c) })
}
