package serve

import (
	"context"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/redis"
	"github.com/cleavekv/cleave/internal/resp"
	"github.com/cleavekv/cleave/partition"
)

// worker takes requests of clients, stages those that are to be executed in a group, and
// commits them together. It belongs to one goroutine.
type worker struct {
	s *Server
	// batches are what is staged, by group; those of used are not empty.
	batches map[*node.Part]*batch
	used    []*batch
	staged  int
	// leaving are clients that are busy from the next release on.
	leaving []*client

	room      redis.Room
	positions []byte // of the keys of this round
	scratch   []byte
}

// batch is what is staged for one group.
type batch struct {
	part *node.Part
	many group.Many
	asks []ask
}

// ask is a staged request.
type ask struct {
	c       *client
	request redis.Request
	command command.Command // of a single one
	unit    *unitCommand    // of any other
}

const (
	// maxStaged is how many requests are committed at once: enough for a sync to be
	// shared, and few enough for the first not to wait long for the last.
	maxStaged = 8192
	// positionRoom is how much memory there is for positions in a round.
	positionRoom = 1 << 20
)

func newWorker(s *Server) *worker {
	return &worker{s: s, batches: map[*node.Part]*batch{}, positions: make([]byte, 0, positionRoom)}
}

// take takes the requests at the front of data and returns what is left. It stops at a
// request that takes long: then the client is busy.
func (w *worker) take(c *client, data []byte) (rest []byte) {
	for len(data) > 0 && !c.busy && !c.closing {
		args, n, err := c.parser.Next(data, w.s.limits(c))
		if err != nil {
			w.say(c, func(out *redis.Writer) { out.Bytes = resp.AppendError(out.Bytes, "ERR "+err.Error()) })
			c.closing = true
			return nil
		}
		if n == 0 {
			break
		}
		data = data[n:]
		if len(args) > 0 {
			w.dispatch(c, args)
		}
		if w.staged >= maxStaged {
			w.commit()
		}
	}
	return data
}

// dispatch begins one request.
func (w *worker) dispatch(c *client, args [][]byte) {
	spec, err := redis.Lookup(args)
	if err == nil {
		err = spec.Check(args)
	}
	if err != nil {
		if c.queue != nil {
			c.queue.failed = true
		}
		w.say(c, func(out *redis.Writer) { out.Fail(err) })
		return
	}
	r := redis.Request{Spec: spec, Args: args}
	switch {
	case spec.Flags&redis.Edge != 0:
		edges[spec.Name](w, c, r)
	case c.queue != nil:
		w.enqueue(c, r)
	case spec.Single():
		w.single(c, r)
	default:
		w.unit(c, &unitCommand{c: c, requests: []redis.Request{r}})
	}
}

// say writes a reply that needs no group, behind those that are staged.
func (w *worker) say(c *client, write func(*redis.Writer)) {
	if c.pending > 0 {
		w.commit()
	}
	write(&c.out)
	c.conn.dirty(c)
}

// position returns the position of a key. It is good until the round ends.
func (w *worker) position(c *client, key []byte) partition.Position {
	if cap(w.positions)-len(w.positions) < 2*len(key)+16 {
		w.commit()
	}
	start := len(w.positions)
	w.positions = c.space.AppendPosition(w.positions, key)
	return w.positions[start:len(w.positions):len(w.positions)]
}

// single begins a request that is one command on one key.
func (w *worker) single(c *client, r redis.Request) {
	key := r.Args[r.Spec.Keys.First]
	if err := command.CheckKey(key); err != nil {
		w.say(c, func(out *redis.Writer) { out.Fail(err) })
		return
	}
	p := w.position(c, key)
	part := w.s.node.PartOf(p)
	cmd, err := r.Spec.Build(&redis.Builder{Request: &r, Key: p, Room: &w.room})
	if err != nil {
		w.say(c, func(out *redis.Writer) { out.Fail(err) })
		return
	}
	if _, ok := cmd.(*command.Get); ok && c.pending == 0 {
		w.get(c, r, part, p)
		return
	}
	b := w.stage(c, part)
	b.many.Add(group.Request{Command: cmd, Key: p, Gate: c.space}, c.id)
	b.asks = append(b.asks, ask{c: c, request: r, command: cmd})
}

// get answers a read past the queue of the group.
func (w *worker) get(c *client, r redis.Request, part *node.Part, p partition.Position) {
	row, ok, err := part.Group.Read(context.Background(), p, w.scratch[:0])
	switch {
	case err != nil:
		c.out.Fail(err)
	case !ok:
		c.out.Null()
	case row.Kind != command.String:
		c.out.Fail(command.ErrWrongType)
	default:
		c.out.Bulk(row.Payload)
	}
	c.conn.dirty(c)
}

// stage returns the batch of a group for a request of a client. What the client has
// staged for another group is committed before: its requests keep their order.
func (w *worker) stage(c *client, part *node.Part) *batch {
	if c.pending > 0 && c.part != part {
		w.commit()
	}
	b := w.batches[part]
	if b == nil {
		b = &batch{part: part}
		w.batches[part] = b
	}
	if len(b.asks) == 0 {
		w.used = append(w.used, b)
	}
	c.part = part
	c.pending++
	w.staged++
	return b
}

// commit executes what is staged and answers it.
func (w *worker) commit() {
	w.execute()
	w.release()
}

// execute executes what is staged. Clients whose requests have to wait are busy then, and
// leave with release.
func (w *worker) execute() {
	for _, b := range w.used {
		b.part.Group.TryMany(&b.many)
		for i := range b.asks {
			w.answer(b, i)
		}
		b.many.Reset()
		clear(b.asks)
		b.asks = b.asks[:0]
	}
	w.used, w.staged = w.used[:0], 0
	w.positions = w.positions[:0]
	w.room.Reset()
}

// answer answers a request of a batch, or leaves it for later.
func (w *worker) answer(b *batch, i int) {
	a := &b.asks[i]
	c := a.c
	c.pending--
	reply, err := b.many.Reply(i)
	if err == nil && postpones(reply.Err) {
		again := ask{request: kept(a.request), unit: a.unit.kept()}
		w.later(c, func(ctx context.Context) { w.s.again(ctx, c, &again) })
		return
	}
	switch {
	case err != nil:
		c.out.Fail(err)
	case a.unit != nil && reply.Err != nil:
		c.out.Fail(reply.Err)
	case a.unit != nil:
		c.out.Bytes = append(c.out.Bytes, a.unit.out.Bytes...)
	default:
		a.request.Spec.Answer(&c.out, &a.request, a.command, reply)
	}
	c.conn.dirty(c)
}
