package group

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
)

// executor is the state that only the holder of the mailbox touches.
type executor struct {
	log    Log
	env    *command.Env
	reader *executorReader
	clock  *clock
	opts   *Options
	// hasOrphans is set when a batch leaves elements of a collection behind.
	hasOrphans *atomic.Bool
	guard      *guard
	published  *publishedGuard
	cached     CachedState // nil if the state is none

	ledger ledger
	// sealedLedger is the ledger of the batch that is being committed.
	sealedLedger ledger
	// seq is the sequence of the last batch.
	seq         uint64
	nextVersion uint64
	// nowMS is the clock of the batch.
	nowMS int64
	// tracedChanges is how many changes of locks of the batch have left traces.
	tracedChanges int
	// fatalErr is why nothing is executed any more, and refusedErr why the group takes no part in
	// the batch at hand.
	fatalErr, refusedErr error
	// expiries are the keys that expire next. filling means that those of the table are
	// still being read, so that some are missing.
	expiries        expiryQueue
	fillingExpiries bool
	// leavesOrphans means that the batch leaves elements of a collection behind.
	leavesOrphans bool

	// piggyback are requests that ride along with the next batch.
	piggyback *piggybackQueue

	ledgerRowKey []byte // scratch: key of the ledger
	scratch      []byte
	answerBytes  int // bytes of what NonBlocking requests were answered in this run
	// solo executes the calls that are for this group alone.
	solo batchRun
}

// run executes calls that are for this group alone: it is the handler of the mailbox.
func (x *executor) run(calls []*call, errs []error) {
	if x.solo.participants == nil {
		x.solo.participants = []*executor{x}
	}
	x.solo.execute(calls, errs)
}

// beginBatch begins a batch. It holds the clock.
func (x *executor) beginBatch() {
	x.env.RecordEvents(x.opts.RecordsEvents != nil && x.opts.RecordsEvents())
	x.nowMS = x.clock.pauseTime()
	x.env.Begin(effect.Header{Seq: x.seq + 1, ClockMS: x.nowMS}, x.nextVersion)
	x.guard.beginBatch()
	x.sealedLedger, x.tracedChanges = x.ledger, 0
}

// evalCall executes one call, and reports whether it did: not if its gate is closed, or if those
// before it have had large answers.
func (x *executor) evalCall(c *call) (evaluated bool) {
	x.guard.reservationID = c.ReservationID
	c.hasWritten, c.replayed = false, false
	if c.Gate != nil {
		if err := c.Gate.CheckOpen(); err != nil {
			c.reply = command.Reply{Kind: command.Failed, Err: err}
			return false
		}
	}
	if c.NonBlocking && x.answerBytes > maxRunAnswerBytes {
		c.reply = command.Reply{Kind: command.Failed, Err: ErrSkipped}
		return false
	}
	before := x.env.Effects().Len()
	switch {
	case c.NonBlocking:
		x.evalNonBlocking(c)
	case c.ID == RequestID{}:
		c.reply = x.evalCommand(c.Command)
	default:
		x.evalOnce(c)
	}
	c.hasWritten = c.hasWritten || x.env.Effects().Len() > before
	return true
}

// evalOnce executes a call that has an id, unless its request was executed before.
func (x *executor) evalOnce(c *call) {
	err := checkRequestID(c.ID, x.nowMS, x.opts.Remember)
	if err == nil {
		err = x.guard.ownerSite.CheckPosition(c.Key, false) // its record would be with its key
	}
	if err != nil {
		c.reply = command.Reply{Kind: command.Failed, Err: err}
		return
	}
	x.scratch = c.dedupKey(x.scratch[:0])
	record, found, err := x.reader.Get(x.scratch, nil)
	if err == nil && !found {
		// A call of this batch may have executed it, or a transaction: what becomes of that
		// becomes of it.
		record, found = x.env.GetWritten(x.scratch, nil)
		c.hasWritten = found
	}
	if err == nil && found {
		err, c.replayed = replayReply(c, record), true
	}
	if err != nil {
		c.reply = command.Reply{Kind: command.Failed, Err: err}
	}
	if err != nil || found {
		return
	}
	// The record is a write, also of a command that changes nothing: a range that is
	// about to be given away must not get it.
	if err := x.guard.ownerSite.CheckPosition(c.Key, true); err != nil {
		c.reply = command.Reply{Kind: command.Failed, Err: err}
		return
	}
	if c.reply = x.evalCommand(c.Command); c.reply.Err == nil {
		x.recordReply(c)
	}
}

