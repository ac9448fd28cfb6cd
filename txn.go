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
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// Txn is a transaction: a consistent state to read from, and writes that happen
// together when its function returns, or not at all. It belongs to the
// goroutine of that function and must not be used after it.
type Txn struct {
	ctx      context.Context
	db       *DB
	readOnly bool
	// wide takes the state of all stores at once: one that has to be taken again
	// cannot be seen to its end.
	wide bool

	view  *node.View // of the stores that it has touched, or of all if it only reads
	env   *command.Env
	reads map[string]uint64 // versions by position, 0 for absent
	// reading is the key whose row counts as read if it is looked at, nil for
	// none.
	reading partition.Position
	ranges  []command.RangeRead
	scans   []*scanRead // under way
	writes  []txnWrite
	// dated are keys that it has given an expiry: that does not come while it is under way.
	dated map[string]dating
	used  uses // keyspaces that it read or wrote
	// rows are those of indexed keyspaces that it wrote.
	rows    map[string]*indexedRow
	touched []*indexedRow // in the order in which they were
	// uniques are entries that no other row may have, if theirs still does at the commit.
	uniques []uniqueEntry
	// hold names the transaction if it holds what it needs.
	hold txn.ID
	err  error // why it cannot commit
}

// Update runs f in a transaction and commits it. If something that f has read
// was changed by others meanwhile, nothing is committed and f runs again on the
// newer state, until ctx ends: so f must have no effects besides those on tx. Use
// the methods of tx in f, not those of a Keyspace, which are not part of it.
// If f returns an error, nothing is committed and Update returns it.
//
// Where the keys are does not matter: in one group the commit is one command, in
// several groups of one store one batch of theirs, and otherwise it takes two phases,
// see Options.Stores. A transaction that has failed three times waits for its turn,
// and then nobody comes before it. Only time does: a key that it has read, or that is in a
// range that it has read, and that expires before the commit, has changed.
func (db *DB) Update(ctx context.Context, f func(tx *Txn) error) error {
	attempts, err := db.update(ctx, f)
	if errors.Is(err, errRetry) {
		return fmt.Errorf("%w: %d attempts: %w", ErrConflict, attempts, ctx.Err())
	}
	return err
}

// update is Update, but if ctx ends before it is committed the error is errRetry.
func (db *DB) update(ctx context.Context, f func(tx *Txn) error) (attempts int, err error) {
	if err := db.node.Closed(); err != nil { // whether f touches anything or not
		return 0, public(err)
	}
	var claims []txn.Claim // of the last attempt
	return db.untilCommitted(ctx, func() []txn.Claim { return claims }, func(attempt int, hold txn.ID) (err error) {
		claims, err = db.attempt(ctx, f, attempt > 0, hold)
		return err
	})
}

// patientAttempts is how often a transaction tries before it asks others to wait.
const patientAttempts = 3

// untilCommitted tries to commit until that is no conflict, or ctx ends: then the error
// is errRetry. After patientAttempts it waits for its turn, and then tries under the id
// that it is held by.
func (db *DB) untilCommitted(ctx context.Context, claims func() []txn.Claim, try func(attempt int, hold txn.ID) error) (attempts int, err error) {
	for attempt := 0; ; attempt++ {
		attempts++
		var touched []txn.Claim
		if attempt >= patientAttempts {
			touched = claims()
		}
		if len(touched) == 0 {
			err = try(attempt, txn.ID{})
		} else {
			err = db.holding(ctx, touched, func(id txn.ID) error { return try(attempt, id) })
		}
		if !errors.Is(err, errRetry) {
			return attempts, err
		}
		db.node.Count.Retries.Add(1)
		if db.pause(ctx, attempt, err) != nil {
			return attempts, err
		}
		if errors.Is(err, txn.ErrHeld) {
			attempt = max(attempt, patientAttempts-1) // others stand in a queue: so do we
		}
	}
}

// holding calls f when it is the turn of a transaction that claims something, with the
// id that it is to be committed under.
func (db *DB) holding(ctx context.Context, claims []txn.Claim, f func(txn.ID) error) error {
	id, release, err := db.node.Hold(ctx, claims)
	if passes(err) {
		return fmt.Errorf("%w: %w", errRetry, err)
	}
	if err != nil {
		return public(err)
	}
	defer release()
	db.node.Count.InTurn.Add(1)
	return f(id)
}

