package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/partition"
)

// Txn is a transaction: a consistent state to read from, and writes that happen
// together when its function returns, or not at all. It belongs to the
// goroutine of that function and must not be used after it.
//
// Invariant: all of reads and rangeReads is of the state in snapshot, unless err is errRetry.
type Txn struct {
	ctx      context.Context
	db       *DB
	readOnly bool
	// allStores takes the state of all stores at once: one that has to be taken again
	// cannot be seen to its end.
	allStores bool

	snapshot     *node.Snapshot // of the stores that it has touched, or of all if it only reads
	env          *command.Env
	beforeWrites command.Savepoint // before the first write
	reads        map[string]uint64 // versions by position, 0 for absent
	// trackedKey is the key whose row counts as read if it is looked at, nil for
	// none.
	trackedKey partition.Position
	rangeReads []command.RangeRead
	openScans  []*txnScan // under way
	writes     []txnWrite
	// expiryClocks are keys that it has given an expiry: that does not come while it is under way.
	expiryClocks map[string]expiryClock
	keyspaces    usedKeyspaces // keyspaces that it read or wrote
	// indexedRows are those of indexed keyspaces that it wrote.
	indexedRows map[string]*indexedRow
	touchedRows []*indexedRow // in the order in which they were
	// uniqueEntries are entries that no other row may have, if theirs still does at the commit.
	uniqueEntries []uniqueEntry
	// reservation names the transaction if it holds what it needs.
	reservation txn.ID
	// recordsLoad reports whether it is counted: see RecordLoad.
	recordsLoad bool
	// turn is that of the writer: it is the same in all attempts.
	turn *writerTurn
	err  error // why it cannot commit
}

// Update runs f in a transaction and commits it. If something that f has read
// was changed by others meanwhile, nothing is committed and f runs again on the
// newer state, until ctx ends: so f must have no effects besides those on tx. If f returns
// an error, nothing is committed and Update returns it.
//
// In one group the commit is one command, in several groups of one store one batch of theirs, and
// otherwise it takes two phases. After attemptsBeforeReserve conflicts a transaction reserves what
// it has touched, and is tried before others.
func (db *DB) Update(ctx context.Context, f func(tx *Txn) error) error {
	return db.update(ctx, patientTurn, f)
}

// update is Update of a writer that has a turn.
func (db *DB) update(ctx context.Context, turn writerTurn, f func(tx *Txn) error) error {
	attempts, err := db.runUpdate(ctx, turn, f)
	if errors.Is(err, errRetry) {
		return fmt.Errorf("%w: %d attempts: %w", ErrConflict, attempts, ctx.Err())
	}
	return err
}

// runUpdate is Update, but if ctx ends before it is committed the error is errRetry.
func (db *DB) runUpdate(ctx context.Context, turn writerTurn, f func(tx *Txn) error) (attempts int, err error) {
	if err := db.node.CheckOpen(); err != nil { // whether f touches anything or not
		return 0, err
	}
	var spans []txn.ReservedSpan // of the last attempt
	return db.retryUntilCommitted(ctx, func() []txn.ReservedSpan { return spans }, func(attempt int, reservation txn.ID) (err error) {
		spans, err = db.tryUpdate(ctx, f, &turn, attempt > 0, reservation)
		return err
	})
}

// View runs f on one consistent state, which stays the same for f whatever
// happens meanwhile.
func (db *DB) View(ctx context.Context, f func(tx *Txn) error) error {
	if err := db.node.CheckOpen(); err != nil {
		return err
	}
	tx := &Txn{ctx: ctx, db: db, readOnly: true, allStores: true}
	defer tx.close()
	return f(tx)
}

// tryUpdate runs f once, and returns what it has touched if it must be tried again.
func (db *DB) tryUpdate(ctx context.Context, f func(tx *Txn) error, turn *writerTurn, again bool, reservation txn.ID) ([]txn.ReservedSpan, error) {
	tx := &Txn{ctx: ctx, db: db, allStores: again || db.crossStore.isLikely(db.node), reads: map[string]uint64{}, reservation: reservation, turn: turn}
	defer tx.close()
	err := f(tx)
	switch {
	case errors.Is(tx.err, errRetry):
		err = tx.err // whatever f made of it: what it has read is not of one state
	case err == nil:
		err = tx.commit()
	}
	if !errors.Is(err, errRetry) {
		return nil, err
	}
	return tx.spansToReserve(), err
}

func (tx *Txn) close() {
	if tx.snapshot != nil {
		tx.snapshot.Close()
		tx.snapshot, tx.env = nil, nil
	}
	tx.err = ErrTxnOver
}

// attemptsBeforeReserve is how often a transaction tries before it asks others to wait.
const attemptsBeforeReserve = 3

