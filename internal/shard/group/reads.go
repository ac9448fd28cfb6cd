package group

import (
	"context"
	"sync"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/partition"
)

// Read returns the row of a key on the caller's goroutine, past the queue. It
// is linearizable: it sees everything that was acknowledged before the call,
// and nothing that is not durable. The row's payload is appended to dst. If the
// group does not own the key the error is ownership.ErrWrongGroup.
func (g *Group) Read(ctx context.Context, key partition.Position, dst []byte) (row command.Row, ok bool, err error) {
	if err := g.ReadBarrier(ctx); err != nil {
		return row, false, err
	}
	for {
		// The list before and after: a range that was given away meanwhile may
		// have been changed by its new owner before the row was read here.
		list := g.published.table.Load()
		if !list.CanRead(key) {
			return command.Row{}, false, &ownership.WrongGroupError{Group: g.opts.ID, Version: list.Version()}
		}
		if lock := g.published.findWriteLock(key); lock != nil {
			row, ok, err = g.readLockedRow(ctx, lock, key, dst)
		} else {
			row, ok, err = g.readRow(ctx, key, dst)
		}
		if err != nil || g.published.table.Load() == list {
			return row, ok, err
		}
	}
}

// readRow returns the row of a key that no transaction writes.
func (g *Group) readRow(ctx context.Context, key partition.Position, dst []byte) (row command.Row, ok bool, err error) {
	row, ok, err = g.loadRow(key, dst)
	if err != nil || !ok || row.ExpiryMS == 0 {
		return row, ok, err
	}
	// The clock is read before the row whose expiry it decides. The other way round a write that
	// kept the key from expiring could fall in between.
	if !row.IsAlive(g.clock.latestMS()) {
		g.EnsureTime(ctx)
	}
	now := g.NowMS()
	judge := g.published.expiryCheckMS(key, now)
	row, ok, err = g.loadRow(key, dst)
	if err != nil || !ok || !row.IsAlive(judge) {
		return command.Row{}, false, err
	}
	if !row.IsAlive(now) {
		return g.readRowInTurn(ctx, key, dst)
	}
	return row, true, nil
}

// readRowInTurn returns a row that nothing but a lock keeps alive. It takes its turn: a view sees
// that the lock is gone, and the row with it, a moment before readers past the queue do.
func (g *Group) readRowInTurn(ctx context.Context, key partition.Position, dst []byte) (row command.Row, ok bool, err error) {
	refused := g.actor.Do(ctx, func(x *executor) {
		now := x.guard.ExpiryCheckMS(key, x.clock.now())
		if row, ok, err = g.loadRow(key, dst); err == nil && ok && !row.IsAlive(now) {
			row, ok = command.Row{}, false
		}
	})
	if refused != nil {
		return command.Row{}, false, g.mailboxError(refused)
	}
	return row, ok, err
}

// readLockedRow returns the row of a key that a transaction is about to write. If it is
// decided, the row is as it leaves it, even if that is not done yet; if not, it is
// as it was, for it was undecided when the coordinator group was asked.
func (g *Group) readLockedRow(ctx context.Context, lock *txn.Lock, key partition.Position, dst []byte) (row command.Row, ok bool, err error) {
	outcome := txn.Undecided
	if g.opts.LookupOutcome != nil {
		if outcome, err = g.opts.LookupOutcome(ctx, *lock); err != nil {
			return row, false, err
		}
	}
	if outcome != txn.Committed {
		return g.readRow(ctx, key, dst)
	}
	now := g.NowMS()
	through, err := txn.NewResolvedReader(g.state, txn.KeySpan(key), func(id txn.ID) bool { return id == lock.Txn })
	if err != nil {
		return row, false, err
	}
	value, ok, err := through.Get(effect.Rows.AppendKey(nil, key), dst)
	if err != nil || !ok {
		return row, false, err
	}
	if row, err = command.DecodeRow(value[len(dst):]); err == nil && row.IsAlive(now) {
		return row, true, nil
	}
	// It is resolved since: another one may have locked the row, and keep it alive.
	if still := g.published.findWriteLock(key); err == nil && (still == nil || still.Txn != lock.Txn) {
		return g.readRow(ctx, key, dst)
	}
	return command.Row{}, false, err
}

// loadRow returns the newest row of a key, dead or alive.
func (g *Group) loadRow(key partition.Position, dst []byte) (row command.Row, ok bool, err error) {
	room := keyBuffers.Get().(*[]byte)
	*room = effect.Rows.AppendKey((*room)[:0], key)
	value, ok, err := g.state.Get(*room, dst)
	keyBuffers.Put(room)
	if err != nil || !ok {
		return row, false, err
	}
	row, err = command.DecodeRow(value[len(dst):])
	return row, err == nil, err
}

// keyBuffers holds memory for store keys, which a State does not keep.
var keyBuffers = sync.Pool{New: func() any { return new([]byte) }}

// EnsureTime reserves time if the group's clock stands still for want of it, as it does when a
// key is about to expire, or may be: a caller that checks expiry after it does not find alive
// what is dead. On a full disk the clock stands still all the same.
func (g *Group) EnsureTime(ctx context.Context) {
	if !g.clock.isAtLimit() {
		return
	}
	_ = g.actor.Do(ctx, func(x *executor) {
		if x.fatalErr == nil {
			_ = x.raiseCeilings()
		}
	})
}