// errRetry is a conflict of the transaction itself, as opposed to one that its
// function has met.
var errRetry = errors.New("cleave: retry")

// pause waits before the next attempt: for a lock that was met to be gone; else not at
// all at first, then longer and longer, at random, so that two that collide do not
// go on in step.
func (db *DB) pause(ctx context.Context, attempt int, met error) error {
	most := time.Millisecond << min(attempt, 6)
	switch {
	case errors.Is(met, txn.ErrLocked):
		return db.node.Wait(ctx, met, most)
	case attempt < 2 || errors.Is(met, txn.ErrHeld):
		return ctx.Err()
	}
	return db.node.Wait(ctx, met, rand.N(most))
}

// attempt runs f once, and returns what it has touched if it must be tried again.
func (db *DB) attempt(ctx context.Context, f func(tx *Txn) error, again bool, hold txn.ID) ([]txn.Claim, error) {
	tx := &Txn{ctx: ctx, db: db, wide: again || db.apart.expected(db.node), reads: map[string]uint64{}, hold: hold}
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
	return tx.claims(), err
}

// View runs f on one consistent state, which stays the same for f whatever
// happens meanwhile.
func (db *DB) View(ctx context.Context, f func(tx *Txn) error) error {
	if err := db.node.Closed(); err != nil {
		return public(err)
	}
	tx := &Txn{ctx: ctx, db: db, readOnly: true, wide: true}
	defer tx.close()
	return f(tx)
}

// Cursor returns the place in the feed behind the state that the transaction reads:
// what it sees was committed before, and what comes there is not seen yet, but for
// writes of transactions across stores that it sees already, which are told again.
func (tx *Txn) Cursor() (Cursor, error) {
	if err := tx.begin(tx.db.node.Hosts()...); err != nil {
		return "", err
	}
	return tx.db.cursorOf(tx.view.Positions()), nil
}

func (tx *Txn) close() {
	if tx.view != nil {
		tx.view.Close()
		tx.view, tx.env = nil, nil
	}
	tx.err = ErrTxnOver
}

// begin takes the state of stores at their first use. One that only reads takes that
// of all at once, as nothing tells whether what it has read is still so; so does one
// that has failed before, to learn all that it touches, and one that is expected to
// need several.
func (tx *Txn) begin(hosts ...*node.Host) error {
	if tx.err != nil {
		return tx.err
	}
	if tx.view != nil {
		hosts = slices.DeleteFunc(slices.Clone(hosts), tx.view.Has)
		if len(hosts) == 0 {
			return nil
		}
		hosts = append(tx.view.Hosts(), hosts...)
	} else if tx.wide {
		hosts = tx.db.node.Hosts()
	}
	if err := tx.ctx.Err(); err != nil {
		return err
	}
	v, err := tx.db.node.View(tx.ctx, hosts...)
	if err != nil {
		return public(err)
	}
	was := tx.view
	if was != nil {
		tx.noteScans()
	}
	if tx.view = v; was == nil {
		tx.env = command.NewEnv((*txnReader)(tx))
		tx.env.SetGuard((*txnGuard)(tx))
		tx.env.Begin(effect.Header{ClockMS: v.LatestMS()}, firstTxnVersion)
		return nil
	}
	was.Close()
	return tx.stillSo()
}

// stillSo tells whether all that was read is the same in a state that was taken later:
// then all of it is of that state.
func (tx *Txn) stillSo() error {
	for key, version := range tx.reads {
		now, err := tx.version(partition.Position(key))
		if err != nil && !errors.Is(err, own.ErrWrongGroup) {
			return public(err)
		}
		if err != nil || now != version {
			tx.err = errRetry
			return tx.err
		}
	}
	for _, r := range tx.ranges {
		s := partition.Span{Start: r.Start, End: r.End}
		err := tx.view.Serves(s)
		var digest command.Digest
		if err == nil {
			digest, err = tx.digest(s)
		}
		if err != nil && !errors.Is(err, own.ErrWrongGroup) {
			return public(err)
		}
		if err != nil || digest != r.Digest {
			tx.err = errRetry
			return tx.err
		}
	}
	return nil
}

// version returns the version of a key in the transaction's state, 0 if it is absent.
func (tx *Txn) version(p partition.Position) (uint64, error) {
	nowMS, err := tx.view.NowMS(p)
	if err != nil {
		return 0, err
	}
	value, ok, err := tx.view.Get(effect.Rows.AppendKey(nil, p), nil)
	if err != nil || !ok {
		return 0, err
	}
	row, err := command.DecodeRow(value)
	if err != nil || !row.Alive(nowMS) {
		return 0, err
	}
	return row.Version, nil
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
	if t, err := (*Txn)(g).nowAt(p); err == nil {
		return t
	}
	return nowMS
}

