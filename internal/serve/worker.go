package serve

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/redis"
	"github.com/cleavekv/cleave/internal/resp"
	"github.com/cleavekv/cleave/internal/rows"
	"github.com/cleavekv/cleave/internal/store"
)

// worker takes requests of clients, stages those that are to be executed in a group, and
// commits them together. It belongs to one goroutine.
type worker struct {
	s *Server
	// batches are what is staged, by store: what is executed at the groups of one is one
	// write of its log. Those of used are not empty.
	batches map[*store.Store]*batch
	used    []*batch
	staged  int
	weight  int // of the values that what is staged may answer
	// undone are clients that have something left to do, as long as they have not left.
	undone []*client
	// resumed tells that some of them were answered at once, and crowded that some
	// have to come with the next round.
	resumed, crowded bool
	// late tells that some have waited before they were staged.
	late bool
	// mine are those whose rows the worker reads, lending how many goroutines read for others
	// beside it, and lendMost how many may do so.
	mine     []*client
	lending  atomic.Int32
	lendMost int32
	nowMS    int64

	// request and builder are what a command is made of.
	request redis.Request
	builder redis.Builder

	room redis.Room
	keys []byte   // row keys of this round
	held [][]byte // arguments of what is staged

	// looks are requests of the client at hand whose rows are looked at together, next.
	looks []looking
	gets  int    // how many of them are GETs
	row   []byte // memory for one row
	// seen is how many reads were answered whose time is not noted, each how long the last took that was
	// timed, and untimed how many looks come before another is.
	seen, untimed int
	each          time.Duration
}

// batch is what is staged for the groups of one store.
type batch struct {
	many group.Many
	asks []ask
}

// ask is a request that is staged.
type ask struct {
	c       *client
	request redis.Request
	space   *node.Space
	command command.Command // of a single one
	unit    *unit           // of any other
	refused int8            // see task
}

const (
	// maxStaged is how many requests are committed at once: enough for a sync to be
	// shared, and few enough for the first not to wait long for the last.
	maxStaged = 8192
	// keyRoom is how much memory there is for row keys in a round.
	keyRoom = 1 << 20
	// keepHeld is for how many arguments memory is kept.
	keepHeld = 4 * maxStaged
)

// newWorker returns a worker with so much room for row keys: those of a loop are many,
// those of one connection few.
func newWorker(s *Server, room int) *worker {
	return &worker{
		s: s, batches: map[*store.Store]*batch{}, keys: make([]byte, 0, room), looks: make([]looking, 0, rows.TouchMost),
		lendMost: int32(max(1, runtime.GOMAXPROCS(0)-1)),
	}
}

// take takes the requests at the front of data and returns what is left. It stops at a
// request that takes long: then the client is busy. Of a server that ends it takes nothing:
// what the client has asked for before may have been refused for that.
func (w *worker) take(c *client, data []byte) (rest []byte) {
	c.stalled = false
	if w.s.ctx.Err() != nil {
		return data
	}
	c.seen.lastMS.Store(w.nowMS)
	c.out.Limit = int(c.limit().hard)
	had := len(data)
	if c.waits() && len(c.out.Bytes) > unread {
		c.stalled = true
		return data
	}
	if w.restage(c); c.busy {
		return data
	}
	if c.waits() {
		c.stalled = true
		return data
	}
	for len(data) > 0 && (!c.busy || !c.away) && !c.closing {
		args, n, err := c.parser.Next(data, *w.s.limits(c))
		if err != nil {
			w.misunderstood(c, err)
			return nil
		}
		if n == 0 {
			break
		}
		if len(c.out.Bytes) > unread {
			c.stalled = true // it is taken again when they are read
			break
		}
		if len(args) == 0 {
			data = data[n:]
			continue
		}
		spec, err := redis.Lookup(args)
		if !(err == nil && spec.Single() && c.queue == nil) {
			if w.see(); c.busy {
				break // it is taken again when they are done
			}
		}
		if c.busy && c.backlog.full() {
			break
		}
		data = data[n:]
		w.dispatch(c, spec, args, err)
		if w.full() {
			w.commit()
		}
	}
	w.see()
	c.seen.progress(len(data) > 0 && !c.busy && !c.stalled, len(data) < had, w.nowMS)
	return data
}

