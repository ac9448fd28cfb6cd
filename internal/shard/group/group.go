package group

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/storage/rowcache"
)

// Group is an open group. Its methods may be called by any goroutine.
type Group struct {
	opts  Options
	log   Log
	state State
	// cached is the state, if it is one.
	cached CachedState
	reader *executorReader
	clock  clock
	// published is what readers past the queue know of ranges and locks.
	published publishedGuard
	actor     *actor.Actor[executor, *call, error]
	piggyback piggybackQueue

	closed atomic.Bool
	// retired reports whether it was closed by Retire: it owns nothing.
	retired atomic.Bool
	// hasOrphans reports whether deleted collections may have left elements behind.
	hasOrphans atomic.Bool
	// housekeepingNeeded has an element when housekeeping should not wait for its turn.
	housekeepingNeeded chan struct{}
	housekeeping       housekeeping
	expiredKeys        atomic.Uint64 // keys that were reaped
	// multiGroupCommands are commands that were executed together with those of other groups, and
	// multiGroupBatches how often some were.
	multiGroupCommands, multiGroupBatches atomic.Uint64
	// largeRequests is how many requests are on their way that hold up the group for long.
	largeRequests atomic.Int32
}

// BeginLargeRequest notes that a request is about to be sent to the group that holds it up for long,
// until end is called.
func (g *Group) BeginLargeRequest() (end func()) {
	g.largeRequests.Add(1)
	return func() { g.largeRequests.Add(-1) }
}

// HasLargeRequest reports whether there is such a request: a goroutine that has others to serve
// should not call the group now.
func (g *Group) HasLargeRequest() bool { return g.largeRequests.Load() > 0 }

// Open continues the group that state remembers, or starts a new one.
func Open(log Log, state State, opts Options) (*Group, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	g := &Group{opts: opts, log: log, state: state, housekeepingNeeded: make(chan struct{}, 1)}
	g.cached, _ = state.(CachedState)
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

// newExecutor reads the ledger and reserves above what it has.
func (g *Group) newExecutor() (executor, error) {
	reader := &executorReader{State: g.state, cached: g.cached}
	g.reader = reader
	guard, err := openGuard(g.state, g.opts.ID, g.opts.OwnsAll)
	if err != nil {
		return executor{}, err
	}
	g.published.init(guard)
	x := executor{
		log: g.log, reader: reader, env: command.NewEnv(reader), clock: &g.clock, opts: &g.opts,
		hasOrphans: &g.hasOrphans, guard: guard, published: &g.published, cached: g.cached, piggyback: &g.piggyback, ledgerRowKey: newLedgerKey(g.opts.ID),
		// Nothing is known yet: the first round of housekeeping fills it.
		expiries: expiryQueue{maxEntries: g.opts.ExpiryKeys, horizon: unknownHorizon},
	}
	x.env.SetGuard(guard)
	old, found, err := g.state.Get(x.ledgerRowKey, nil)
	if err != nil {
		return x, err
	}
	if found {
		if x.ledger, err = decodeLedger(old); err != nil {
			return x, err
		}
	}
	reader.mixed.Store(x.ledger.mixed)
	g.hasOrphans.Store(x.ledger.mixed)
	x.nextVersion, x.seq = initialVersion(x.ledger), x.ledger.seqCeiling
	g.clock.startAt(initialClockMS(x.ledger))
	if !x.ledger.mixed {
		x.expiries.horizon = completeHorizon // nothing expires
	}
	x.clock.setFreeEnd(x.freeTimeEnd())
	if behind := g.clock.now() - g.opts.Wall(); g.opts.WaitForClock && behind <= g.opts.ClockAhead.Milliseconds() {
		time.Sleep(time.Duration(behind) * time.Millisecond)
	}
	x.ledger.versionCeiling = x.nextVersion // reserve before the first use
	return x, x.raiseCeilings()
}

// OwnershipTable returns what the group owns, as of the last batch that is durable. The same
// list is the same pointer.
func (g *Group) OwnershipTable() *ownership.Table { return g.published.table.Load() }

// executorReader reports to a plain Set when it may overwrite blindly, and to a NonBlocking command when
// it would wait for a disk.
type executorReader struct {
	State
	cached        CachedState // nil if the state is none
	nonBlocking   bool        // the command at hand is
	uncachedReads int         // what NonBlocking commands of this run have read that was not in memory
	// readOnly reports whether the NonBlocking command at hand changes nothing. rowsRead and
	// bytesRead are what it has read.
	readOnly            bool
	rowsRead, bytesRead int
	// mixed is false as long as no collection and no expiry was ever written.
	mixed atomic.Bool
}

// Get implements [command.Reader].
func (r *executorReader) Get(key, dst []byte) (value []byte, ok bool, err error) {
	if !r.nonBlocking {
		return r.State.Get(key, dst)
	}
	if r.readOnly && r.isOverLimit() {
		return nil, false, ErrReadTooLarge
	}
	r.rowsRead++
	value, ok, known := r.cached.Lookup(key, dst)
	if known {
		r.bytesRead += len(value)
		return value, ok, nil
	}
	if r.uncachedReads++; r.uncachedReads > maxUncachedReads {
		return nil, false, ErrWouldBlock
	}
	err = r.cached.GetMany([][]byte{key}, true, func(_ int, v []byte, found bool, _ rowcache.Ticket) bool {
		value, ok, known = append(dst, v...), found, true
		r.bytesRead += len(v)
		return true
	})
	if err == nil && !known {
		err = ErrWouldBlock
	}
	return value, ok, err
}

// View implements [command.ViewReader].
func (r *executorReader) View(key, dst []byte) (value []byte, ok bool, err error) {
	if r.cached == nil {
		return r.Get(key, dst)
	}
	if r.nonBlocking && r.readOnly && r.isOverLimit() {
		return nil, false, ErrReadTooLarge
	}
	value, ok, known := r.cached.LookupView(key, dst)
	if !known {
		return r.Get(key, dst)
	}
	if r.nonBlocking {
		r.rowsRead, r.bytesRead = r.rowsRead+1, r.bytesRead+len(value)
	}
	return value, ok, nil
}

// Scan implements [command.Reader].
func (r *executorReader) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	if !r.nonBlocking {
		return r.State.Scan(start, end, reverse, visit)
	}
	if r.uncachedReads += uncachedScanCost; r.uncachedReads > maxUncachedReads {
		return ErrWouldBlock
	}
	before, long := r.rowsRead, false
	fast, err := r.cached.ScanNonBlocking(start, end, reverse, func(key, value []byte) bool {
		if long = r.isOverLimit(); long {
			return false
		}
		r.rowsRead, r.bytesRead = r.rowsRead+1, r.bytesRead+len(key)+len(value)
		return visit(key, value)
	})
	r.uncachedReads += (r.rowsRead - before) / uncachedScanCost // one of a scan costs about so much less
	switch {
	case err != nil:
	case long:
		err = ErrReadTooLarge
	case !fast:
		err = ErrWouldBlock
	}
	return err
}

