package serve

import (
	"context"
	"time"

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
	nowMS   int64

	// request and builder are what a command is made of.
	request redis.Request
	builder redis.Builder

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
	space   *node.Space
	command command.Command // of a single one
	unit    *unit           // of any other
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
	c.seen.lastMS.Store(w.nowMS)
	for len(data) > 0 && (!c.busy || c.reading) && !c.closing {
		args, n, err := c.parser.Next(data, *w.s.limits(c))
		if err != nil {
			w.say(c, func(out *redis.Writer) { out.Bytes = resp.AppendError(out.Bytes, "ERR "+err.Error()) })
			c.closing = true
			return nil
		}
		if n == 0 {
			break
		}
		if c.reading && !isGet(args) {
			break // it is taken again when the reads are done
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

// say writes a reply that needs no group, behind those that are staged. It may be called
// after the round, so it must not point to anything of that.
func (w *worker) say(c *client, write func(*redis.Writer)) {
	if w.settled(c) {
		c.reply(write)
		return
	}
	w.defers(c, func(context.Context) { c.reply(write) })
}

// settled executes what a client has staged, and tells whether that is done. If not, the
// client is busy, and what it asks for next comes later: see defers.
func (w *worker) settled(c *client) bool {
	if c.pending > 0 {
		w.execute()
		if c.busy {
			return false
		}
		w.release()
	}
	return !c.busy // it may be reading
}

// defers leaves something to the goroutine of a client that has just become busy.
func (w *worker) defers(c *client, f func(context.Context)) {
	w.later(c, f)
	w.release()
}

// single begins a request that is one command on one key.
func (w *worker) single(c *client, r redis.Request) {
	key := r.Args[r.Spec.Keys.First]
	if err := command.CheckKey(key); err != nil {
		w.say(c, func(out *redis.Writer) { out.Fail(err) })
		return
	}
	p, part := w.locate(c, key)
	if part == nil {
		a := &ask{request: kept(r), space: c.space}
		w.defers(c, func(ctx context.Context) { w.s.again(ctx, c, a) })
		return
	}
	if r.Spec == getSpec && c.pending == 0 {
		w.get(c, r, part, p)
		return
	}
	w.request = r
	w.builder = redis.Builder{Request: &w.request, Key: p, Room: &w.room}
	cmd, err := r.Spec.Build(&w.builder)
	if err != nil {
		w.say(c, func(out *redis.Writer) { out.Fail(err) })
		return
	}
	b := w.stage(c, part)
	b.many.Add(group.Request{Command: cmd, Key: p, Gate: gate(c.space, r.Spec)}, c.id)
	b.asks = append(b.asks, ask{c: c, request: r, space: c.space, command: cmd})
}

// locate returns the position of a key, which is good until the round ends, and the part
// that has it. What the client has staged for another part is executed before: its
// requests keep their order. If that has to wait, the part is nil.
func (w *worker) locate(c *client, key []byte) (partition.Position, *node.Part) {
	if cap(w.positions)-len(w.positions) < 2*len(key)+16 {
		w.execute()
		if c.busy {
			return nil, nil
		}
		w.release()
	}
	start := len(w.positions)
	w.positions = c.space.AppendPosition(w.positions, key)
	p := partition.Position(w.positions[start:len(w.positions):len(w.positions)])
	part := w.s.node.PartOf(p)
	if c.pending == 0 || c.part == part {
		return p, part
	}
	if !w.settled(c) {
		return nil, nil
	}
	return w.locate(c, key)
}

// getSpec is the command that most requests are.
var getSpec = redis.Named("get")

// gate is what must hold of a keyspace when a request is executed.
func gate(k *node.Space, s *redis.Spec) group.Gate {
	if s.Flags&redis.Write != 0 {
		return node.Plain{Space: k}
	}
	return k
}

// isGet tells whether a request is a GET.
func isGet(args [][]byte) bool { return len(args) == 2 && redis.Is(args[0], "GET") }

// get answers a read past the queue of the group. One that is not in memory is left to
// a goroutine, as the disk must not hold up others, and so are reads of the same client
// behind it: they are done together.
func (w *worker) get(c *client, r redis.Request, part *node.Part, p partition.Position) {
	var row command.Row
	found, known := false, false
	if !c.reading && c.space.Check() == nil {
		row, found, known = part.Group.Look(p, w.scratch[:0])
	}
	if !known {
		a := &ask{request: kept(r), space: c.space}
		w.later(c, func(ctx context.Context) { w.s.read(ctx, c, a) })
		c.reading = true
		return
	}
	start := len(c.out.Bytes)
	c.writeRow(row, found)
	if w.scratch = row.Payload[:0]; cap(w.scratch) > keepOut {
		w.scratch = nil
	}
	c.hush(start)
	c.conn.dirty()
}

// writeRow answers a GET.
func (c *client) writeRow(row command.Row, found bool) {
	switch {
	case !found:
		c.out.Null()
	case row.Kind != command.String:
		c.out.Fail(command.ErrWrongType)
	default:
		c.out.Bulk(row.Payload)
	}
}

// read answers a GET, and waits as long as it takes.
func (s *Server) read(ctx context.Context, c *client, a *ask) {
	if a.space.Check() != nil { // it was emptied
		s.again(ctx, c, a)
		return
	}
	p := a.space.AppendPosition(nil, a.request.Args[1])
	c.timed(&a.request, func() {
		start := len(c.out.Bytes)
		err := s.routed(ctx, p, func(part *node.Part) error {
			row, found, err := part.Group.Read(ctx, p, nil)
			if err == nil {
				c.writeRow(row, found)
			}
			return err
		})
		if err != nil {
			c.out.Fail(err)
		}
		c.hush(start)
	})
}

// stage returns the batch of a group for a request of a client.
// Invariant: whatever else the client has staged is of the same group.
func (w *worker) stage(c *client, part *node.Part) *batch {
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
		began := time.Now()
		b.part.Group.TryMany(&b.many)
		w.noteBatch(b, time.Since(began))
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
	if err == nil {
		err = reply.Err
	}
	if postpones(err) {
		again := ask{request: kept(a.request), space: a.space, unit: a.unit.kept()}
		w.later(c, func(ctx context.Context) { w.s.again(ctx, c, &again) })
		return
	}
	start := len(c.out.Bytes)
	switch {
	case a.unit == nil:
		reply.Err = err
		a.request.Spec.Answer(&c.out, &a.request, a.command, reply)
	case err != nil:
		c.out.Fail(err)
	default:
		a.unit.write(&c.out)
	}
	c.hush(start)
	c.conn.dirty()
}
