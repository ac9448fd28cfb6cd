package group

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

const (
	// tendLimit bounds what one round of housekeeping does of each kind, so that
	// commands do not wait for it.
	tendLimit = 512
	// unreadMS is after what time a row is looked at again that could not be read, leftMS the same for one that
	// was locked, or not tried, because those that could not be read took more than mostWasted in a round.
	unreadMS, leftMS = 10_000, 1000
	mostWasted       = 200 * time.Millisecond
	// sweepKeys is of how many keys elements are swept in a round.
	sweepKeys = 16
	// sweepFew is how many elements are looked at together if there may be a disk to wait for.
	sweepFew = 16
)

// tending is where housekeeping goes on. One goroutine at a time tends.
type tending struct {
	orphans []byte // store key up to which notes of orphans were looked at
	// What is looked through for rows that are over.
	requests, marks, decisions looking
}

// Nudged has an element when Tend should be called soon.
func (g *Group) Nudged() <-chan struct{} { return g.nudge }

// Tend does a round of housekeeping: it reserves time, ends the turns of transactions
// that are overdue, deletes keys that have expired, removes what deleted collections
// left behind, and forgets old requests and transactions. Whoever owns the group calls
// it about every 100 milliseconds, from one goroutine; nothing depends on it but the
// space that dead rows take, how long a dead transaction keeps its turn, and how long
// an idle group's clock stands still. more tells that there is more to do at once.
func (g *Group) Tend(ctx context.Context) (more bool, err error) {
	var due []partition.Position
	var fill bool
	var failure error
	err = g.actor.Do(ctx, func(x *executor) {
		if failure = x.dead; failure != nil {
			return
		}
		if failure = x.reserve(); failure != nil {
			return
		}
		now := x.clock.now()
		fill = x.expiries.wantsFill(now)
		if fill {
			x.expiries.reset() // what comes from now on is added as it comes
		}
		due = x.due(now)
		if x.guard.expire(now) {
			x.visible.wake()
		}
	})
	if err != nil {
		return false, g.refused(err)
	}
	if failure != nil {
		return false, failure
	}
	reaped, err := g.reap(ctx, due)
	swept, err2 := g.sweep(ctx)
	forgot, err3 := g.forget(ctx)
	var err4 error
	if fill {
		err4 = g.fillExpiries(ctx)
	}
	return reaped || swept || forgot || fill, errors.Join(err, err2, err3, err4)
}

// due takes keys out of the queue whose time has come.
func (x *executor) due(now int64) (positions []partition.Position) {
	for len(positions) < tendLimit {
		p, ok := x.expiries.next(now)
		if !ok {
			break
		}
		positions = append(positions, p)
	}
	return positions
}

// reap deletes those of keys that have expired and were not written since. Those that cannot be read, or
// are locked, keep no other from it, and are looked at again later.
func (g *Group) reap(ctx context.Context, keys []partition.Position) (more bool, err error) {
	var batch []*call
	var unread, left []partition.Position
	var bad error
	var wasted time.Duration
	for i, key := range keys {
		if wasted > mostWasted || ctx.Err() != nil {
			left = append(left, keys[i:]...)
			break
		}
		began := time.Now()
		over, version, err := g.over(key)
		switch {
		case err != nil:
			wasted += time.Since(began)
			unread, bad = append(unread, key), err
		case over:
			batch = append(batch, &call{Request: Request{Command: &command.Reap{Key: key, Version: version}, Key: key, Hasty: true}})
		}
	}
	if err = g.postAll(ctx, batch); err == nil {
		bad = errors.Join(bad, failure(batch))
		for _, c := range batch {
			if err := c.reply.Err; err == nil {
				g.expired.Add(uint64(c.reply.Int))
			} else if !errors.Is(err, own.ErrWrongGroup) {
				left = append(left, c.Key)
			}
		}
		err = g.lookAgain(ctx, unread, left)
	}
	if err != nil {
		g.loseTrack(ctx) // they are no longer in the queue
	}
	return len(keys) == tendLimit, errors.Join(bad, err)
}

// lookAgain puts keys back into the queue of expiries.
func (g *Group) lookAgain(ctx context.Context, unread, left []partition.Position) error {
	if len(unread)+len(left) == 0 {
		return nil
	}
	err := g.actor.Do(ctx, func(x *executor) {
		for _, key := range unread {
			x.expiries.add(key, x.clock.now()+unreadMS)
		}
		for _, key := range left {
			x.expiries.add(key, x.clock.now()+leftMS)
		}
	})
	if err != nil {
		err = g.refused(err)
	}
	return err
}

// postAll executes hasty calls. Those that are refused for a disk are rehearsed, and tried again together;
// those that are refused then are executed each by itself.
func (g *Group) postAll(ctx context.Context, batch []*call) error {
	err := g.post(ctx, batch)
	for _, hasty := range []bool{true, false} {
		var again []*call
		for i, c := range batch {
			if err != nil || ctx.Err() != nil || !isCold(c.reply.Err) {
				continue
			}
			batch[i] = &call{Request: c.Request}
			batch[i].Hasty = hasty
			again = append(again, batch[i])
			g.Rehearse(c.Command)
			if !hasty {
				err = g.post(ctx, batch[i:i+1])
			}
		}
		if hasty && err == nil {
			err = g.post(ctx, again)
		}
	}
	return errors.Join(err, ctx.Err())
}

