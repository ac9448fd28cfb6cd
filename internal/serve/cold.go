package serve

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/redis"
)

// cold is requests of a client on rows that are not in memory, in order. The rows are
// brought there before the group executes anything, since the disk must hold up neither
// other clients nor the group. What the client asks for behind them joins them. Writes to a
// range that is moved, and that are held up for that, are taken for cold too.
//
// Reads in front are answered where they wait for the disk. The others come back to the
// worker, which stages them with those of everybody else: they share a write of the log.
type cold struct {
	asks []ask
	done int  // how many of them are done
	held bool // some write to a range that is moved
	// args and bytes are what their arguments are made of.
	args  [][]byte
	bytes []byte
}

// colds are those that have nothing left to do, to be used again.
var colds = sync.Pool{New: func() any { return new(cold) }}

// keepCold is for how many requests memory is used again, and keepColdBytes for how many
// bytes of their arguments.
const keepCold, keepColdBytes = 128, 16 << 10

// left are those that are not done.
func (q *cold) left() []ask {
	if q == nil {
		return nil
	}
	return q.asks[q.done:]
}

// add adds a request, with a copy of its arguments.
func (q *cold) add(c *client, r redis.Request) {
	first := len(q.args)
	for _, a := range r.Args {
		if len(a) > keepColdBytes {
			q.args = append(q.args, bytes.Clone(a))
			continue
		}
		start := len(q.bytes)
		q.bytes = append(q.bytes, a...) // if it grows, what was added before stays where it is
		q.args = append(q.args, q.bytes[start:len(q.bytes):len(q.bytes)])
	}
	r.Args = q.args[first:len(q.args):len(q.args)]
	q.asks = append(q.asks, ask{c: c, request: r, space: c.space})
}

// answered lets the memory be used again of requests that are all answered.
func (q *cold) answered() {
	clear(q.asks)
	clear(q.args)
	if cap(q.asks) <= keepCold && cap(q.bytes) <= keepColdBytes {
		*q = cold{asks: q.asks[:0], args: q.args[:0], bytes: q.bytes[:0]}
		colds.Put(q)
	}
}

const (
	// nearMost is how many rows the worker reads by itself in a round if their blocks are in
	// memory: to give them to another thread takes half as much time again, and more would
	// hold up those whose rows are known.
	nearMost = 64
	// lendLeast is how many rows a goroutine beside the worker is given if there are more of
	// them; of very many it is given a half.
	lendLeast = 128
	// coldHands is how many goroutines bring the rows of a round from a disk: it reads
	// several at once, and waking more costs more than it gains.
	coldHands = 4
	// coldShare is how many rows a goroutine brings at a time, or few more: the clients
	// that wait for these go on while it brings others.
	coldShare = 64
)

// join adds a request to those that are cold, behind what the client has staged.
func (w *worker) join(c *client, r redis.Request) {
	if c.cold == nil {
		c.busy, c.cold = true, colds.Get().(*cold)
		w.chilled = append(w.chilled, c)
	}
	c.cold.add(c, r)
}

// releaseCold looks after the clients that are cold. The worker reads the rows of some,
// goroutines beside it those of others if there are many, and those that are left come with
// the next round. Whatever has to wait for a disk goes to goroutines at once.
func (w *worker) releaseCold() {
	w.left = false
	if len(w.chilled) == 0 {
		return
	}
	var held, lent, away []*client
	w.mine = w.mine[:0]
	room, lend := nearMost, w.lend()
	w.chilled = slices.DeleteFunc(w.chilled, func(c *client) bool {
		switch asks := len(c.cold.asks); {
		case c.pending > 0:
			return false // what it has staged comes first
		case c.cold.held:
			held = append(held, c)
		case !c.near():
			away = append(away, c)
		case room > 0:
			w.mine, room = append(w.mine, c), room-asks
		case lend > 0:
			lent, lend = append(lent, c), lend-asks
		default:
			w.left = true
			return false
		}
		c.warm, c.cold = c.cold, nil
		return true
	})
	for _, c := range held {
		w.s.running.Go(func() {
			sleep(w.s.ctx, w.s.held(c.warm.left()))
			w.s.warmUp(w.s.ctx, []*client{c})
		})
	}
	w.handOut(away)
	if len(lent) > 0 {
		w.hands.Add(1)
		w.s.running.Go(func() {
			defer w.hands.Add(-1)
			for _, share := range sharesOf(lent, coldShare) {
				w.s.warmUp(w.s.ctx, share)
			}
		})
	}
	if far := w.readNear(w.mine); len(far) > 0 {
		w.handOut(slices.Clone(far))
	}
	clear(w.mine)
}

// near tells whether it may be that the requests of a client which is cold are answered
// without a disk, and without anything else.
func (c *client) near() bool {
	asks := c.cold.asks
	alone := len(c.first)+len(c.later) == 0 || plant.Bug("serve-cold-reads-join-late")
	return alone && len(asks) <= nearMost && asks[0].request.Spec == getSpec
}