// nowAt is the time by which a key is judged.
func (tx *Txn) nowAt(p partition.Position) (int64, error) {
	if len(tx.dated) > 0 {
		if d, ok := tx.dated[string(p)]; ok {
			return d.nowMS, nil
		}
	}
	return tx.view.NowMS(p)
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
	if writes {
		if err := k.mayWrite(); err != nil {
			return nil, err
		}
		if tx.readOnly {
			return nil, ErrReadOnly
		}
	}
	tx.use(k, writes)
	if err := tx.begin(k.part(p).Host); err != nil {
		return p, err
	}
	return p, public(k.space.Check()) // also of the moment of the state
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
	if !writes {
		return tx.eval(place{k, p}, cmd, seen)
	}
	return tx.write(place{k, p}, cmd, seen, nil)
}

// eval evaluates a command on the transaction's state.
func (tx *Txn) eval(at place, cmd command.Command, seen bool) (command.Reply, error) {
	reply, err := tx.evaluated(at, cmd, seen)
	if err == nil {
		err = public(named(at, reply.Err))
	}
	if err != nil {
		return command.Reply{}, err
	}
	return reply, nil
}

// evaluated is eval, but what the command refuses is in its reply.
func (tx *Txn) evaluated(at place, cmd command.Command, seen bool) (command.Reply, error) {
	if tx.reading = nil; seen && !tx.readOnly {
		tx.reading = at.p
	}
	reply := tx.env.Do(cmd)
	if errors.Is(reply.Err, own.ErrWrongGroup) {
		tx.err = errRetry
		return command.Reply{}, tx.err
	}
	return reply.Clone(), nil
}

// write evaluates a command that writes, and keeps it for the commit, as something else
// if that is given.
func (tx *Txn) write(at place, cmd command.Command, seen bool, as func(command.Command) command.Command) (command.Reply, error) {
	if err := tx.touch(at); err != nil {
		return command.Reply{}, err
	}
	cmd = tx.date(at, cmd)
	reply, err := tx.eval(at, cmd, seen)
	if err != nil {
		return command.Reply{}, err
	}
	if as != nil {
		cmd = as(cmd)
	}
	tx.writes = append(tx.writes, txnWrite{at, cmd})
	return reply, nil
}

// dating is how a key is judged that a transaction has given an expiry.
type dating struct {
	nowMS int64
	// matters tells that the commit must judge it like that too.
	matters bool
}

// date returns a command as it is evaluated, and notes by which time its key is judged from
// then on if it gives it an expiry: by that of its group, also if a transaction that is in
// doubt has locked the key. A time to live does not count from the lock; and at the commit
// the lock is gone. If the row has entries in indexes it becomes a time on the clock: the
// entries, which may be in other groups, have to expire with it.
func (tx *Txn) date(at place, cmd command.Command) command.Command {
	dates, matters := command.Dates(cmd)
	if !dates {
		return cmd
	}
	d, dated := tx.dated[string(at.p)]
	if !dated {
		nowMS, err := tx.view.ClockMS(at.p)
		if err != nil { // the command hears it too
			return cmd
		}
		d.nowMS = nowMS
		if tx.keptByLock(at.p, nowMS) {
			tx.err = errRetry // it is there for whoever has read it, and not at the commit
			return cmd
		}
	}
	if tx.rows[string(at.p)] != nil {
		cmd, matters = command.Resolve(cmd, d.nowMS), true
	}
	d.matters = d.matters || matters
	if tx.dated == nil {
		tx.dated = map[string]dating{}
	}
	tx.dated[string(at.p)] = d
	return cmd
}

// keptByLock tells whether nothing but a lock keeps a key alive in the transaction's state.
func (tx *Txn) keptByLock(p partition.Position, nowMS int64) bool {
	judgeMS, err := tx.view.NowMS(p)
	if err != nil || judgeMS >= nowMS {
		return false
	}
	value, ok, err := tx.view.Get(effect.Rows.AppendKey(nil, p), nil)
	if err != nil || !ok {
		return false
	}
	row, err := command.DecodeRow(value)
	return err == nil && row.Alive(judgeMS) && !row.Alive(nowMS)
}
