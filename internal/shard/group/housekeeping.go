package group

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/partition"
)

// housekeeping is where housekeeping goes on. One goroutine at a time tends.
type housekeeping struct {
	nextOrphanKey []byte // store key up to which notes of orphans were read
	// sweptCounts is how many elements were swept at positions where that goes on.
	sweptCounts map[string]int64
	// What is looked through for rows that are over.
	requests, marks, decisions tableScan
}

// HousekeepingNeeded has an element when Housekeep should be called soon.
func (g *Group) HousekeepingNeeded() <-chan struct{} { return g.housekeepingNeeded }

// Housekeep does a round of housekeeping: it reserves time, ends overdue reservations of
// transactions, deletes expired keys, removes what deleted collections left behind, and forgets
// old requests and transactions. The owner of the group calls it about every 100 milliseconds,
// from one goroutine. Only this depends on it: the space that dead rows take, how long a dead
// transaction keeps its reservation, and how long an idle group's clock stands still. more
// reports whether there is more to do at once.
func (g *Group) Housekeep(ctx context.Context) (more bool, err error) {
	var due []partition.Position
	var fill bool
	var failure error
	err = g.actor.Do(ctx, func(x *executor) {
		if failure = x.fatalErr; failure != nil {
			return
		}
		if failure = x.raiseCeilings(); failure != nil {
			return
		}
		now := x.clock.now()
		fill = x.expiries.needsFill(now)
		if fill {
			x.expiries.reset() // what comes from now on is added as it comes
			x.fillingExpiries = true
		}
		due = x.popDueKeys(now)
		x.clock.setFreeEnd(x.freeTimeEnd())
		if x.guard.expireReservations(now) {
			x.published.wakeWaiters()
		}
	})
	if err != nil {
		return false, g.mailboxError(err)
	}
	if failure != nil {
		return false, failure
	}
	reaped, err := g.reapKeys(ctx, due)
	swept, err2 := g.sweepOrphans(ctx)
	forgot, err3 := g.deleteObsolete(ctx)
	var err4 error
	if fill {
		err4 = g.fillExpiries(ctx)
	}
	return reaped || swept || forgot || fill, errors.Join(err, err2, err3, err4)
}

// popDueKeys takes keys out of the queue whose time has come.
func (x *executor) popDueKeys(now int64) (positions []partition.Position) {
	for len(positions) < housekeepLimit {
		p, ok := x.expiries.next(now)
		if !ok {
			break
		}
		positions = append(positions, p)
	}
	return positions
}

// reapKeys deletes those of keys that have expired and were not written since. Those that cannot be read, or
// are locked, keep no other from it, and are tried again later.
func (g *Group) reapKeys(ctx context.Context, keys []partition.Position) (more bool, err error) {
	var batch []*call
	var unread, left []partition.Position
	var bad error
	var wasted time.Duration
	for i, key := range keys {
		if wasted > maxFailedReadTime || ctx.Err() != nil {
			left = append(left, keys[i:]...)
			break
		}
		began := time.Now()
		over, version, err := g.checkExpired(key)
		switch {
		case err != nil:
			wasted += time.Since(began)
			unread, bad = append(unread, key), err
		case over:
			batch = append(batch, &call{Request: Request{Command: &command.Reap{Key: key, Version: version}, Key: key, NonBlocking: true}})
		}
	}
	if err = g.runNonBlockingCalls(ctx, batch); err == nil {
		bad = errors.Join(bad, firstFailure(batch))
		for _, c := range batch {
			if err := c.reply.Err; err == nil {
				g.expiredKeys.Add(uint64(c.reply.Int))
			} else if !errors.Is(err, ownership.ErrWrongGroup) {
				left = append(left, c.Key)
			}
		}
		err = g.requeueExpiries(ctx, unread, left)
	}
	if err != nil {
		g.invalidateExpiries(ctx) // they are no longer in the queue
	}
	return len(keys) == housekeepLimit, errors.Join(bad, err)
}

