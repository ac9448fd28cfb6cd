package serve

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/acl"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/redis"
)

// cold is requests of a client on rows that are not in memory, in order. The rows are
// brought there before the group executes anything, since the disk must hold up neither
// other clients nor the group. What the client asks for behind them joins them. Writes to a
// range that is moved, and that are held up for that, are taken for cold too.
//
// Reads in front are answered by whoever reads the rows. The others come back to the worker,
// which stages them with those of everybody else: they share a write of the log.
type cold struct {
	asks  []ask
	done  int       // how many of them are done
	tried int       // how many of them were on a trip
	since time.Time // when the client began to wait
	user  *acl.User // who was allowed to make them
	// behind is what was deferred until they are done. As long as there is any, the client is
	// asked for nothing else.
	behind []func(context.Context)
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

// forget forgets what was read for those that are not done: it would be older than what comes
// before it, and its memory is another's when the trip has ended.
func (q *cold) forget() {
	for i := range q.left() {
		q.left()[i].read = nil
	}
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
	if cap(q.asks) <= keepCold && cap(q.args) <= 4*keepCold && cap(q.bytes) <= keepColdBytes {
		*q = cold{asks: q.asks[:0], args: q.args[:0], bytes: q.bytes[:0]}
		colds.Put(q)
	}
}

const (
	// nearRows is how many rows, or few more, the worker reads by itself at once if their
	// blocks are in memory: to give them to another thread takes half as much time again,
	// and more would hold up those whose rows are known.
	nearRows = 64
	// lendLeast is how many rows a goroutine beside the worker is given if there are more of
	// them; of very many it is given a half.
	lendLeast = 128
	// coldHands is how many goroutines bring the rows of some clients, and coldShare how many
	// rows each brings at a time: the clients that wait for these go on while it brings
	// others. As long as rows are near, waking more costs more than it gains.
	coldHands, coldShare = 4, 64
	// farHands and farShare are the same if there is a disk to wait for: it reads many at
	// once.
	farHands, farShare = 64, 16
)

// join adds a request to those that are cold, behind what the client has staged.
func (w *worker) join(c *client, r redis.Request) {
	if c.cold == nil {
		c.busy, c.cold = true, colds.Get().(*cold)
		c.cold.since, c.cold.user = time.Now(), c.account.User()
		w.chilled = append(w.chilled, c)
	}
	c.cold.add(c, r)
}

// releaseCold looks after the clients that are cold. The worker reads the rows of some,
// goroutines beside it those of others if there are many, and those that are left come with
// the next round. Whatever has to wait for a disk goes to goroutines at once.
func (w *worker) releaseCold() {
	w.crowded = false
	if len(w.chilled) == 0 {
		return
	}
	alone, away, lent := w.sortCold()
	for _, c := range alone {
		w.s.running.Go(func() {
			sleep(w.s.ctx, w.s.held(c.warm.asks))
			w.s.warmUp(w.s.ctx, []*client{c})
		})
	}
	w.s.handOut(away)
	if len(lent) > 0 {
		w.lending.Add(1)
		w.s.running.Go(func() {
			defer w.lending.Add(-1)
			w.s.readLent(lent)
		})
	}
	if len(w.mine) > 0 {
		far := w.s.readNear(w.mine)
		w.resumed = w.resumed || len(far) < len(w.mine)
		w.s.handOut(slices.Clone(far)) // mine is used again
		clear(w.mine)
	}
}

// sortCold tells for clients that are cold who reads their rows: each alone, some goroutines,
// one beside the worker, or the worker, which are mine. Those that stay are chilled still.
func (w *worker) sortCold() (alone, away, lent []*client) {
	w.mine = w.mine[:0]
	room, lend, near := nearRows, w.lend(), w.s.isNear()
	w.chilled = slices.DeleteFunc(w.chilled, func(c *client) bool {
		switch asks := len(c.cold.asks); {
		case c.pending > 0:
			return false // what it has staged comes first
		case len(c.first)+len(c.later)+len(c.cold.behind) > 0 && !plant.Bug("serve-cold-reads-join-late") || w.s.held(c.cold.asks) > 0:
			// It leaves now: what it asks for next would join in front of what was
			// deferred. And that may wait for a lock, which must hold up nobody else.
			alone = append(alone, c)
		case !near || !c.near():
			away = append(away, c)
		case room > 0:
			w.mine, room = append(w.mine, c), room-asks
		case lend > 0:
			lent, lend = append(lent, c), lend-asks
		default:
			w.crowded = true
			return false
		}
		c.warm, c.cold = c.cold, nil
		return true
	})
	return alone, away, lent
}

// near tells whether it may be that the requests of a client which is cold are answered
// without a disk.
func (c *client) near() bool {
	return len(c.cold.asks) <= nearRows && c.cold.asks[0].request.Spec == getSpec
}

// lend is how many rows a goroutine beside the worker is to read now.
func (w *worker) lend() int {
	if w.lending.Load() >= w.lendMost {
		return 0
	}
	asks := 0
	for _, c := range w.chilled {
		asks += len(c.cold.asks)
	}
	if asks <= nearRows {
		return 0
	}
	return max(lendLeast, (asks-nearRows)/2)
}

// isNear tells whether there is no disk that has kept somebody waiting of late.
func (s *Server) isNear() bool {
	return !slices.ContainsFunc(s.node.Hosts(), func(h *node.Host) bool { return !h.Store.IsNear() })
}

// readLent reads for clients beside the worker, and gives them to others if there is a disk to
// wait for.
func (s *Server) readLent(clients []*client) {
	for len(clients) > 0 {
		share := sharesOf(clients, coldShare)[0]
		clients = clients[len(share):]
		switch far := s.readNear(share); {
		case !s.isNear():
			s.handOut(slices.Concat(far, clients))
			return
		case len(far) > 0:
			s.warmUp(s.ctx, far)
		}
	}
}

// handOut gives clients that are cold to some goroutines.
func (s *Server) handOut(clients []*client) {
	hands, share := coldHands, coldShare
	if !s.isNear() {
		hands, share = farHands, farShare
	}
	shares := sharesOf(clients, min(max(1, (asksOf(clients)+hands-1)/hands), share))
	var next atomic.Int64
	for range min(len(shares), hands) {
		s.running.Go(func() {
			for i := next.Add(1); i <= int64(len(shares)); i = next.Add(1) {
				s.warmUp(s.ctx, shares[i-1])
			}
		})
	}
}

// readNear answers those of the clients that are cold whose rows are near, and returns the
// others, at the front of the list.
func (s *Server) readNear(clients []*client) (far []*client) {
	t := s.plan(clients)
	defer t.end()
	t.read(s.ctx, (*group.Group).ReadNear)
	return slices.DeleteFunc(clients, func(c *client) bool {
		if !c.answerNear() {
			return false
		}
		c.conn.resume()
		return true
	})
}

// answerNear answers the reads of a client that is cold in their order as long as they are
// known, and tells whether nothing is left to do.
func (c *client) answerNear() bool {
	for first := true; len(c.warm.left()) > 0; first = false {
		a := &c.warm.left()[0]
		if !a.inOrder(first) || len(c.out.Bytes) > unread || c.account.User() != c.warm.user {
			break
		}
		c.answerRead(a)
		c.warm.done++
	}
	if len(c.warm.left()) == 0 {
		c.thawed()
		return true
	}
	c.warm.forget()
	return false
}

// asksOf returns how many requests of clients are cold.
func asksOf(clients []*client) (asks int) {
	for _, c := range clients {
		asks += len(c.warm.left())
	}
	return asks
}

// sharesOf divides clients that are cold: each share has so many requests at most, or is one
// client.
func sharesOf(clients []*client, most int) (shares [][]*client) {
	start, have := 0, 0
	for i, c := range clients {
		n := len(c.warm.left())
		if i > start && have+n > most {
			shares = append(shares, clients[start:i])
			start, have = i, 0
		}
		have += n
	}
	if start < len(clients) {
		shares = append(shares, clients[start:])
	}
	return shares
}

// maxHeld is how long a client is held up at most, for all that it has sent at once.
const maxHeld = 200 * time.Millisecond

// held is for how long a client is held up whose requests write to a range that is moved:
// for each of them as long as one that comes alone.
func (s *Server) held(asks []ask) (sum time.Duration) {
	var room []byte
	for i := range asks {
		if r := &asks[i].request; r.Spec.Flags&redis.Write != 0 {
			room = asks[i].space.AppendPosition(room[:0], r.Args[r.Spec.Keys.First])
			sum += s.node.PartOf(room).Group.Held(room)
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

// finishCold answers the reads in front, as long as the client may leave the answers unread.
// The others are left to the worker, and so is what was deferred until they are done.
func (s *Server) finishCold(ctx context.Context, c *client) {
	c.first = c.runSome(ctx, c.first)
	for first := true; len(c.first) == 0 && c.warm.done < c.warm.tried && c.warm.left()[0].request.Spec == getSpec; first = false {
		if len(c.out.Bytes) > unread || ctx.Err() != nil || c.left.Load() {
			break
		}
		a := &c.warm.left()[0]
		if err := c.forbidden(a); err != nil {
			c.reply(nil, func(out *redis.Writer) { out.Fail(err) })
		} else if a.inOrder(first) {
			c.answerRead(a)
		} else {
			s.read(ctx, c, a)
		}
		c.warm.done++
	}
	if len(c.warm.left()) > 0 {
		c.warm.behind, c.later = append(c.warm.behind, c.later...), nil
		c.thawed()
		return
	}
	c.later = append(c.warm.behind, c.later...)
	c.thawed()
	c.runLater(ctx)
}

// forbidden is why a request must not be executed that was allowed when it came, nil if it may: it
// waits as long as the client does not read, and its user may have been changed since.
func (c *client) forbidden(a *ask) error {
	u := c.account.User()
	if u == c.warm.user || u.All() || plant.Bug("serve-cold-though-revoked") {
		return nil
	}
	return c.s.permitted(c, u, a.request.Spec, a.request.Args)
}

// thawed is called when the rows of a client that was cold are in memory, and its reads in
// front are answered, or some of them.
func (c *client) thawed() {
	q := c.warm
	q.forget()
	c.waited = time.Since(q.since)
	if q.done > 0 {
		c.s.stats.took(getSpec, q.done, c.waited, c.waited)
	}
	if c.s.measured(eventCommand, c.waited) {
		for i := range q.asks[:min(q.done, slowOfBatch)] {
			c.s.slow.note(c, &q.asks[i].request, c.waited, q.asks[i].space)
		}
	}
	if len(q.left()) == 0 {
		q.answered()
		c.warm = nil
	}
}

// restage goes on with a client that waits: it stages requests whose rows were brought into
// memory. If the client gets busy with them, the others wait. From a read on whose row is not
// there, because it is large say, they are cold once more.
func (w *worker) restage(c *client) {
	switch {
	case c.warm != nil && len(c.first) > 0:
		w.refreeze(c)
		return
	case c.warm == nil && len(c.later) > 0:
		c.busy = true
		w.leaving = append(w.leaving, c)
		return
	case c.warm == nil:
		c.waited = 0
		return
	}
	w.late = true
	for len(c.warm.left()) > 0 && !c.busy {
		r := c.warm.left()[0].request
		if err := c.forbidden(&c.warm.left()[0]); err != nil {
			c.warm.done++
			w.say(c, nil, func(out *redis.Writer) { out.Fail(err) })
			continue
		}
		row, part := w.locate(c, r.Args[r.Spec.Keys.First])
		if part == nil {
			c.warm.done++
			w.defers(c, func(ctx context.Context) { w.s.again(ctx, c, &ask{request: r, space: c.space}) })
			break
		}
		size, known := part.Group.Knows(row)
		if !known && (r.Spec == getSpec || c.warm.done >= c.warm.tried) {
			w.refreeze(c)
			return
		}
		c.warm.done++
		if !known && !w.blind(&r, part) {
			w.slow(c, func(ctx context.Context) { w.s.again(ctx, c, &ask{request: r, space: c.space}) })
			break
		}
		w.weight += size
		w.stageSingle(c, r, row, part)
		if w.full() {
			// It may be busy then, and its answers another's.
			if w.commit(); !c.busy && len(c.out.Bytes) > unread {
				break // it goes on when they are read
			}
		}
	}
	behind := c.warm.behind
	if len(c.warm.left()) > 0 || c.busy && len(behind) > 0 {
		return
	}
	c.warm = nil // its arguments may be staged
	for _, f := range behind {
		if c.pending > 0 {
			w.execute()
		}
		w.later(c, f)
	}
}

// refreeze makes a client cold again with what is left of what was.
func (w *worker) refreeze(c *client) {
	c.warm.asks, c.warm.done, c.warm.tried, c.warm.since = c.warm.left(), 0, 0, time.Now()
	c.busy, c.cold, c.warm = true, c.warm, nil
	w.chilled = append(w.chilled, c)
}

// inOrder tells whether what was read for a GET is its answer, and its keyspace was not emptied.
// If it is not the first of several that were read together it must still be so: else it could
// be older than what those before it were answered.
func (a *ask) inOrder(first bool) bool {
	return a.read != nil && a.read.Known && a.space.Check() == nil && (first || a.read.Still() || plant.Bug("serve-cold-reads-overtake"))
}

// appendRow appends the row key of a request about one key.
func (a *ask) appendRow(to []byte) []byte {
	return a.space.AppendPosition(group.BeginRowKey(to), a.request.Args[a.request.Spec.Keys.First])
}
