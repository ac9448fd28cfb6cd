package group

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/rows"
)

// Group is an open group. Its methods may be called by any goroutine.
type Group struct {
	opts  Options
	log   Log
	state State
	// looker is the state, if it is one.
	looker Looker
	reader *plainReader
	clock  clock
	// visible is what readers past the queue know of ranges and locks.
	visible visible
	slow    slow
	actor   *actor.Actor[executor, *call, error]
	late    late

	closed atomic.Bool
	// retired tells that it is closed because nobody needs it any more.
	retired atomic.Bool
	// orphans tells that deleted collections may have left elements behind.
	orphans atomic.Bool
	// nudge has an element when housekeeping should not wait for its turn.
	nudge   chan struct{}
	tend    tending
	expired atomic.Uint64 // keys that were reaped
	// joined are commands that were executed together with those of other groups, and
	// joinedBatches how often some were.
	joined, joinedBatches atomic.Uint64
}

// Open continues the group that state remembers, or starts a new one.
func Open(log Log, state State, opts Options) (*Group, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	g := &Group{opts: opts, log: log, state: state, nudge: make(chan struct{}, 1)}
	g.looker, _ = state.(Looker)
	g.clock.wall = opts.Wall
	x, err := g.newExecutor()
	if err != nil {
		return nil, fmt.Errorf("open group %d: %w", opts.ID, err)
	}
	full := actor.Block
	if opts.Refuse {
		full = actor.Refuse
	}
	g.actor, err = actor.New(x, actor.Batch((*executor).run), actor.Options{
		Capacity: opts.Queue,
		Full:     full,
		// The handler waits for a disk: a caller that had to run the batches of
		// others after its own would wait for theirs too.
		Turns: -1,
		// And a batch costs a write to it, however many are in it.
		Gather: true,
	})
	if err != nil {
		return nil, fmt.Errorf("open group %d: %w", opts.ID, err)
	}
	return g, nil
}

// newExecutor reads the ledger and reserves above what it says.
func (g *Group) newExecutor() (executor, error) {
	reader := &plainReader{State: g.state, looker: g.looker}
	g.reader = reader
	guard, err := openGuard(g.state, g.opts.ID, g.opts.Alone)
	if err != nil {
		return executor{}, err
	}
	g.visible.init(guard)
	x := executor{
		log: g.log, reader: reader, env: command.NewEnv(reader), clock: &g.clock, opts: &g.opts,
		orphans: &g.orphans, guard: guard, visible: &g.visible, looker: g.looker, late: &g.late, id: ledgerKey(g.opts.ID),
		// Nothing is known yet: the first round of housekeeping fills it.
		expiries: expiryQueue{most: g.opts.ExpiryKeys, horizon: nothingKnown},
	}
	x.env.SetGuard(guard)
	old, found, err := g.state.Get(x.id, nil)
	if err != nil {
		return x, err
	}
	if found {
		if x.ledger, err = decodeLedger(old); err != nil {
			return x, err
		}
	}
	reader.mixed.Store(x.ledger.mixed)
	g.orphans.Store(x.ledger.mixed)
	x.nextVersion = startVersion(x.ledger)
	g.clock.startAt(startClock(x.ledger))
	x.ledger.versionCeiling = x.nextVersion // reserve before the first use
	return x, x.reserve()
}

// List returns what the group owns, as of the last batch that is durable. The same
// list is the same pointer.
func (g *Group) List() *own.List { return g.visible.list.Load() }

// maxNear is how many rows that are near, but not in memory, hasty commands of a run read: each takes
// some microseconds. A scan counts for nearScan of them.
const maxNear, nearScan = 1024, 16

// plainReader tells a plain Set when it may overwrite without a look, and a hasty command when
// it would wait for a disk.
type plainReader struct {
	State
	looker Looker // nil if the state is none
	hasty  bool   // the command at hand is
	near   int    // what hasty commands of this run have read that was not in memory
	// mixed is false as long as no collection and no expiry was ever written.
	mixed atomic.Bool
}

// Get implements [command.Reader].
func (r *plainReader) Get(key, dst []byte) (value []byte, ok bool, err error) {
	if !r.hasty {
		return r.State.Get(key, dst)
	}
	value, ok, known := r.looker.Look(key, dst)
	if known {
		return value, ok, nil
	}
	if r.near++; r.near > maxNear {
		return nil, false, ErrCold
	}
	err = r.looker.GetNear([][]byte{key}, func(_ int, v []byte, found bool, _ rows.Ticket) bool {
		value, ok, known = append(dst, v...), found, true
		return true
	})
	if err == nil && !known {
		err = ErrCold
	}
	return value, ok, err
}