// NowMS is the group's clock, in Unix milliseconds.
func (g *Group) NowMS() int64 {
	if g.clock.isAtLimit() {
		g.requestHousekeeping() // it stands still until more time is reserved
	}
	return g.clock.now()
}

func (g *Group) requestHousekeeping() {
	select {
	case g.housekeepingNeeded <- struct{}{}:
	default:
	}
}

// readOnlyEvaluator evaluates commands outside of the queue.
type readOnlyEvaluator struct {
	env    *command.Env
	reader swapReader
}

// swapReader is a Reader whose source changes from call to call.
type swapReader struct{ command.Reader }

var readOnlyEvaluators = sync.Pool{New: func() any {
	p := new(readOnlyEvaluator)
	p.env = command.NewEnv(&p.reader)
	return p
}}

// EvalReadOnly evaluates a command that only reads, on the caller's goroutine, past the
// queue, against the newest committed state. It is linearizable for commands
// that read a key's row and then at most one of its elements, such as HGet.
//
// A transaction may fall in between: an element that is not found may have been replaced
// together with the row, and one that is found may have been written by a transaction that has
// deleted the row as well, so that no state ever had both. So either nothing became visible
// meanwhile, or the row is the same before and after; if not, it is read again, and then the
// command is queued.
//
// If the group has locked anything for a transaction across groups, or has given a range away
// meanwhile, the command is queued. That transaction may have seen a key alive, which does not
// expire for others before it is decided.
func (g *Group) EvalReadOnly(ctx context.Context, key partition.Position, c command.Command) (command.Reply, error) {
	if err := g.ReadBarrier(ctx); err != nil {
		return command.Reply{}, err
	}
	g.EnsureTime(ctx)
	list := g.published.table.Load()
	locked, before := g.LockStatus()
	if !list.CanRead(key) || locked {
		return g.evalInTurn(ctx, key, c)
	}
	reply, ok := g.tryReadOnly(key, c)
	_, after := g.LockStatus()
	if !ok || g.published.table.Load() != list || after != before {
		return g.evalInTurn(ctx, key, c)
	}
	return reply, nil
}

// evalInTurn is EvalReadOnly through the queue.
func (g *Group) evalInTurn(ctx context.Context, key partition.Position, c command.Command) (command.Reply, error) {
	reply, err := g.Execute(ctx, Request{Command: c, Key: key})
	return reply, AsReadError(ctx, err)
}

// tryReadOnly is false if all that it has seen may be of two moments.
func (g *Group) tryReadOnly(key partition.Position, c command.Command) (reply command.Reply, ok bool) {
	p := readOnlyEvaluators.Get().(*readOnlyEvaluator)
	p.reader.Reader = g.state
	for i := 0; i < maxReadOnlyTries && !ok; i++ {
		before := g.stateSequence()
		reply = p.eval(c, g.NowMS())
		// Without a row no element was read.
		ok = reply.Version == 0 || before%2 == 0 && g.stateSequence() == before
		if !ok {
			row, _, _ := g.loadRow(key, nil) // if it cannot be read, it is not the same
			ok = row.Version == reply.Version
		}
	}
	reply = reply.Clone()
	p.reader.Reader = nil
	readOnlyEvaluators.Put(p)
	return reply, ok
}

// stateSequence is that of the state, see [CachedState], or odd if the state has no count.
func (g *Group) stateSequence() uint64 {
	if g.cached == nil {
		return 1
	}
	return g.cached.Sequence()
}

// EvalReadOnlyAt is EvalReadOnly for any command that only reads, on a state of the past and its
// time: see node.Snapshot.
func EvalReadOnlyAt(c command.Command, from command.Reader, nowMS int64) command.Reply {
	p := readOnlyEvaluators.Get().(*readOnlyEvaluator)
	p.reader.Reader = from
	reply := p.eval(c, nowMS).Clone()
	p.reader.Reader = nil
	readOnlyEvaluators.Put(p)
	return reply
}

// prefetchingReader is a Reader that fetches what is asked for into memory.
type prefetchingReader struct {
	State
	cached CachedState
}

// Get implements [command.Reader].
func (r prefetchingReader) Get(key, dst []byte) (value []byte, ok bool, err error) {
	if _, known := r.cached.LookupSize(key); !known {
		r.cached.Prefetch(key)
	}
	return r.State.Get(key, dst)
}

// PrefetchCommand evaluates a command outside of the queue, and forgets the reply and the effects: what
// it has read is in memory then, as far as there is room. It waits for the disk.
func (g *Group) PrefetchCommand(c command.Command) {
	if g.cached == nil {
		return
	}
	p := readOnlyEvaluators.Get().(*readOnlyEvaluator)
	p.reader.Reader = prefetchingReader{g.state, g.cached}
	p.eval(c, g.NowMS())
	p.reader.Reader = nil
	readOnlyEvaluators.Put(p)
}

func (p *readOnlyEvaluator) eval(c command.Command, nowMS int64) command.Reply {
	p.env.Begin(effect.Header{ClockMS: nowMS}, 1)
	return p.env.Do(c)
}

// ReadBarrier returns when a read that begins now sees all that was acknowledged.
func (g *Group) ReadBarrier(ctx context.Context) error {
	if !g.closed.Load() { // a group is retired first
		return g.log.ReadBarrier(ctx)
	}
	if g.retired.Load() {
		return nil // there is nothing that it would miss
	}
	return ErrClosed
}
