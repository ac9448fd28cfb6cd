package sim

import (
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/internal/patterns/delivery"
	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/testkit/check"
	"github.com/cleavekv/cleave/partition"
)

// letters are where keys begin. At first each has a shard.
var letters = []string{"a", "b", "c", "d", "e", "f"}

// positionOf is the position of a key.
func positionOf(key string) partition.Position { return dataKeyspace.AppendPosition(nil, []byte(key)) }

// firstBoundaries are those of the first map: the catalog's shard, and one for each
// letter.
func firstBoundaries() []partition.Position {
	b := []partition.Position{dataKeyspace.Span().Start}
	for _, l := range letters[1:] {
		b = append(b, dataKeyspace.PrefixSpan([]byte(l)).Start)
	}
	return b
}

// client does one thing after the other, and notes its results.
type client struct {
	w       *world
	id      int
	m       *partition.Map // may be old
	opsLeft int

	knownParts int                // of the split counter, as far as it knows
	knownQueue *delivery.Manifest // may be old
	deliveries []queueDelivery
}

// op is one thing that a client does.
type op struct {
	c         *client
	invokedAt int64
	isOver    bool
	// onEnd notes what became of it.
	onEnd func(check.Call)
	// attempt numbers what is outstanding: other answers come too late.
	attempt  int
	backoffs int
	timerID  int // names the last one
	// onRetry, if set, begins anew what has failed. Its argument reports whether that was by
	// its own will: cancelled.
	onRetry   func(cancelled bool)
	cancelled bool
	// next, if set, is what the client does next.
	next func()
}

// defaultTimeout is how long a client waits for an answer.
const defaultTimeout = 400 * millisecond

// beginNext lets the client do something, if anything is left.
func (c *client) beginNext() {
	if c.opsLeft == 0 || c.w.isQuiescing {
		c.opsLeft = 0
		return
	}
	c.opsLeft--
	c.runRandomOp()
}

// startOp begins an op, which ends with what is known by then.
func (c *client) startOp(end func(check.Call)) *op {
	o := &op{c: c, invokedAt: c.w.nextTick(), onEnd: end}
	o.setTimeout(defaultTimeout)
	return o
}

// setTimeout bounds how long the op waits from now on.
func (o *op) setTimeout(us int64) {
	o.timerID++
	timer := o.timerID
	o.c.w.scheduleAfter(us, func() {
		if o.timerID == timer {
			o.finish(check.Unknown)
		}
	})
}

// finish ends the op, and the client goes on with the next.
func (o *op) finish(s check.Status) {
	if o.isOver {
		return
	}
	o.isOver = true
	w := o.c.w
	w.addCount("operations " + s.String())
	w.recordTrace("finish", uint64(o.c.id), uint64(s))
	o.onEnd(check.Call{Client: o.c.id, Invoke: o.invokedAt, Return: w.nextTick(), Status: s})
	next := o.c.beginNext
	switch {
	case s == check.Failed && o.onRetry != nil:
		next = o.retry
	case o.next != nil && !w.isQuiescing:
		next = o.next
	}
	w.scheduleAfter(w.rng.Int64N(3*millisecond), next)
}

// retry begins anew, unless the load is over.
func (o *op) retry() {
	if o.c.w.isQuiescing {
		o.c.opsLeft = 0
		return
	}
	o.onRetry(o.cancelled)
}

// visit is what is done at the group that has a key.
type visit func(protocol.GroupHost) (command.Reply, error)

// makeVisit is a request in its turn, as a visit.
func (w *world) makeVisit(r func() group.Request) visit {
	return func(p protocol.GroupHost) (command.Reply, error) {
		request := r()
		request.NoWait = true
		reply, err := p.Group.Execute(ctx, request)
		w.isReplyLost(w.findDisk(p), err)
		return reply, err
	}
}

// sendVisit sends a visit to the group that has a position, as far as the client knows,
// again if it was the wrong one or has to wait. Safe visits may happen twice, so
// they are sent again if no answer comes.
func (o *op) sendVisit(p partition.Position, safe bool, v visit, heard func(command.Reply)) {
	if o.isOver {
		return
	}
	w := o.c.w
	o.attempt++
	attempt, to := o.attempt, o.c.m.Owner(p).Group
	again := func(delay int64) {
		w.scheduleAfter(delay, func() {
			if o.attempt == attempt {
				o.sendVisit(p, safe, v, heard)
			}
		})
	}
	if safe {
		again(30 * millisecond)
	}
	l := message{"calling", safe}
	w.sendMessage(l, func() {
		place, err := w.findHost(to)
		if err != nil {
			return
		}
		reply, err := v(place)
		if w.homeDisk(to).hasFailed {
			return // the reply is lost
		}
		if err == nil {
			err = reply.Err
		}
		w.recordHeat(p, len(p)+len(reply.Bytes))
		w.recordTrace("call", uint64(to), uint64(reply.Kind), uint64(reply.Int), reply.Version)
		w.sendMessage(l, func() {
			if !o.isOver && o.attempt == attempt {
				o.handleReply(to, safe, reply, err, again, heard)
			}
		})
	})
}

