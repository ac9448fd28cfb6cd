package cleave

import (
	"context"

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
	return toPublicError(db.engine.Update(ctx, func(tx *engine.Txn) error { return f((*Txn)(tx)) }))
}

// View runs f on one consistent state, which stays the same for f whatever
// happens meanwhile.
func (db *DB) View(ctx context.Context, f func(tx *Txn) error) error {
	return toPublicError(db.engine.View(ctx, func(tx *engine.Txn) error { return f((*Txn)(tx)) }))
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
