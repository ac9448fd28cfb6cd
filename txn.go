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
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

// Txn is a transaction: a consistent state to read from, and writes that happen
// together when its function returns, or not at all. It belongs to the
// goroutine of that function and must not be used after it.
type Txn struct {
	ctx      context.Context
	db       *DB
	readOnly bool

	host  *node.Host // of the first key; all others must be there too
	first place      // that key, unless it was a scan
	view  *node.View
	env   *command.Env
	reads map[string]uint64 // versions by position, 0 for absent
	// reading is the key whose row counts as read if it is looked at, nil for
	// none.
	reading partition.Position
	ranges  []command.RangeRead
	writes  []txnWrite
	used    gates // keyspaces that it read or wrote
	err     error // why it cannot commit
}

// Update runs f in a transaction and commits it. If something that f has read
// was changed by others meanwhile, nothing is committed and f runs again on the
// newer state, until ctx ends: so f must have no effects besides those on tx. Use
// the methods of tx in f, not those of a Keyspace, which are not part of it.
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
	if tx.view != nil {
		tx.view.Close()
		tx.view, tx.env = nil, nil
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
	if err := command.CheckTxn(len(tx.reads)+len(tx.ranges)+len(tx.writes), tx.env.Effects().Size()); err != nil {
		return public(err)
	}
	replies, err := atOnce(tx.ctx, tx.pieces())
	for i := range replies {
		if err == nil {
			err = replies[i].Err
		}
	}
	if errors.Is(err, command.ErrConflict) || errors.Is(err, own.ErrWrongGroup) {
		// Not a conflict of a conditional Set: f was told of that when it called it.
		return errRetry
	}
	return public(err)
}

// txnWrite is a command that is kept for the commit.
type txnWrite struct {
	at      place
	command command.Command
}

// pieces are what the transaction has read and written by the groups that have it.
func (tx *Txn) pieces() (pieces []piece) {
	commit := func(at place) *command.Commit {
		part := at.part()
		i := slices.IndexFunc(pieces, func(p piece) bool { return p.part == part })
		if i < 0 {
			i = len(pieces)
			pieces = append(pieces, piece{part, at, group.Request{Command: &command.Commit{}, Gate: tx.used}})
		}
		return pieces[i].request.Command.(*command.Commit)
	}
	k := tx.writes[0].at.k // for places: only the position counts
	for key, version := range tx.reads {
		c := commit(place{k, partition.Position(key)})
		c.Reads = append(c.Reads, command.Read{Key: partition.Position(key), Version: version})
	}
	for _, r := range tx.ranges {
		c := commit(place{k, r.Start})
		c.Ranges = append(c.Ranges, r)
	}
	for _, w := range tx.writes {
		c := commit(w.at)
		c.Writes.Commands = append(c.Writes.Commands, w.command)
	}
	return pieces
}

// begin takes the state at the first use.
func (tx *Txn) begin(host *node.Host) error {
	switch {
	case tx.err != nil:
		return tx.err
	case tx.host == host:
		return nil
	case tx.host != nil:
		return ErrCrossGroup
	}
	if err := tx.ctx.Err(); err != nil {
		return err
	}
	v, err := host.View(tx.ctx)
	if err != nil {
		return public(err)
	}
	tx.host, tx.view = host, v
	tx.env = command.NewEnv((*txnReader)(tx))
	tx.env.SetGuard((*txnGuard)(tx))
	tx.env.Begin(effect.Header{ClockMS: v.LatestMS()}, firstTxnVersion)
	return nil
}

// txnGuard judges keys by the groups that served them at the transaction's moment.
type txnGuard Txn

// Read implements [command.Guard].
func (g *txnGuard) Read(p partition.Position) error {
	_, err := g.view.NowMS(p)
	return err
}

// Write implements [command.Guard].
func (g *txnGuard) Write(p partition.Position) error { return g.Read(p) }

// ReadSpan implements [command.Guard].
func (g *txnGuard) ReadSpan(s partition.Span) error { return g.view.Serves(s) }

// JudgeMS implements [command.Guard].
func (g *txnGuard) JudgeMS(p partition.Position, nowMS int64) int64 {
	if t, err := g.view.NowMS(p); err == nil {
		return t
	}
	return nowMS
}

// firstTxnVersion is above all versions that are ever given out: what a
// transaction has written gets its version at the commit.
const firstTxnVersion = 1 << 62

// use notes that a keyspace must still be there at the commit: also one that was only
// read, or the transaction could take place neither before its end nor after.
func (tx *Txn) use(k *Keyspace) {
	if !slices.Contains(tx.used, k.space) {
		tx.used = append(tx.used, k.space)
	}
}

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
	value, ok, err := r.view.Get(key, dst)
	if err != nil || r.reading == nil || key[0] != byte(effect.Rows) || !bytes.Equal(key[1:], r.reading) {
		return value, ok, err
	}
	version := uint64(0)
	if ok {
		row, err := command.DecodeRow(value[len(dst):])
		if err != nil {
			return value, ok, err
		}
		if row.Alive((*txnGuard)(r).JudgeMS(r.reading, r.env.NowMS())) {
			version = row.Version
		}
	}
	r.reads[string(r.reading)] = version
	return value, ok, nil
}

// Scan implements [command.Reader]. What it visits belongs to a collection
// whose row was read.
func (r *txnReader) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	return r.view.Scan(start, end, reverse, visit)
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
	tx.use(k)
	at := place{k, p}
	err = tx.begin(at.part().Host)
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
	if errors.Is(reply.Err, own.ErrWrongGroup) {
		tx.err = errRetry
		return command.Reply{}, tx.err
	}
	if reply.Err != nil {
		return command.Reply{}, public(named(place{k, p}, reply.Err))
	}
	if writes {
		tx.writes = append(tx.writes, txnWrite{place{k, p}, cmd})
	}
	return reply.Clone(), nil
}