// full tells whether enough is staged to be committed.
func (w *worker) full() bool { return w.staged >= maxStaged || w.weight > unread }

// misunderstood ends a client that does not speak the protocol.
func (w *worker) misunderstood(c *client, err error) {
	w.say(c, nil, func(out *redis.Writer) {
		out.Bytes = resp.AppendError(out.Bytes, "ERR "+err.Error())
		c.closing = true // here: the client may be another's now
	})
}

// say writes a reply that needs no group, behind those that are staged. It may be called
// after the round, so it must not point to anything of that.
func (w *worker) say(c *client, spec *redis.Spec, write func(*redis.Writer)) {
	if w.settled(c) {
		c.reply(spec, write)
		return
	}
	w.slow(c, task{call: func(context.Context) { c.reply(spec, write) }})
}

// settled executes what a client has staged, and tells whether that is done. If not, the
// client is busy, and what it asks for next comes later: see slow.
func (w *worker) settled(c *client) bool {
	w.see()
	w.timeReads()
	if c.pending > 0 {
		w.execute()
		if c.busy {
			return false
		}
		w.release()
	}
	return !c.busy // it may be with rows that are not in memory
}

// single begins a request that is one command on one key.
func (w *worker) single(c *client, r redis.Request) {
	key := r.Args[r.Spec.Keys.First]
	if err := command.CheckKey(key); err != nil {
		w.say(c, r.Spec, func(out *redis.Writer) { out.Fail(err) })
		return
	}
	if c.busy {
		w.join(c, r, c.allowed)
		return
	}
	row, part := w.locate(c, key)
	switch {
	case part == nil:
		w.join(c, r, c.allowed) // behind what was refused
	case r.Spec == getSpec && c.pending == 0:
		w.look(c, key, row, part)
	case r.Spec.Flags&redis.Write != 0 && part.Group.Held(row.Position()) > 0:
		w.see()
		w.join(c, r, c.allowed)
	case len(w.looks) == 0 && w.blind(&r, part):
		w.stageSingle(c, r, row, part)
	default:
		w.lookAndStage(c, r, row, part)
	}
}

// stageSingle stages a request that is one command on one key.
func (w *worker) stageSingle(c *client, r redis.Request, row group.RowKey, part *node.Part) {
	if cmd := w.build(c, &r, row); cmd != nil {
		w.add(c, r, row, part, cmd)
	}
}

// build returns the command that a request is. If it is none, it says why and returns nil.
func (w *worker) build(c *client, r *redis.Request, row group.RowKey) command.Command {
	cmd, err := w.compose(r, row)
	if err != nil {
		w.say(c, r.Spec, func(out *redis.Writer) { out.Fail(err) })
		return nil
	}
	return cmd
}

// compose returns the command that a request is, and lets the request keep its arguments: both are
// good until the round ends.
func (w *worker) compose(r *redis.Request, row group.RowKey) (command.Command, error) {
	r.Args = w.hold(r.Args)
	w.request = *r
	w.builder = redis.Builder{Request: &w.request, Key: row.Position(), Room: &w.room}
	return r.Spec.Build(&w.builder)
}

// add adds a command to those of its group.
func (w *worker) add(c *client, r redis.Request, row group.RowKey, part *node.Part, cmd command.Command) *ask {
	b := w.stage(c, part)
	b.many.Add(part.Group, group.Request{Command: cmd, Key: row.Position(), Gate: gate(c.space, r.Spec), Hasty: true}, c.id)
	b.asks = append(b.asks, ask{c: c, request: r, space: c.space, command: cmd})
	return &b.asks[len(b.asks)-1]
}