// requeueExpiries puts keys back into the queue of expiries.
func (g *Group) requeueExpiries(ctx context.Context, unread, left []partition.Position) error {
	if len(unread)+len(left) == 0 {
		return nil
	}
	err := g.actor.Do(ctx, func(x *executor) {
		for _, key := range unread {
			x.expiries.add(key, x.clock.now()+retryUnreadMS)
		}
		for _, key := range left {
			x.expiries.add(key, x.clock.now()+retryLockedMS)
		}
	})
	if err != nil {
		err = g.mailboxError(err)
	}
	return err
}

// runNonBlockingCalls executes NonBlocking calls. Those that are refused for a disk are
// prefetched, and tried again together; those that are refused then are executed each by itself.
func (g *Group) runNonBlockingCalls(ctx context.Context, batch []*call) error {
	err := g.runCalls(ctx, batch)
	for _, nonBlocking := range []bool{true, false} {
		var again []*call
		for i, c := range batch {
			if err != nil || ctx.Err() != nil || !isNotExecuted(c.reply.Err) {
				continue
			}
			batch[i] = &call{Request: c.Request}
			batch[i].NonBlocking = nonBlocking
			again = append(again, batch[i])
			g.PrefetchCommand(c.Command)
			if !nonBlocking {
				err = g.runCalls(ctx, batch[i:i+1])
			}
		}
		if nonBlocking && err == nil {
			err = g.runCalls(ctx, again)
		}
	}
	return errors.Join(err, ctx.Err())
}

// checkExpired reports whether the row of a key is there and has expired, and its version.
func (g *Group) checkExpired(key partition.Position) (over bool, version uint64, err error) {
	value, ok, err := g.state.Get(effect.Rows.AppendKey(nil, key), nil)
	if err != nil || !ok {
		return false, 0, err
	}
	row, err := command.DecodeRow(value)
	return err == nil && !row.IsAlive(g.clock.now()), row.Version, err
}

// isNotExecuted reports whether a NonBlocking call was not executed for a disk, or for what others take.
func isNotExecuted(err error) bool {
	return errors.Is(err, ErrWouldBlock) || errors.Is(err, ErrSkipped)
}