// Scan implements [command.Reader].
func (r *plainReader) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	if !r.hasty {
		return r.State.Scan(start, end, reverse, visit)
	}
	if r.near += nearScan; r.near > maxNear {
		return ErrCold
	}
	near, err := r.looker.ScanNear(start, end, reverse, visit)
	if err == nil && !near {
		err = ErrCold
	}
	return err
}

// Plain implements [command.PlainReader].
func (r *plainReader) Plain([]byte) bool { return !r.mixed.Load() }

// Do executes a request in its turn. The reply may be a failure of the command
// itself, see [command.Reply]; an error means that the command was not
// executed, or with ErrUnknown that nobody knows. If ctx can end before the
// answer, what the command points to must not be changed afterwards: it may
// still be executed.
//
// A command that meets a lock of a transaction, or a range that is being given
// away, waits until that is over, and takes its turn again. Own it no longer, and
// the reply is own.ErrWrongGroup.
func (g *Group) Do(ctx context.Context, r Request) (command.Reply, error) {
	if err := g.slow.hold(ctx, r.Key); err != nil {
		return command.Reply{}, err
	}
	return g.do(ctx, r)
}

// do is Do of whoever is not held up.
func (g *Group) do(ctx context.Context, r Request) (command.Reply, error) {
	reply, err := g.Try(ctx, r)
	if err != nil || !passes(reply.Err) {
		return reply, err
	}
	w := new(waiter)
	defer w.leave()
	for err == nil && passes(reply.Err) {
		if again, err := w.wait(ctx, Piece{g, r}, reply.Err); err != nil {
			return command.Reply{}, err
		} else if !again {
			return reply, nil
		}
		r.Turn = w.turn
		reply, err = g.Try(ctx, r)
	}
	return reply, err
}

// Try is Do without the wait: the reply is the error that Do would wait for.
func (g *Group) Try(ctx context.Context, r Request) (command.Reply, error) {
	c := calls.Get().(*call)
	c.Request = r
	failure, err := g.actor.Call(ctx, c)
	if errors.Is(err, actor.ErrAbandoned) {
		return command.Reply{}, g.refused(err) // c is still the handler's
	}
	reply := c.reply
	c.release()
	if err != nil {
		return command.Reply{}, g.refused(err)
	}
	if failure != nil {
		return command.Reply{}, failure
	}
	return reply, nil
}

// refused gives an error of the mailbox our words.
func (g *Group) refused(err error) error {
	switch {
	case errors.Is(err, actor.ErrAbandoned):
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	case errors.Is(err, actor.ErrStopped) && g.retired.Load():
		return &own.WrongGroupError{Group: g.opts.ID, Version: g.List().Version()}
	case errors.Is(err, actor.ErrStopped):
		return ErrClosed
	case errors.Is(err, actor.ErrFull):
		return fmt.Errorf("%w: %d commands wait: slow down or raise Options.Queue", ErrOverloaded, g.opts.Queue)
	case errors.Is(err, actor.ErrPoisoned):
		return failed(err)
	}
	var panicked *actor.PanicError
	if errors.As(err, &panicked) {
		return fmt.Errorf("%w: %w", ErrUnknown, failed(err))
	}
	return err
}

// Close executes what was accepted and lowers the reserved time to what was
// used, so that the next Open does not start ahead. If ctx ends first the
// closing goes on.
func (g *Group) Close(ctx context.Context) error {
	g.closed.Store(true)
	var parted error
	err := g.actor.Do(ctx, func(x *executor) { parted = g.closing(x) })
	if err != nil && !errors.Is(err, actor.ErrStopped) {
		parted = g.refused(err)
	}
	return errors.Join(parted, g.actor.Stop(ctx))
}

// closing executes what is late, and nothing more after that.
func (g *Group) closing(x *executor) error {
	x.run(nil, nil)
	return x.part(g.refused(actor.ErrStopped))
}

// part writes the last ledger. Versions stay reserved: there are enough. Whoever comes
// after it is refused, or the time would be reserved again.
func (x *executor) part(refused error) error {
	if x.dead != nil {
		return nil
	}
	next := x.ledger
	next.seq++
	next.clockCeiling = x.clock.hold() // for good: nobody is told a later time
	err := x.write(next)
	if x.dead == nil {
		x.dead = refused
	}
	return err
}