// over tells whether the row of a key is there and has expired, and its version.
func (g *Group) over(key partition.Position) (over bool, version uint64, err error) {
	value, ok, err := g.state.Get(effect.Rows.AppendKey(nil, key), nil)
	if err != nil || !ok {
		return false, 0, err
	}
	row, err := command.DecodeRow(value)
	return err == nil && !row.Alive(g.clock.now()), row.Version, err
}

// isCold tells whether a hasty call was not executed for a disk, or for what others take.
func isCold(err error) bool { return errors.Is(err, ErrCold) || errors.Is(err, ErrBehind) }

// post executes housekeeping calls. Those that are hasty may be refused for a disk; of others, which may wait
// for one, there should be one. After an error they are the group's still.
func (g *Group) post(ctx context.Context, batch []*call) error {
	for len(batch) > 0 {
		n := min(len(batch), g.opts.Queue)
		errs := make([]error, n)
		if err := g.actor.CallBatch(ctx, batch[:n], errs); err != nil {
			return g.refused(err)
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		batch = batch[n:]
	}
	return nil
}

// failure is why one of some calls has failed. What is locked or on its way elsewhere is left to a later
// round, or to another group.
func failure(batch []*call) error {
	for _, c := range batch {
		if err := c.reply.Err; err != nil && !passes(err) && !errors.Is(err, own.ErrWrongGroup) && !isCold(err) {
			return err
		}
	}
	return nil
}

// sweep removes elements of collections that are no more.
func (g *Group) sweep(ctx context.Context) (more bool, err error) {
	if !g.orphans.Load() && g.tend.orphans == nil {
		return false, nil
	}
	if g.tend.orphans == nil {
		g.orphans.Store(false) // unless the walk that begins finds some, or a batch makes some
	}
	var batch []*call
	from, to := effect.Orphans.Span()
	for range tendLimit / sweepKeys { // those of other groups of the store are passed over
		g.tend.orphans, err = g.walk(from, to, g.tend.orphans, sweepKeys, func(key, _ []byte) {
			if p := partition.Position(bytes.Clone(key[1:])); g.reads(p) {
				batch = append(batch, sweeping(p, tendLimit, true))
			}
		})
		if err != nil || len(batch) > 0 || g.tend.orphans == nil {
			break
		}
	}
	for _, c := range batch {
		if ctx.Err() == nil {
			g.Rehearse(c.Command) // nobody has looked at the elements of what was deleted
		}
	}
	if err == nil {
		err = g.post(ctx, batch)
	}
	if err == nil {
		err = failure(batch)
		for _, c := range batch {
			some := c.reply.Err == nil
			if isCold(c.reply.Err) {
				var bad error
				some, bad = g.sweepAlone(ctx, c.Key)
				err = errors.Join(err, bad) // one that fails keeps no other from it
			}
			more = more || some
		}
	}
	if err != nil || len(batch) > 0 {
		g.orphans.Store(true)
	}
	return more, err
}

// sweepAlone sweeps a key a little at a time: each may wait for a disk. It tells whether it got on.
func (g *Group) sweepAlone(ctx context.Context, p partition.Position) (some bool, err error) {
	for n, more := 0, true; more && n < tendLimit && ctx.Err() == nil; n += sweepFew {
		c := sweeping(p, sweepFew, false)
		if err := g.post(ctx, []*call{c}); err != nil {
			return some, err
		}
		if err := failure([]*call{c}); err != nil {
			return some, err
		}
		some = some || c.reply.Err == nil
		more = c.reply.More
	}
	return some, nil
}

func sweeping(p partition.Position, limit int, hasty bool) *call {
	return &call{Request: Request{Command: &command.Sweep{Key: p, Limit: limit}, Key: p, Hasty: hasty}}
}

// serves tells whether the group owns a position.
func (g *Group) serves(p partition.Position) bool {
	r, ok := g.visible.list.Load().Find(p)
	return ok && r.State == own.Serving
}

// reads tells whether the group owns a position, be it frozen: then it may be thawed.
func (g *Group) reads(p partition.Position) bool { return g.visible.list.Load().Reads(p) }

// walk visits up to limit rows between two store keys from a third on, and returns
// where to go on, nil for the beginning.
func (g *Group) walk(start, end, from []byte, limit int, visit func(key, value []byte)) (next []byte, err error) {
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
		if g.reads(key[1:]) {
			found.add(key[1:], at)
		}
		return true
	})
	if err = errors.Join(err, bad, ctx.Err()); err == nil {
		if err = g.actor.Do(ctx, func(x *executor) { x.expiries.merge(&found) }); err != nil {
			err = g.refused(err)
		}
	}
	if err != nil {
		g.loseTrack(ctx)
	}
	return err
}

// loseTrack makes the next round fill the queue of expiries again. It happens
// whatever becomes of ctx; a group that is closing needs no queue.
func (g *Group) loseTrack(ctx context.Context) {
	_ = g.actor.Do(context.WithoutCancel(ctx), func(x *executor) { x.expiries.horizon = nothingKnown })
}