// locate returns the row key of a key, which is good until the round ends, and the part
// that has it. What the client has staged for another store is executed before: its
// requests keep their order. If that has to wait, the part is nil.
func (w *worker) locate(c *client, key []byte) (group.RowKey, *node.Part) {
	if cap(w.keys)-len(w.keys) < 2*len(key)+16 {
		w.execute()
		if c.busy {
			return nil, nil
		}
		w.release()
	}
	start := len(w.keys)
	w.keys = c.space.AppendPosition(group.BeginRowKey(w.keys), key)
	row := group.RowKey(w.keys[start:len(w.keys):len(w.keys)])
	part := w.s.node.PartOf(row.Position())
	if c.pending == 0 || c.store == part.Store {
		return row, part
	}
	if !w.settled(c) {
		return nil, nil
	}
	return w.locate(c, key)
}

// gate is what must hold of a keyspace when a request is executed.
func gate(k *node.Space, s *redis.Spec) group.Gate {
	if s.Flags&redis.Write != 0 {
		return node.Plain{Space: k}
	}
	return k
}

// stage returns the batch of a group for a request of a client.
// Invariant: whatever else the client has staged is of the same store.
func (w *worker) stage(c *client, part *node.Part) *batch {
	b := w.batches[part.Store]
	if b == nil {
		b = new(batch)
		w.batches[part.Store] = b
	}
	if len(b.asks) == 0 {
		w.used = append(w.used, b)
	}
	c.store = part.Store
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
	w.see()
	w.timeReads()
	for _, b := range w.used {
		began := time.Now()
		b.many.Try()
		took := time.Since(began)
		w.noteBatch(b, took)
		for i := range b.asks {
			if !w.answer(b, i) {
				b.asks[i].c = nil // its time comes
			}
		}
		w.timeBatch(b, took)
		b.many.Reset()
		clear(b.asks)
		b.asks = b.asks[:0]
	}
	w.used, w.staged, w.weight, w.late = w.used[:0], 0, 0, false
	w.keys = w.keys[:0]
	clear(w.held)
	if w.held = w.held[:0]; cap(w.held) > keepHeld {
		w.held = nil
	}
	w.room.Reset()
}

// hold keeps a list of arguments until what is staged is executed: the parser writes
// that of the next request to the same place.
func (w *worker) hold(args [][]byte) [][]byte {
	start := len(w.held)
	w.held = append(w.held, args...) // if it grows, what was held before stays where it is
	return w.held[start:len(w.held):len(w.held)]
}

// answer answers a request of a batch, or leaves it for later.
func (w *worker) answer(b *batch, i int) (answered bool) {
	a := &b.asks[i]
	c := a.c
	c.pending--
	reply, err := b.many.Reply(i)
	if err == nil {
		err = reply.Err
	}
	if postpones(err) {
		w.postpone(a, err)
		return false
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
	c.hush(a.spec(), start)
	c.conn.dirty()
	return true
}

// spec is the command that a request is.
func (a *ask) spec() *redis.Spec {
	if a.unit != nil {
		return a.unit.spec()
	}
	return a.request.Spec
}

// timeBatch notes how long the requests of a batch took that are answered. Each has waited for
// all of it; what they have taken together is their share of it, and what was waited before.
func (w *worker) timeBatch(b *batch, took time.Duration) {
	share := took / time.Duration(len(b.asks))
	for rest := b.asks; len(rest) > 0; {
		a, n := &rest[0], 1
		switch {
		case a.c == nil:
		case a.unit != nil:
			w.s.stats.tookUnit(a.unit, a.c.waited+took, a.c.waited+share)
		default:
			for n < len(rest) && rest[n].c != nil && rest[n].request.Spec == a.request.Spec && rest[n].c.waited == a.c.waited {
				n++
			}
			w.s.stats.took(a.request.Spec, n, a.c.waited+took, a.c.waited+share*time.Duration(n))
		}
		rest = rest[n:]
	}
}
