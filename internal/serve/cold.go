package serve

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/redis"
)

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

// release looks after the clients that have something left to do. The worker reads rows for some,
// goroutines beside it for others if there are many, and those that are left come with
// the next round. Whatever has to wait for a disk goes to goroutines at once.
func (w *worker) release() {
	w.crowded = false
	if len(w.undone) == 0 {
		return
	}
	alone, away, lent := w.sort()
	for _, c := range alone {
		w.s.running.Go(func() {
			sleep(w.s.ctx, w.s.held(c.backlog.left()))
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

// sort tells who goes on with the clients that have something left to do: each a goroutine alone,
// some goroutines for all of them, one beside the worker, or the worker, which are mine. Those that stay
// are undone still.
func (w *worker) sort() (alone, away, lent []*client) {
	w.mine = w.mine[:0]
	room, lend, near := nearRows, w.lend(), w.s.isNear()
	w.undone = slices.DeleteFunc(w.undone, func(c *client) bool {
		if c.pending > 0 {
			return false // what it has staged comes first
		}
		c.gather()
		switch tasks := c.backlog.left(); {
		case waits(tasks) || w.s.held(tasks) > 0:
			// It may wait for a lock, which must hold up nobody else. And it leaves now: what it asks for next
			// may depend on this.
			c.conn.send()
			alone = append(alone, c)
		case !near || !c.near():
			c.conn.send()
			away = append(away, c)
		case room > 0:
			w.mine, room = append(w.mine, c), room-len(tasks)
		case lend > 0:
			lent, lend = append(lent, c), lend-len(tasks)
		default:
			w.crowded = true
			return false
		}
		c.count()
		c.seen.stuckMS.Store(0) // nothing is written until it is back
		c.away = true
		return true
	})
	return alone, away, lent
}

// near tells whether it may be that what a client has left to do is done without a disk.
func (c *client) near() bool {
	tasks := c.backlog.left()
	return len(tasks) <= nearRows && tasks[0].isRead()
}

// lend is how many rows a goroutine beside the worker is to read now.
func (w *worker) lend() int {
	if w.lending.Load() >= w.lendMost {
		return 0
	}
	tasks := tasksOf(w.undone)
	if tasks <= nearRows {
		return 0
	}
	return max(lendLeast, (tasks-nearRows)/2)
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

// handOut gives clients that have something left to do to some goroutines.
func (s *Server) handOut(clients []*client) {
	hands, share := coldHands, coldShare
	if !s.isNear() {
		hands, share = farHands, farShare
	}
	shares := sharesOf(clients, min(max(1, (tasksOf(clients)+hands-1)/hands), share))
	var next atomic.Int64
	for range min(len(shares), hands) {
		s.running.Go(func() {
			for i := next.Add(1); i <= int64(len(shares)); i = next.Add(1) {
				s.warmUp(s.ctx, shares[i-1])
			}
		})
	}
}

// readNear answers those of the clients whose rows are near, and returns the others, at the front of
// the list.
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

// answerNear answers the reads of a client in their order as long as they are
// known, and tells whether nothing is left to do.
func (c *client) answerNear() bool {
	b, began := c.backlog, c.backlog.done
	for first := true; len(b.left()) > 0; first = false {
		t := &b.left()[0]
		if !t.inOrder(first) || len(c.out.Bytes) > unread || c.account.User() != t.user {
			break
		}
		c.answerRead(t)
		b.done++
	}
	if b.done == began {
		b.forget()
		return false
	}
	c.advanced(began)
	return c.backlog == nil
}

// tasksOf returns how much clients have left to do.
func tasksOf(clients []*client) (tasks int) {
	for _, c := range clients {
		tasks += len(c.backlog.left())
	}
	return tasks
}

// sharesOf divides clients: each share has so many tasks at most, or is one client.
func sharesOf(clients []*client, most int) (shares [][]*client) {
	start, have := 0, 0
	for i, c := range clients {
		n := len(c.backlog.left())
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
func (s *Server) held(tasks []task) (sum time.Duration) {
	var room []byte
	for i := range tasks {
		if t := &tasks[i]; t.isStaged() && t.request.Spec.Flags&redis.Write != 0 {
			room = t.space.AppendPosition(room[:0], t.request.Args[t.request.Spec.Keys.First])
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
