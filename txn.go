package cleave

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/partition"
)

// Txn is a transaction: a consistent state to read from, and writes that happen
// together when its function returns, or not at all. It belongs to the
// goroutine of that function and must not be used after it.
type Txn struct {
	ctx      context.Context
	db       *DB
	readOnly bool

	part  *node.Part // of the first key; all others must be there too
	first place      // that key, unless it was a scan
	snap  *store.Snapshot
	env   *command.Env
	reads map[string]uint64 // versions by position, 0 for absent
	// reading is the key whose row counts as read if it is looked at, nil for
	// none.
	reading partition.Position
	ranges  []command.RangeRead
	writes  []command.Command
	wrote   gates // that writes are to
	err     error // why it cannot commit
}

// Update runs f in a transaction and commits it. If something that f has read
// was changed by others meanwhile, nothing is committed and f runs again on the
// newer state, until ctx ends: so f must have no effects besides those on tx.
// If f returns an error, nothing is committed and Update returns it.
//
// All keys must live in one store: see Options.Stores and ErrCrossGroup.
func (db *DB) Update(ctx context.Context, f func(tx *Txn) error) error {
	for attempt := 0; ; attempt++ {
		err := db.attempt(ctx, f)
		if !errors.Is(err, errRetry) {
			return err
		}
		if err := pause(ctx, attempt); err != nil {
			return fmt.Errorf("%w: %d attempts: %w", ErrConflict, attempt+1, err)
		}
	}
}

// errRetry is a conflict of the transaction itself, as opposed to one that its
// function has met.
var errRetry = errors.New("cleave: retry")

// pause waits before the next attempt: not at all at first, then longer and
// longer, at random, so that two that collide do not go on in step.
func pause(ctx context.Context, attempt int) error {
	if attempt < 2 {
		return ctx.Err()
	}
	most := time.Millisecond << min(attempt, 6)
	timer := time.NewTimer(rand.N(most))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (db *DB) attempt(ctx context.Context, f func(tx *Txn) error) error {
	tx := &Txn{ctx: ctx, db: db, reads: map[string]uint64{}}
	defer tx.close()
	if err := f(tx); err != nil {
		return err
	}
	return tx.commit()
}

// View runs f on one consistent state, which stays the same for f whatever
// happens meanwhile. All keys must live in one store, as in Update.
func (db *DB) View(ctx context.Context, f func(tx *Txn) error) error {
	tx := &Txn{ctx: ctx, db: db, readOnly: true}
	defer tx.close()
	return f(tx)
}

func (tx *Txn) close() {
	if tx.snap != nil {
		tx.snap.Close()
		tx.snap, tx.env = nil, nil
	}
	tx.err = ErrTxnOver
}

// commit executes what the transaction wrote, if what it read is still so.
func (tx *Txn) commit() error {
	if tx.err != nil {
		return tx.err
	}
	if len(tx.writes) == 0 {
		return nil // it saw one state: that is when it took place
	}
	c := &command.Commit{Ranges: tx.ranges, Writes: command.Batch{Commands: tx.writes}}
	for key, version := range tx.reads {
		c.Reads = append(c.Reads, command.Read{Key: partition.Position(key), Version: version})
	}
	reply, err := tx.part.Group.Do(tx.ctx, group.Request{Command: c, Gate: tx.wrote})
	if err != nil {
		return public(err)
	}
	if errors.Is(reply.Err, command.ErrConflict) {
		// Not one of a conditional Set: f was told of that when it called it.
		return errRetry
	}
	return public(reply.Err)
}

// begin takes the state at the first use.
func (tx *Txn) begin(part *node.Part) error {
	switch {
	case tx.err != nil:
		return tx.err
	case tx.part == part:
		return nil
	case tx.part != nil:
		return ErrCrossGroup
	}
	if err := tx.ctx.Err(); err != nil {
		return err
	}
	snap, now, err := part.Snapshot(tx.ctx)
	if err != nil {
		return public(err)
	}
	tx.part, tx.snap = part, snap
	tx.env = command.NewEnv((*txnReader)(tx))
	tx.env.Begin(effect.Header{ClockMS: now}, firstTxnVersion)
	return nil
}

// firstTxnVersion is above all versions that are ever given out: what a
// transaction has written gets its version at the commit.
const firstTxnVersion = 1 << 62

// own refuses a keyspace of another DB.
func (tx *Txn) own(k *Keyspace) error {
	if k.db != tx.db {
		return optionError("keyspace %s is of another DB than the transaction", k.Name())
	}
	return nil
}

// txnReader reads from the transaction's state, and notes what it read.
type txnReader Txn

// Get implements [command.Reader]. Elements need not be noted: the row of their
// collection has another version after each change of one.
func (r *txnReader) Get(key, dst []byte) ([]byte, bool, error) {
	value, ok, err := r.snap.Get(key, dst)
	if err != nil || r.reading == nil || key[0] != byte(effect.Rows) || !bytes.Equal(key[1:], r.reading) {
		return value, ok, err
	}
	version := uint64(0)
	if ok {
		row, err := command.DecodeRow(value[len(dst):])
		if err != nil {
			return value, ok, err
		}
		if row.Alive(r.env.NowMS()) {
			version = row.Version
		}
	}
	r.reads[string(r.reading)] = version
	return value, ok, nil
}

// Scan implements [command.Reader]. What it visits belongs to a collection
// whose row was read.
func (r *txnReader) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	return r.snap.Scan(start, end, reverse, visit)
}

// locate checks a key and begins the transaction where it is.
func (tx *Txn) locate(k *Keyspace, key []byte, writes bool) (partition.Position, error) {
	if tx.err != nil {
		return nil, tx.err
	}
	if err := tx.own(k); err != nil {
		return nil, err
	}
	p, err := k.position(nil, key)
	if err != nil {
		return nil, err
	}
	if writes && tx.readOnly {
		return nil, ErrReadOnly
	}
	at := place{k, p}
	err = tx.begin(at.part())
	switch {
	case errors.Is(err, ErrCrossGroup) && tx.first.k != nil:
		return nil, crossGroup(tx.first, at)
	case errors.Is(err, ErrCrossGroup):
		return nil, fmt.Errorf("%w: %v and what was scanned before it", err, at)
	case err == nil && tx.first.k == nil:
		tx.first = at
	}
	return p, err
}

// do evaluates a command on the transaction's state. One that writes is kept
// for the commit; seen tells whether f learns something from it.
func (tx *Txn) do(k *Keyspace, key []byte, writes, seen bool, c func(partition.Position) (command.Command, error)) (command.Reply, error) {
	p, err := tx.locate(k, key, writes)
	if err != nil {
		return command.Reply{}, err
	}
	cmd, err := c(p)
	if err != nil {
		return command.Reply{}, err
	}
	if tx.reading = nil; seen && !tx.readOnly {
		tx.reading = p
	}
	reply := tx.env.Do(cmd)
	if reply.Err != nil {
		return command.Reply{}, public(reply.Err)
	}
	if writes {
		tx.writes = append(tx.writes, cmd)
		if !slices.Contains(tx.wrote, k.space) {
			tx.wrote = append(tx.wrote, k.space)
		}
	}
	return reply.Clone(), nil
}