// isOverLimit reports whether the NonBlocking command at hand has read all that it may.
func (r *executorReader) isOverLimit() bool {
	return r.rowsRead >= maxNonBlockingRows || r.bytesRead >= maxNonBlockingBytes
}

// CanSetBlindly implements [command.BlindSetReader].
func (r *executorReader) CanSetBlindly([]byte) bool { return !r.mixed.Load() }

// Execute executes a request in its turn. The reply may be a failure of the command
// itself, see [command.Reply]; an error means that the command was not
// executed, or with ErrUnknown that it may have been. If ctx can end before the
// answer, what the command points to must not be changed afterwards: it may
// still be executed.
//
// A command that meets a lock of a transaction, or a range that is being given away, waits until
// that is over, and is queued again, unless the request has NoWait. If the group owns the key no
// longer, the reply is ownership.ErrWrongGroup.
func (g *Group) Execute(ctx context.Context, r Request) (command.Reply, error) {
	switch {
	case r.Piggyback:
		return g.executePiggybacked(ctx, r)
	case r.NoWait:
		return g.executeOnce(ctx, r)
	}
	reply, err := g.executeOnce(ctx, r)
	if err != nil || !isRetryable(reply.Err) {
		return reply, err
	}
	w := new(waiter)
	defer w.releaseReservation()
	for err == nil && isRetryable(reply.Err) {
		if again, err := w.wait(ctx, SubRequest{g, r}, reply.Err); err != nil {
			return command.Reply{}, err
		} else if !again {
			return reply, nil
		}
		r.ReservationID = w.reservationID
		reply, err = g.executeOnce(ctx, r)
	}
	return reply, err
}

// executeOnce executes a request in its turn, whatever is in its way.
func (g *Group) executeOnce(ctx context.Context, r Request) (command.Reply, error) {
	c := callPool.Get().(*call)
	c.Request = r
	failure, err := g.actor.Call(ctx, c)
	if errors.Is(err, actor.ErrAbandoned) {
		return command.Reply{}, g.mailboxError(err) // c is still the handler's
	}
	reply := c.reply
	c.returnToPool()
	if err != nil {
		return command.Reply{}, g.mailboxError(err)
	}
	if failure != nil {
		return command.Reply{}, failure
	}
	return reply, nil
}

// mailboxError gives an error of the mailbox our words.
func (g *Group) mailboxError(err error) error {
	switch {
	case errors.Is(err, actor.ErrAbandoned):
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	case errors.Is(err, actor.ErrStopped) && g.retired.Load():
		return &ownership.WrongGroupError{Group: g.opts.ID, Version: g.OwnershipTable().Version()}
	case errors.Is(err, actor.ErrStopped):
		return ErrClosed
	case errors.Is(err, actor.ErrFull):
		return fmt.Errorf("%w: %d commands wait: slow down or raise Options.QueueLimit", ErrOverloaded, g.opts.Queue)
	case errors.Is(err, actor.ErrPoisoned):
		return failedError(err)
	}
	var panicked *actor.PanicError
	if errors.As(err, &panicked) {
		return fmt.Errorf("%w: %w", ErrUnknown, failedError(err))
	}
	return err
}