// lend is how many rows a goroutine beside the worker is to read now.
func (w *worker) lend() int {
	if w.hands.Load() >= w.spare {
		return 0
	}
	asks := 0
	for _, c := range w.chilled {
		asks += len(c.cold.asks)
	}
	if asks <= nearMost {
		return 0
	}
	return max(lendLeast, (asks-nearMost)/2)
}

// handOut gives clients that are cold to some goroutines.
func (w *worker) handOut(clients []*client) {
	shares := sharesOf(clients, min(max(1, (count(clients)+coldHands-1)/coldHands), coldShare))
	var next atomic.Int64
	for range min(len(shares), coldHands) {
		w.s.running.Go(func() {
			for i := next.Add(1); i <= int64(len(shares)); i = next.Add(1) {
				w.s.warmUp(w.s.ctx, shares[i-1])
			}
		})
	}
}

// readNear answers those of the clients that are cold whose rows are near, and returns the
// others.
func (w *worker) readNear(clients []*client) (far []*client) {
	t := w.s.plan(clients)
	defer t.end()
	t.read((*group.Group).ReadNear)
	return slices.DeleteFunc(clients, func(c *client) bool {
		if !c.answerNear() {
			return false
		}
		w.resumed = true
		c.conn.resume()
		return true
	})
}

// answerNear answers the reads of a client that is cold in their order as long as they are
// known, and tells whether nothing is left to do.
func (c *client) answerNear() bool {
	if len(c.first) > 0 {
		return false
	}
	for first := true; len(c.warm.left()) > 0; first = false {
		a := &c.warm.left()[0]
		if !a.inOrder(first) || a.space.Check() != nil { // it was emptied
			break
		}
		c.answerRead(a)
		c.warm.done++
	}
	if c.thawed(); c.warm == nil {
		return len(c.later) == 0
	}
	left := c.warm.left()
	for i := range left {
		left[i].read = nil // it would be older than what comes before it
	}
	return false
}

// count returns how many requests of clients are cold.
func count(clients []*client) (asks int) {
	for _, c := range clients {
		asks += len(c.warm.left())
	}
	return asks
}

// sharesOf divides clients that are cold: each share has so many requests, or few more.
func sharesOf(clients []*client, most int) (shares [][]*client) {
	start, have := 0, 0
	for i, c := range clients {
		if have += len(c.warm.left()); have >= most || i == len(clients)-1 {
			shares = append(shares, clients[start:i+1])
			start, have = i+1, 0
		}
	}
	return shares
}

// maxHeld is how long a client is held up at most, for all that it has sent at once.
const maxHeld = 200 * time.Millisecond

// held is for how long a client is held up whose requests write to a range that is moved:
// for each of them as long as one that comes alone.
func (s *Server) held(asks []ask) (sum time.Duration) {
	for i := range asks {
		if asks[i].request.Spec.Flags&redis.Write != 0 {
			p := group.RowKey(asks[i].appendRow(nil)).Position()
			sum += s.node.PartOf(p).Group.Held(p)
		}
	}
	return min(sum, maxHeld)
}

// sleep waits, but not beyond the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// finishCold answers the reads in front. The others are left to the worker, unless there is
// more to do for the client here.
func (s *Server) finishCold(ctx context.Context, c *client) {
	for _, f := range c.first {
		f(ctx)
	}
	c.first = nil
	for first := true; len(c.warm.left()) > 0 && c.warm.left()[0].request.Spec == getSpec; first = false {
		s.read(ctx, c, &c.warm.left()[0], first)
		c.warm.done++
	}
	c.thawed()
	if len(c.later) == 0 {
		return
	}
	for i := range c.warm.left() {
		s.again(ctx, c, &c.warm.left()[i])
	}
	c.warm = nil
	c.runLater(ctx)
}

// thawed ends what was cold of a client if all of that were reads, and are answered.
func (c *client) thawed() {
	if c.warm != nil && len(c.warm.left()) == 0 {
		c.warm.answered()
		c.warm = nil
	}
}

// restage stages requests whose rows were brought into memory. If the client gets busy with
// them, the others wait.
func (w *worker) restage(c *client) {
	if c.warm == nil {
		return
	}
	for len(c.warm.left()) > 0 && !c.busy {
		r := c.warm.left()[0].request
		c.warm.done++
		if row, part := w.locate(c, r.Args[r.Spec.Keys.First]); part != nil {
			w.stageSingle(c, r, row, part)
		} else {
			w.defers(c, func(ctx context.Context) { w.s.again(ctx, c, &ask{request: r, space: c.space}) })
		}
		if w.staged >= maxStaged {
			w.commit()
		}
	}
	if len(c.warm.left()) == 0 {
		c.warm = nil // its arguments may be staged
	}
}

// inOrder tells whether what was read for a GET is its answer. If it is not the first of
// several that were read together it must still be so: else it could be older than what those
// before it were answered.
func (a *ask) inOrder(first bool) bool {
	return a.read != nil && a.read.Known && (first || a.read.Still() || plant.Bug("serve-cold-reads-overtake"))
}

// appendRow appends the row key of a request about one key.
func (a *ask) appendRow(to []byte) []byte {
	return a.space.AppendPosition(group.BeginRowKey(to), a.request.Args[a.request.Spec.Keys.First])
}