// runCalls executes housekeeping calls. Those that are NonBlocking may be refused for a disk; of
// others, which may wait for one, there should be one. After an error they are the group's
// still.
func (g *Group) runCalls(ctx context.Context, batch []*call) error {
	for len(batch) > 0 {
		n := min(len(batch), g.opts.Queue)
		errs := make([]error, n)
		if err := g.actor.CallBatch(ctx, batch[:n], errs); err != nil {
			return g.mailboxError(err)
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		batch = batch[n:]
	}
	return nil
}

// firstFailure returns why one of some calls has failed. What is locked or being moved elsewhere
// is left to a later round, or to another group.
func firstFailure(batch []*call) error {
	for _, c := range batch {
		if err := c.reply.Err; err != nil && !isRetryable(err) && !errors.Is(err, ownership.ErrWrongGroup) && !isNotExecuted(err) {
			return err
		}
	}
	return nil
}

// sweepOrphans removes elements of collections that no longer exist.
func (g *Group) sweepOrphans(ctx context.Context) (more bool, err error) {
	if !g.hasOrphans.Load() && g.housekeeping.nextOrphanKey == nil {
		return false, nil
	}
	if g.housekeeping.nextOrphanKey == nil {
		g.trimSwept()
		g.hasOrphans.Store(false) // unless the walk that begins finds some, or a batch makes some
	}
	var batch []*call
	from, to := effect.Orphans.Span()
	for range housekeepLimit / maxSweptKeys { // those of other groups of the store are passed over
		g.housekeeping.nextOrphanKey, err = g.scanRows(from, to, g.housekeeping.nextOrphanKey, maxSweptKeys, func(key, _ []byte) {
			if p := partition.Position(bytes.Clone(key[1:])); g.canRead(p) {
				batch = append(batch, newSweepCall(p, housekeepLimit, true))
			}
		})
		if err != nil || len(batch) > 0 || g.housekeeping.nextOrphanKey == nil {
			break
		}
	}
	for _, c := range batch {
		if ctx.Err() == nil {
			g.PrefetchCommand(c.Command) // the elements of what was deleted were not read yet
		}
	}
	if err == nil {
		err = g.runCalls(ctx, batch)
	}
	if err == nil {
		err = firstFailure(batch)
		for _, c := range batch {
			some := c.reply.Err == nil
			if some {
				g.countSwept(c.Key, &c.reply)
			}
			if isNotExecuted(c.reply.Err) {
				var bad error
				some, bad = g.sweepInSteps(ctx, c.Key)
				err = errors.Join(err, bad) // one that fails keeps no other from it
			}
			more = more || some
		}
	}
	if err != nil || len(batch) > 0 {
		g.hasOrphans.Store(true)
	}
	return more, err
}

// sweepInSteps sweeps a key a little at a time: each may wait for a disk. It reports whether it got on.
func (g *Group) sweepInSteps(ctx context.Context, p partition.Position) (some bool, err error) {
	for n, more := 0, true; more && n < housekeepLimit && ctx.Err() == nil; n += maxSweepStep {
		c := newSweepCall(p, maxSweepStep, false)
		if err := g.runCalls(ctx, []*call{c}); err != nil {
			return some, err
		}
		if err := firstFailure([]*call{c}); err != nil {
			return some, err
		}
		if c.reply.Err == nil {
			some = true
			g.countSwept(p, &c.reply)
		}
		more = c.reply.More
	}
	return some, nil
}

// countSwept counts what a sweep has removed. At the end of a long one it logs where that was.
func (g *Group) countSwept(p partition.Position, reply *command.Reply) {
	n := g.housekeeping.sweptCounts[string(p)] + reply.Int
	if reply.More {
		if g.housekeeping.sweptCounts == nil {
			g.housekeeping.sweptCounts = map[string]int64{}
		}
		g.housekeeping.sweptCounts[string(p)] = n
		return
	}
	delete(g.housekeeping.sweptCounts, string(p))
	if n >= minReportedSweep && g.opts.OnSwept != nil {
		g.opts.OnSwept(command.ElementSpan(p))
	}
}

// trimSwept forgets positions that other groups have got meanwhile.
func (g *Group) trimSwept() {
	for p := range g.housekeeping.sweptCounts {
		if !g.canRead(partition.Position(p)) {
			delete(g.housekeeping.sweptCounts, p)
		}
	}
}

func newSweepCall(p partition.Position, limit int, nonBlocking bool) *call {
	return &call{Request: Request{Command: &command.Sweep{Key: p, Limit: limit}, Key: p, NonBlocking: nonBlocking}}
}

// isServing reports whether the group owns a position.
func (g *Group) isServing(p partition.Position) bool {
	r, ok := g.published.table.Load().Find(p)
	return ok && r.State == ownership.Serving
}

// canRead reports whether the group owns a position, be it frozen: then it may be thawed.
func (g *Group) canRead(p partition.Position) bool { return g.published.table.Load().CanRead(p) }

// scanRows visits up to limit rows between two store keys from a third on, and returns
// where to go on, nil for the beginning.
func (g *Group) scanRows(start, end, from []byte, limit int, visit func(key, value []byte)) (next []byte, err error) {
	if from == nil {
		from = start
	}
	n := 0
	err = g.state.Scan(from, end, false, func(key, value []byte) bool {
		if n == limit {
			next = bytes.Clone(key)
			return false
		}
		n++
		visit(key, value)
		return true
	})
	return next, err
}

// fillExpiries reads the table of expiries. What was written since the queue
// was reset is in the queue already, so nothing is missed.
func (g *Group) fillExpiries(ctx context.Context) error {
	found := newExpiryQueue(g.opts.ExpiryKeys)
	var bad error
	from, to := effect.Expiry.Span()
	err := g.state.Scan(from, to, false, func(key, value []byte) bool {
		var at int64
		if at, bad = command.DecodeExpiry(value); bad != nil || ctx.Err() != nil {
			return false
		}
		if g.canRead(key[1:]) {
			found.add(key[1:], at)
		}
		return true
	})
	if err = errors.Join(err, bad, ctx.Err()); err == nil {
		if err = g.actor.Do(ctx, func(x *executor) {
			x.expiries.merge(&found)
			x.fillingExpiries = false
			x.clock.setFreeEnd(x.freeTimeEnd())
		}); err != nil {
			err = g.mailboxError(err)
		}
	}
	if err != nil {
		g.invalidateExpiries(ctx)
	}
	return err
}

// invalidateExpiries makes the next round fill the queue of expiries again. It happens
// whatever becomes of ctx; a group that is closing needs no queue.
func (g *Group) invalidateExpiries(ctx context.Context) {
	_ = g.actor.Do(context.WithoutCancel(ctx), func(x *executor) {
		x.expiries.horizon, x.fillingExpiries = unknownHorizon, false
		x.clock.setFreeEnd(noTimeFree)
	})
}

// tableScan is how far a table was looked through for rows that are over.
type tableScan struct {
	nextKey     []byte // store key to go on at
	notBeforeMS int64  // not before that time
	foundRows   bool   // since the beginning there were rows
	emptyScans  int    // how often there were none
}

// deleteObsolete removes a few rows that are no longer needed: records of requests that are
// refused by now anyway, marks of transactions past their deadline, and decisions that all
// participants have received.
func (g *Group) deleteObsolete(ctx context.Context) (more bool, err error) {
	now, remember := g.clock.now(), g.opts.Remember.Milliseconds()
	requests, err1 := g.deleteObsoleteIn(ctx, &g.housekeeping.requests, remember/10, effect.Dedup.Span, func(key, _ []byte) (bool, error) {
		id, ok := dedupID(key)
		return ok && id.TimeMS() < now-remember && g.isServing(key[1:]), nil
	})
	marks, err2 := g.deleteObsoleteIn(ctx, &g.housekeeping.marks, obsoleteScanMS, effect.Marks.Span, func(key, value []byte) (bool, error) {
		m, err := txn.DecodeMark(value)
		return now > m.DeadlineMS && g.isServing(key[1:]), err
	})
	decided := func() (from, to []byte) { return txn.DecisionSpan(g.opts.ID) }
	decisions, err3 := g.deleteObsoleteIn(ctx, &g.housekeeping.decisions, obsoleteScanMS, decided, func(key, value []byte) (bool, error) {
		d, err := txn.DecodeDecision(key, value)
		return err == nil && d.IsObsolete(now), err
	})
	return requests || marks || decisions, errors.Join(err1, err2, err3)
}

// deleteObsoleteIn reads the next rows of a span of store keys and removes those that
// are over. When it has seen all, it waits before it begins again.
func (g *Group) deleteObsoleteIn(
	ctx context.Context, l *tableScan, everyMS int64,
	span func() (from, to []byte), over func(key, value []byte) (bool, error),
) (more bool, err error) {
	now := g.clock.now()
	if now < l.notBeforeMS {
		return false, nil
	}
	old := &deleteRows{}
	var bad error
	from, to := span()
	next, err := g.scanRows(from, to, l.nextKey, housekeepLimit, func(key, value []byte) {
		l.foundRows = true
		dead, err := over(key, value)
		if err != nil {
			bad = err
		} else if dead {
			old.keys = append(old.keys, bytes.Clone(key))
		}
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return false, err
	}
	if l.nextKey = next; next == nil {
		if l.emptyScans++; l.foundRows {
			l.emptyScans = 0
		}
		idle := min(everyMS<<min(l.emptyScans, 10), maxIdleMS)
		l.notBeforeMS, l.foundRows = now+max(everyMS, idle), false
	}
	if len(old.keys) > 0 {
		batch := []*call{{Request: Request{Command: old}}}
		if err = g.runCalls(ctx, batch); err == nil {
			err = firstFailure(batch)
		}
	}
	return next != nil, err
}

// deleteRows is the command that removes rows that are over.
type deleteRows struct{ keys [][]byte }

// Eval deletes the rows. Those that are locked, or on their way elsewhere, are left to a later look.
func (c *deleteRows) Eval(e *command.Env) command.Reply {
	for _, key := range c.keys {
		// The state is the group's own.
		if effect.Table(key[0]) == effect.State || e.CheckWrite(key[1:]) == nil {
			e.Delete(key)
		}
	}
	return command.Reply{Kind: command.OK}
}

// IsUrgent implements [UrgentCommand]: it frees space.
func (c *deleteRows) IsUrgent() bool { return true }