// handleReply goes on with an answer: it is received, or the visit is sent again, or the op ends.
func (o *op) handleReply(by partition.GroupID, safe bool, reply command.Reply, err error, again func(int64), heard func(command.Reply)) {
	w := o.c.w
	switch {
	case errors.Is(err, ownership.ErrWrongGroup):
		w.addCount("calls to a wrong group")
		o.c.refreshMap()
		again(w.nextBackoff(o))
	case errors.Is(err, txn.ErrLocked), errors.Is(err, txn.ErrReserved), errors.Is(err, ownership.ErrFrozen):
		w.addCount("calls that met a lock or a freeze")
		w.maybeResolveLock(err, o.backoffs)
		again(w.nextBackoff(o))
	case isGroupNotOpen(err):
	case isDiskFull(err) && safe:
		o.finish(check.Unknown) // another copy may be on its way, and find room
	case isDiskFull(err):
		o.finish(check.Failed)
	case err != nil && reply.Err == nil:
		w.failf("%v fails: %w", by, err)
	default:
		o.attempt++ // it may come twice, and counts once
		heard(reply)
	}
}

// nextBackoff is longer each time, never none.
func (w *world) nextBackoff(o *op) int64 {
	o.backoffs++
	return millisecond<<min(o.backoffs, 5) + w.rng.Int64N(2*millisecond)
}

// refreshMap takes the router's map, which may be old too: then that asks for a new
// one.
func (c *client) refreshMap() {
	if c.w.router != nil && c.w.router.Version() > c.m.Version() {
		c.m = c.w.router
		return
	}
	c.w.refreshMap()
}

// maybeResolveLock looks after a lock that was met for a while, as a parked call does.
func (w *world) maybeResolveLock(err error, parked int) {
	var met *txn.LockedError
	if parked > 1 && errors.As(err, &met) {
		w.resolveIfDecided(met.Lock)
	}
}

// makeReadVisit reads a key past the queue.
func makeReadVisit(key string) visit {
	return func(p protocol.GroupHost) (command.Reply, error) {
		row, ok, err := p.Group.Read(ctx, positionOf(key), nil)
		if err != nil || !ok {
			return command.Reply{}, err
		}
		return command.Reply{Kind: command.Bytes, Bytes: row.Payload, Version: row.Version}, nil
	}
}

// makeKey returns a key of a letter.
func makeKey(letter, what string, n int) string { return fmt.Sprintf("%s/%s%d", letter, what, n) }

// runContendedOp is that where transactions are to be in each other's way.
func (c *client) runContendedOp(n int) {
	switch {
	case n < 12:
		c.runLeaseOp(makeKey(letters[c.w.rng.IntN(2)], "lease", 0))
	case n < 50:
		c.appendLists()
	case n < 70:
		c.toggleMember(letters[c.w.rng.IntN(2)])
	case n < 90:
		c.compareRoster(letters[c.w.rng.IntN(2)])
	case n < 95:
		c.transferMoney()
	default:
		c.auditBank()
	}
}

// runRandomOp is what the client does next.
func (c *client) runRandomOp() {
	w := c.w
	letter := pickOne(w, w.pickLetters(1))
	n := w.rng.IntN(100)
	if p := w.pickJobPhase(); p == "retiring" || p == "removing" {
		n /= 2 // a group that has decided nothing goes at once
	}
	switch {
	case w.cfg.Sagas:
		c.runSagaOp()
	case w.cfg.Workload == "counter":
		c.runSplitCounterOp()
	case w.cfg.Workload == "queue":
		c.runQueueOp()
	case w.cfg.Workload == "rounds":
		c.runRoundsOp()
	case w.cfg.Contended:
		c.runContendedOp(n)
	case w.cfg.Heat == "edge" && w.drawChance(600):
		c.runRegisterOp(w.pickEdgeKey())
	case n < 16:
		c.runRegisterOp(makeKey(letter, "reg", w.rng.IntN(2)))
	case n < 22:
		c.addToCounter(makeKey(letter, "cnt", 0))
	case n < 26:
		c.addToFieldCounter(makeKey(letter, "hcnt", 0))
	case n < 32:
		c.changeScanKey(makeKey(letter, "scan", w.rng.IntN(4)))
	case n < 35:
		c.scanLetters()
	case n < 37:
		c.toggleSaltedRow()
	case n < 39:
		c.readSaltedLog()
	case n < 41:
		c.writeIndexedRow()
	case n < 43:
		c.compareIndexedRow()
	case n < 48:
		c.runHashOp(makeKey(letter, "hash", 0))
	case n < 55:
		c.runLeaseOp(makeKey(letters[w.rng.IntN(2)], "lease", 0))
	case n < 72:
		c.appendLists()
	case n < 80:
		c.transferMoney()
	case n < 85:
		c.auditBank()
	case n < 90:
		c.toggleMember(letter)
	case n < 96:
		c.compareRoster(letter)
	default:
		c.bookCabin()
	}
}
