package sim

import (
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/internal/check"
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/lanes"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// letters are where keys begin. At first each has a shard.
var letters = []string{"a", "b", "c", "d", "e", "f"}

// at is the position of a key.
func at(key string) partition.Position { return space.AppendPosition(nil, []byte(key)) }

// boundaries are those of the first map: the catalog's shard, and one for each
// letter.
func boundaries() []partition.Position {
	b := []partition.Position{space.Span().Start}
	for _, l := range letters[1:] {
		b = append(b, space.PrefixSpan([]byte(l)).Start)
	}
	return b
}

// client does one thing after the other, and notes what it hears.
type client struct {
	w      *world
	number int
	m      *partition.Map // may be old
	left   int

	parts int             // of the split counter, as far as it knows
	queue *lanes.Manifest // may be old
	has   []queueDelivery
}

// op is one thing that a client does.
type op struct {
	c      *client
	invoke int64
	over   bool
	// end notes what became of it.
	end func(check.Call)
	// attempt numbers what is outstanding: other answers come too late.
	attempt int
	parked  int
	timer   int // names the last one
	// again, if set, begins anew what has failed. It is told whether that was by
	// its own will: cancelled.
	again     func(cancelled bool)
	cancelled bool
	// then, if set, is what the client does next.
	then func()
}

// usualPatience is how long a client waits for an answer.
const usualPatience = 400 * millisecond

// begin lets the client do something, if anything is left.
func (c *client) begin() {
	if c.left == 0 || c.w.healing {
		c.left = 0
		return
	}
	c.left--
	c.something()
}

// start begins an op, which ends with what is known by then.
func (c *client) start(end func(check.Call)) *op {
	o := &op{c: c, invoke: c.w.tick(), end: end}
	o.patience(usualPatience)
	return o
}

// patience bounds how long the op waits from now on.
func (o *op) patience(us int64) {
	o.timer++
	timer := o.timer
	o.c.w.after(us, func() {
		if o.timer == timer {
			o.finish(check.Unknown)
		}
	})
}

// finish ends the op, and the client goes on with the next.
func (o *op) finish(s check.Status) {
	if o.over {
		return
	}
	o.over = true
	w := o.c.w
	w.count("operations " + s.String())
	w.note("finish", uint64(o.c.number), uint64(s))
	o.end(check.Call{Client: o.c.number, Invoke: o.invoke, Return: w.tick(), Status: s})
	next := o.c.begin
	switch {
	case s == check.Failed && o.again != nil:
		next = o.retry
	case o.then != nil && !w.healing:
		next = o.then
	}
	w.after(w.rng.Int64N(3*millisecond), next)
}

// retry begins anew, unless the load is over.
func (o *op) retry() {
	if o.c.w.healing {
		o.c.left = 0
		return
	}
	o.again(o.cancelled)
}

// visit is what is done at the group that has a key.
type visit func(drive.Place) (command.Reply, error)

// plain is a request in its turn, as a visit.
func (w *world) plain(r func() group.Request) visit {
	return func(p drive.Place) (command.Reply, error) {
		reply, err := p.Group.Try(ctx, r())
		w.silent(w.diskOf(p), err)
		return reply, err
	}
}

// route sends a visit to the group that has a position, as far as the client knows,
// again if it was the wrong one or has to wait. Safe visits may happen twice, so
// they are sent again if no answer comes.
func (o *op) route(p partition.Position, safe bool, v visit, heard func(command.Reply)) {
	if o.over {
		return
	}
	w := o.c.w
	o.attempt++
	attempt, to := o.attempt, o.c.m.Owner(p).Group
	again := func(delay int64) {
		w.after(delay, func() {
			if o.attempt == attempt {
				o.route(p, safe, v, heard)
			}
		})
	}
	if safe {
		again(30 * millisecond)
	}
	l := letter{"calling", safe}
	w.send(l, func() {
		place, err := w.find(to)
		if err != nil {
			return
		}
		reply, err := v(place)
		if w.home(to).dead {
			return // nobody hears of it
		}
		if err == nil {
			err = reply.Err
		}
		w.note("call", uint64(to), uint64(reply.Kind), uint64(reply.Int), reply.Version)
		w.send(l, func() {
			if !o.over && o.attempt == attempt {
				o.answered(to, safe, reply, err, again, heard)
			}
		})
	})
}

// answered goes on with an answer: it is heard, or the visit is sent again, or the op ends.
func (o *op) answered(by partition.GroupID, safe bool, reply command.Reply, err error, again func(int64), heard func(command.Reply)) {
	w := o.c.w
	switch {
	case errors.Is(err, own.ErrWrongGroup):
		w.count("calls to a wrong group")
		o.c.relearn()
		again(w.backoff(o))
	case errors.Is(err, txn.ErrLocked), errors.Is(err, txn.ErrHeld), errors.Is(err, own.ErrFrozen):
		w.count("calls that met a lock or a freeze")
		w.settleMet(err, o.parked)
		again(w.backoff(o))
	case away(err):
	case refused(err) && safe:
		o.finish(check.Unknown) // another copy may be on its way, and find room
	case refused(err):
		o.finish(check.Failed)
	case err != nil && reply.Err == nil:
		w.failf("%v fails: %w", by, err)
	default:
		o.attempt++ // it may come twice, and is heard once
		heard(reply)
	}
}

// backoff is longer each time, never none.
func (w *world) backoff(o *op) int64 {
	o.parked++
	return millisecond<<min(o.parked, 5) + w.rng.Int64N(2*millisecond)
}

// relearn takes the router's map, which may be old too: then that asks for a new
// one.
func (c *client) relearn() {
	if c.w.router != nil && c.w.router.Version() > c.m.Version() {
		c.m = c.w.router
		return
	}
	c.w.refresh()
}

// settleMet looks after a lock that was met for a while, as a parked call does.
func (w *world) settleMet(err error, parked int) {
	var met *txn.LockedError
	if parked > 1 && errors.As(err, &met) {
		w.settle(met.Lock)
	}
}

// read reads a key past the queue.
func read(key string) visit {
	return func(p drive.Place) (command.Reply, error) {
		row, ok, err := p.Group.Read(ctx, at(key), nil)
		if err != nil || !ok {
			return command.Reply{}, err
		}
		return command.Reply{Kind: command.Bytes, Bytes: row.Payload, Version: row.Version}, nil
	}
}

// key returns a key of a letter.
func key(letter, what string, n int) string { return fmt.Sprintf("%s/%s%d", letter, what, n) }

// somethingContended is that where transactions are to be in each other's way.
func (c *client) somethingContended(n int) {
	switch {
	case n < 12:
		c.lease(key(letters[c.w.rng.IntN(2)], "lease", 0))
	case n < 50:
		c.appendLists()
	case n < 70:
		c.enrol(letters[c.w.rng.IntN(2)])
	case n < 90:
		c.rollCall(letters[c.w.rng.IntN(2)])
	case n < 95:
		c.transfer()
	default:
		c.audit()
	}
}

// something is what the client does next.
func (c *client) something() {
	w := c.w
	letter := pick(w, w.some(1))
	n := w.rng.IntN(100)
	if p := w.aimedAt(); p == "retiring" || p == "removing" {
		n /= 2 // a group that has decided nothing goes at once
	}
	switch {
	case w.cfg.Sagas:
		c.sagas()
	case w.cfg.Load == "counter":
		c.splits()
	case w.cfg.Load == "queue":
		c.queues()
	case w.cfg.Load == "rounds":
		c.rounds()
	case w.cfg.Contended:
		c.somethingContended(n)
	case n < 16:
		c.register(key(letter, "reg", w.rng.IntN(2)))
	case n < 22:
		c.count(key(letter, "cnt", 0))
	case n < 26:
		c.countField(key(letter, "hcnt", 0))
	case n < 32:
		c.change(key(letter, "scan", w.rng.IntN(4)))
	case n < 35:
		c.scan()
	case n < 37:
		c.writeSalted()
	case n < 39:
		c.readSalted()
	case n < 41:
		c.writeIndexed()
	case n < 43:
		c.readIndexed()
	case n < 48:
		c.hash(key(letter, "hash", 0))
	case n < 55:
		c.lease(key(letters[w.rng.IntN(2)], "lease", 0))
	case n < 72:
		c.appendLists()
	case n < 80:
		c.transfer()
	case n < 85:
		c.audit()
	case n < 90:
		c.enrol(letter)
	case n < 96:
		c.rollCall(letter)
	default:
		c.book()
	}
}