// Close executes what was accepted and lowers the reserved time to what was
// used, so that the next Open does not start ahead. If ctx ends first the
// closing goes on.
func (g *Group) Close(ctx context.Context) error {
	g.closed.Store(true)
	var parted error
	err := g.actor.Do(ctx, func(x *executor) { parted = g.closeExecutor(x) })
	if err != nil && !errors.Is(err, actor.ErrStopped) {
		parted = g.mailboxError(err)
	}
	return errors.Join(parted, g.actor.Stop(ctx))
}

// closeExecutor executes what is late, and nothing more after that.
func (g *Group) closeExecutor(x *executor) error {
	x.run(nil, nil)
	return x.writeFinalLedger(g.mailboxError(actor.ErrStopped))
}

// writeFinalLedger writes the last ledger. Versions stay reserved: there are enough. Requests
// after it are refused; otherwise time would be reserved again.
func (x *executor) writeFinalLedger(refused error) error {
	if x.fatalErr != nil {
		return nil
	}
	next := x.ledger
	next.clockCeiling = x.clock.pauseTime() // for good: no caller gets a later time
	err := x.writeLedger(next, true)
	if x.fatalErr == nil {
		x.fatalErr = refused
	}
	return err
}

var (
	// ErrClosed means that the group was closed: the command was not executed.
	ErrClosed = errors.New("group: closed")
	// ErrUnknown means that the command may or may not have taken effect:
	// read the data once the store is open again.
	ErrUnknown = errors.New("group: outcome unknown")
	// ErrFailed means that the group stopped after an error of its log: the
	// command was not executed. Repair what the text names and open again.
	ErrFailed = errors.New("group: failed")
	// ErrRequestOld means that a request id is too old, or too far ahead of the clock, to
	// determine whether it was executed: it was not executed by this call. Read the data before
	// retrying it under another id.
	ErrRequestOld = errors.New("group: request id out of the remembered time")
	// ErrOverloaded means that the queue is full and the group refuses rather
	// than blocks: slow down.
	ErrOverloaded = errors.New("group: overloaded")
	// ErrWouldBlock means that a NonBlocking request was not executed, because it would have
	// waited for a disk: prefetch for it, and try again with more time.
	ErrWouldBlock = errors.New("group: what it needs is not in memory")
	// ErrReadTooLarge means that a NonBlocking request was not executed, because it reads more
	// than others should wait for: execute it by itself, past the queue if it only reads. It is
	// an ErrWouldBlock too.
	ErrReadTooLarge = fmt.Errorf("%w, or not little: it would hold up others", ErrWouldBlock)
	// ErrOptions means that an option is out of its range: the text has the name.
	ErrOptions = errors.New("group: bad options")
)

// failedError marks what stopped the group.
func failedError(cause error) error { return fmt.Errorf("%w: %w", ErrFailed, cause) }

// AsReadError is what an error of Execute means if the command changes nothing that is ever
// read: a caller that has left before the reply is in no doubt.
func AsReadError(ctx context.Context, err error) error {
	if left := ctx.Err(); left != nil && errors.Is(err, ErrUnknown) {
		return left
	}
	return err
}

// Retire closes a group that owns nothing and never will again. A caller that still has it does
// not get the error that it is closed, but ownership.ErrWrongGroup: it looks elsewhere.
func (g *Group) Retire(ctx context.Context) error {
	g.retired.Store(true)
	return g.Close(ctx)
}

// mailboxErrorOf gives an error of the mailboxes of several groups our words. If one of them
// is retired, it may be that which has refused, and another attempt finds out.
func mailboxErrorOf(groups []*Group, err error) error {
	for _, g := range groups {
		if g.retired.Load() {
			return g.mailboxError(err)
		}
	}
	return groups[0].mailboxError(err)
}

// Metrics are figures of a group. Counters count since Open.
type Metrics struct {
	QueueDepth int
	Commands   uint64 // handled, those of housekeeping included
	Refused    uint64 // turned away before they were executed
	Batches    uint64 // times that waiting commands were taken together
	QueueWait  actor.Histogram
	Service    actor.Histogram // of a batch, the sync included
	ClockMS    int64
	Expired    uint64 // keys that were deleted because their time was over
}

// Metrics returns the current figures. It never blocks.
func (g *Group) Metrics() Metrics {
	s := g.actor.Stats()
	return Metrics{
		QueueDepth: s.Depth, Commands: s.Handled + g.multiGroupCommands.Load(), Refused: s.Refused, Batches: s.Batches + g.multiGroupBatches.Load(),
		QueueWait: s.QueueWait, Service: s.Service, ClockMS: g.clock.now(), Expired: g.expiredKeys.Load(),
	}
}