// retryUntilCommitted tries to commit until that is no conflict, or ctx ends: then the error
// is errRetry. After attemptsBeforeReserve it waits for its turn, and then tries under the id
// that it is held by.
func (db *DB) retryUntilCommitted(ctx context.Context, spans func() []txn.ReservedSpan, try func(attempt int, reservation txn.ID) error) (attempts int, err error) {
	for attempt := 0; ; attempt++ {
		attempts++
		var touched []txn.ReservedSpan
		if attempt >= attemptsBeforeReserve {
			touched = spans()
		}
		if len(touched) == 0 {
			err = try(attempt, txn.ID{})
		} else {
			err = db.withReservation(ctx, touched, func(id txn.ID) error { return try(attempt, id) })
		}
		if !errors.Is(err, errRetry) {
			return attempts, err
		}
		db.node.Counters.Retries.Add(1)
		db.recordConflict(err)
		if db.waitBeforeRetry(ctx, attempt, err) != nil {
			return attempts, err
		}
		if errors.Is(err, txn.ErrReserved) {
			attempt = max(attempt, attemptsBeforeReserve-1) // others stand in a queue: so do we
		}
	}
}

// withReservation calls f when it is the turn of a transaction that reserves something, with the
// id that it is to be committed under.
func (db *DB) withReservation(ctx context.Context, spans []txn.ReservedSpan, f func(txn.ID) error) error {
	id, release, err := db.node.Reserve(ctx, spans)
	if isRetryable(err) {
		return fmt.Errorf("%w: %w", errRetry, err)
	}
	if err != nil {
		return err
	}
	defer release()
	db.node.Counters.Reserved.Add(1)
	return f(id)
}

// waitBeforeRetry waits before the next attempt: for a lock that was met to be gone; else not at
// all at first, then longer and longer, at random, so that two that collide do not
// go on in step.
func (db *DB) waitBeforeRetry(ctx context.Context, attempt int, met error) error {
	most := time.Millisecond << min(attempt, 6)
	switch {
	case errors.Is(met, txn.ErrLocked):
		return db.node.WaitForUnlock(ctx, met, most)
	case attempt < 2 || errors.Is(met, txn.ErrReserved):
		return ctx.Err()
	}
	return db.node.WaitForUnlock(ctx, met, rand.N(most))
}

// isRetryable reports whether what a transaction has met is no fault of its own, and passes:
// others that are under way, or a shard on its way to another group.
func isRetryable(err error) bool {
	return err != nil && (errors.Is(err, ownership.ErrWrongGroup) || errors.Is(err, node.ErrIndexesChanged) || errors.Is(err, txn.ErrLocked) || errors.Is(err, txn.ErrReserved) ||
		errors.Is(err, txn.ErrDeadline) || errors.Is(err, txn.ErrFinished))
}

// DB returns the store that the transaction is of.
func (tx *Txn) DB() *DB { return tx.db }

// Err returns why the transaction cannot go on, or nil.
func (tx *Txn) Err() error { return tx.err }

// extendSnapshot takes the state of stores at their first use. One that only reads takes that
// of all at once, as nothing reports whether what it has read is still so; so does one
// that has failed before, to learn all that it touches, and one that is expected to
// need several.
func (tx *Txn) extendSnapshot(hosts ...*node.StoreHost) error {
	if tx.err != nil {
		return tx.err
	}
	if tx.snapshot != nil {
		hosts = slices.DeleteFunc(slices.Clone(hosts), tx.snapshot.HasStore)
		if len(hosts) == 0 {
			return nil
		}
		hosts = append(tx.snapshot.StoreHosts(), hosts...)
	} else if tx.allStores {
		hosts = tx.db.node.StoreHosts()
	}
	if err := tx.ctx.Err(); err != nil {
		return err
	}
	v, err := tx.db.node.Snapshot(tx.ctx, hosts...)
	if err != nil {
		return err
	}
	was := tx.snapshot
	if was != nil {
		tx.recordScans()
	}
	if tx.snapshot = v; was == nil {
		tx.env = command.NewEnv((*txnReader)(tx))
		tx.env.SetGuard((*txnGuard)(tx))
		tx.env.Begin(effect.Header{ClockMS: v.LatestMS()}, FirstTxnVersion)
		tx.beforeWrites = tx.env.Savepoint()
		return nil
	}
	was.Close()
	return tx.validateReads()
}