// evalNonBlocking executes a NonBlocking call, which has no id.
func (x *executor) evalNonBlocking(c *call) {
	before := x.env.ReplyBytes()
	x.reader.nonBlocking, x.reader.readOnly, x.reader.rowsRead, x.reader.bytesRead = x.reader.cached != nil, c.ReadOnly, 0, 0
	c.reply = x.evalCommand(c.Command)
	x.reader.nonBlocking = false
	x.answerBytes += x.env.ReplyBytes() - before
}

// checkRequestID refuses ids that are too old or too new to know whether they were executed.
func checkRequestID(id RequestID, nowMS int64, remember time.Duration) error {
	ms := remember.Milliseconds()
	if t := id.TimeMS(); t < nowMS-ms || t > nowMS+ms {
		return fmt.Errorf("%w: it is of %d, the clock says %d, the limit is %v either way", ErrRequestOld, t, nowMS, remember)
	}
	return nil
}

// evalCommand evaluates a command.
func (x *executor) evalCommand(c command.Command) command.Reply {
	reply := x.guard.evalCommand(x.env, c)
	if r, ok := c.(rangeReceiver); ok && reply.Err == nil {
		_, mixed := r.Floors()
		x.sealedLedger.mixed = x.sealedLedger.mixed || mixed
	}
	return reply
}

// needsLogEntry reports whether the batch needs a log entry: for what it writes, or because a
// command got a time that a crash must not take back.
func (x *executor) needsLogEntry() bool {
	return x.env.Effects().Len() > 0 || x.env.HasReadClock() && x.nowMS > x.ledger.clockCeiling
}

// freeTimeEnd is the end of free time: no key of the group expires before that and above the
// ceiling. What transactions have locked may expire as they leave it, at any time.
func (x *executor) freeTimeEnd() int64 {
	if x.fillingExpiries || x.expiries.horizon == unknownHorizon || x.guard.locks.Len() > 0 || x.guard.hasTableChanged() {
		return noTimeFree
	}
	return x.expiries.nextExpiryMS() - 1
}

// sealBatch ends the batch, with the ledger if that changes, and returns its effects. They are about
// to be committed.
func (x *executor) sealBatch() []byte {
	x.tracedChanges = len(x.guard.locks.ListChanges())
	x.published.traces.beginBatch(x.guard.locks.ListChanges())
	x.sealedLedger.mixed = x.sealedLedger.mixed || writesMixed(x.env.Effects())
	x.leavesOrphans = false
	if x.sealedLedger.mixed {
		x.recordHousekeeping()
	}
	x.clock.setFreeEnd(min(x.clock.freeEnd.Load(), x.freeTimeEnd())) // before the batch is visible
	x.sealedLedger.clockCeiling = x.nextClockCeiling(x.sealedLedger.clockCeiling)
	// A range that comes from another group may lift versions far above what is
	// reserved: a crash before the next reservation must not take them back.
	next := x.env.NextVersion()
	x.sealedLedger.versionCeiling = max(x.sealedLedger.versionCeiling, next)
	if x.sealedLedger != x.ledger {
		x.scratch = x.sealedLedger.appendRecord(x.scratch[:0])
		x.env.Effects().Put(x.ledgerRowKey, x.scratch)
	}
	return x.env.Effects().Bytes()
}

// finishBatch makes a durable batch visible to readers past the queue, or takes back one that
// was refused, and lets the clock go on. After a failure that leaves open which of the two it
// is, the clock stays held: what is visible at the next Open is unknown.
func (x *executor) finishBatch(committed bool) {
	if x.fatalErr != nil {
		return
	}
	if committed && x.env.Effects().Len() > 0 {
		x.ledger, x.nextVersion = x.sealedLedger, x.env.NextVersion()
		x.seq++
		x.clock.raiseCeiling(x.ledger.clockCeiling)
		if x.ledger.mixed {
			x.reader.mixed.Store(true)
		}
		if x.leavesOrphans {
			x.hasOrphans.Store(true)
		}
		x.publishChanges()
		x.clock.setFreeEnd(x.freeTimeEnd())
	} else {
		x.published.traces.endBatch(x.guard.locks.ListChanges()[:x.tracedChanges], false)
		x.guard.rollbackBatch()
	}
	if x.guard.reservations.ReleasedCount() != x.guard.releasedBefore {
		x.published.wakeWaiters()
	}
	x.clock.resumeTime()
}

// publishChanges publishes what the batch has changed of the ownership table and the locks.
func (x *executor) publishChanges() {
	traces := &x.published.traces
	traces.endBatch(x.guard.locks.ListChanges()[:x.tracedChanges], true)
	reowned := x.guard.hasTableChanged()
	if reowned {
		came, err := x.guard.syncLocks(unlimitedScanState{x.reader.State})
		if err != nil {
			x.fatalErr = failedError(err)
			return
		}
		followed := x.guard.locks.ListChanges()[x.tracedChanges:] // before others know the table
		traces.beginBatch(followed)
		traces.endBatch(followed, true)
		if came { // with what may expire, and may have elements to sweep
			x.expiries.horizon = unknownHorizon
			x.hasOrphans.Store(true)
		}
	}
	if reowned || x.guard.locks.Savepoint() > 0 {
		x.published.publishGuard(x.guard, true)
	}
}

// callerError is what the caller gets, given the error of the batch.
func (x *executor) callerError(c *call, err error) error {
	switch {
	case err == nil:
		return nil
	case x.fatalErr != nil && c.hasWritten:
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	case x.fatalErr != nil:
		return x.fatalErr
	case c.hasWritten:
		return err
	}
	return nil
}

// writesMixed reports whether there is a row that a plain Set must not overwrite
// blindly.
func writesMixed(out *effect.Builder) bool {
	batch, err := effect.Parse(out.Bytes())
	if err != nil {
		return true
	}
	for _, op := range batch.All() {
		if op.Key[0] == byte(effect.Expiry) || op.Key[0] == byte(effect.Orphans) ||
			!op.Delete && op.Key[0] == byte(effect.Rows) && op.Value[0] != byte(command.String) {
			return true
		}
	}
	return false
}

// recordHousekeeping notes which keys of the batch expire, and whether it leaves
// elements behind. If the batch is refused that is too much, which does no harm.
func (x *executor) recordHousekeeping() {
	batch, err := effect.Parse(x.env.Effects().Bytes())
	if err != nil {
		return
	}
	for _, op := range batch.All() {
		if op.Delete {
			continue
		}
		switch effect.Table(op.Key[0]) {
		case effect.Orphans:
			x.leavesOrphans = true
		case effect.Expiry:
			if at, err := command.DecodeExpiry(op.Value); err == nil {
				x.expiries.add(op.Key[1:], at)
			}
		}
	}
}

// unlimitedScanState is a State that refuses no scan because others have too many scans open:
// what is committed has to be followed.
type unlimitedScanState struct{ State }

// Scan implements [command.Reader].
func (b unlimitedScanState) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	if s, ok := b.State.(interface {
		ScanBriefly(start, end []byte, reverse bool, visit func(key, value []byte) bool) error
	}); ok {
		return s.ScanBriefly(start, end, reverse, visit)
	}
	return b.State.Scan(start, end, reverse, visit)
}

// UrgentCommand is a command that may use what is kept for it when the disk is full, if
// IsUrgent: one that ends what is under way, or frees space. There are no more of them than of
// commands that found space before, and of steps of jobs, which are few and small: what a job
// copies is not urgent.
type UrgentCommand interface{ IsUrgent() bool }

func isUrgent(c command.Command) bool {
	u, ok := c.(UrgentCommand)
	return ok && u.IsUrgent()
}