// validateReads reports whether all that was read is the same in a state that was taken later:
// then all of it is of that state.
func (tx *Txn) validateReads() error {
	for key, version := range tx.reads {
		now, err := tx.readVersion(partition.Position(key))
		if err != nil && !errors.Is(err, ownership.ErrWrongGroup) {
			return err
		}
		if err != nil || now != version {
			tx.err = errRetry
			return tx.err
		}
	}
	for _, r := range tx.rangeReads {
		s := partition.Span{Start: r.Start, End: r.End}
		err := tx.snapshot.CheckServed(s)
		var digest command.Digest
		if err == nil {
			digest, err = tx.digestSpan(s)
		}
		if err != nil && !errors.Is(err, ownership.ErrWrongGroup) {
			return err
		}
		if err != nil || digest != r.Digest {
			tx.err = errRetry
			return tx.err
		}
	}
	return nil
}

// readVersion returns the version of a key in the transaction's state, 0 if it is absent.
func (tx *Txn) readVersion(p partition.Position) (uint64, error) {
	nowMS, err := tx.snapshot.NowMS(p)
	if err != nil {
		return 0, err
	}
	value, ok, err := tx.snapshot.Get(effect.Rows.AppendKey(nil, p), nil)
	if err != nil || !ok {
		return 0, err
	}
	row, err := command.DecodeRow(value)
	if err != nil || !row.IsAlive(nowMS) {
		return 0, err
	}
	return row.Version, nil
}

// txnGuard judges keys by the groups that served them at the transaction's moment.
type txnGuard Txn

// CheckRead implements [command.Guard].
func (g *txnGuard) CheckRead(p partition.Position) error {
	_, err := g.snapshot.NowMS(p)
	return err
}

// CheckWrite implements [command.Guard].
func (g *txnGuard) CheckWrite(p partition.Position) error { return g.CheckRead(p) }

// CheckReadSpan implements [command.Guard].
func (g *txnGuard) CheckReadSpan(s partition.Span) error { return g.snapshot.CheckServed(s) }

// ExpiryCheckMS implements [command.Guard].
func (g *txnGuard) ExpiryCheckMS(p partition.Position, nowMS int64) int64 {
	if t, err := (*Txn)(g).nowMSAt(p); err == nil {
		return t
	}
	return nowMS
}

// nowMSAt is the time by which a key is judged.
func (tx *Txn) nowMSAt(p partition.Position) (int64, error) {
	if len(tx.expiryClocks) > 0 {
		if d, ok := tx.expiryClocks[string(p)]; ok {
			return d.nowMS, nil
		}
	}
	return tx.snapshot.NowMS(p)
}

// txnReader reads from the transaction's state, and notes what it read.
type txnReader Txn

// Get implements [command.Reader]. Elements need not be noted: the row of their
// collection has another version after each change of one.
func (r *txnReader) Get(key, dst []byte) ([]byte, bool, error) {
	value, ok, err := r.snapshot.Get(key, dst)
	if err != nil || r.trackedKey == nil || key[0] != byte(effect.Rows) || !bytes.Equal(key[1:], r.trackedKey) {
		return value, ok, err
	}
	version := uint64(0)
	if ok {
		row, err := command.DecodeRow(value[len(dst):])
		if err != nil {
			return value, ok, err
		}
		if row.IsAlive((*txnGuard)(r).ExpiryCheckMS(r.trackedKey, r.env.NowMS())) {
			version = row.Version
		}
	}
	r.reads[string(r.trackedKey)] = version
	return value, ok, nil
}

// Scan implements [command.Reader]. What it visits belongs to a collection
// whose row was read.
func (r *txnReader) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	return r.snapshot.Scan(start, end, reverse, visit)
}

// crossStorePredictor reports whether the next transaction is likely to need several stores, by those
// before it. It may be wrong: a transaction that takes the state of one store too many has done some
// work in vain, and so has one that reads everything again when it comes to the
// second store.
type crossStorePredictor struct{ score atomic.Int32 }

// How sure a guess gets, and how many stores are looked at because of one.
const (
	maxCrossStoreScore = 8
	maxPredictedStores = 4
)

// record notes whether a transaction needed several stores.
func (g *crossStorePredictor) record(needed bool) {
	n := g.score.Load()
	switch {
	case needed && n < maxCrossStoreScore:
		g.score.Store(n + 1) // others may have noted theirs meanwhile: it is a guess
	case !needed && n > 0:
		g.score.Store(n - 1)
	}
}

func (g *crossStorePredictor) isLikely(n *node.Node) bool {
	return g.score.Load() > maxCrossStoreScore/2 && len(n.StoreHosts()) <= maxPredictedStores
}

// LogPositions returns the place in the feed behind the state that the transaction reads.
func (tx *Txn) LogPositions() ([]wal.Position, error) {
	if err := tx.extendSnapshot(tx.db.node.StoreHosts()...); err != nil {
		return nil, err
	}
	return tx.snapshot.LogPositions(), nil
}
