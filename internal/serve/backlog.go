package serve

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"
	"unsafe"

	"github.com/cleavekv/cleave/internal/acl"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/redis"
)

// backlog is what a client has asked for and what could not be done at once, in order. As long as
// there is any, nothing else is done for the client.
//
// It is done by turns. A goroutine has the client while it is away: it brings into memory what the
// first of the tasks need, and does those that need no group, or may wait at one for as long as it
// takes. Then the worker has it again, and stages the next with what others ask for: they share a
// write of the log.
type backlog struct {
	tasks []task
	done  int       // how many of them are done
	tried int       // how many of them were on a trip, or are done
	since time.Time // when the client began to wait
	// args and bytes are what the arguments of requests are made of, and large is about how many bytes
	// of arguments there are elsewhere.
	args  [][]byte
	bytes []byte
	large int
}

// task is a request about one key, requests that are executed as one, or anything else.
type task struct {
	request redis.Request
	space   *node.Space
	unit    *unit
	call    func(context.Context) // it must not point to anything of a round: see kept
	user    *acl.User             // who was allowed to ask for it
	// refused is how often a group has not executed it for what is not in memory.
	refused int8
	// alone tells that it is executed by itself, and may wait for as long as it takes.
	alone bool
	read  *group.ReadRow // of a GET that is on a trip
}

// isStaged tells whether the worker stages it, unless it is a GET whose row is read.
func (t *task) isStaged() bool { return t.call == nil && t.unit == nil && !t.alone }

// isRead tells whether it is a GET, which is done by whoever reads its row.
func (t *task) isRead() bool { return t.request.Spec == getSpec && t.isStaged() }

// inOrder tells whether what was read for a GET is its answer, and its keyspace was not emptied.
// If it is not the first of several that were read together it must still be so: else it could
// be older than what those before it were answered.
func (t *task) inOrder(first bool) bool {
	return t.read != nil && t.read.Known && t.space.Check() == nil && (first || t.read.Still() || plant.Bug("serve-cold-reads-overtake"))
}

// appendRow appends the row key of a request about one key.
func (t *task) appendRow(to []byte) []byte {
	return t.space.AppendPosition(group.BeginRowKey(to), t.request.Args[t.request.Spec.Keys.First])
}

// weight is how many bytes the arguments of a task have.
func (t *task) weight() int {
	n := t.request.Bytes()
	if t.unit != nil {
		for i := range t.unit.items {
			n += t.unit.items[i].Bytes()
		}
	}
	return n
}

// waits tells whether a goroutine may have to wait for more than a disk with some tasks.
func waits(tasks []task) bool {
	for i := range tasks {
		if !tasks[i].isStaged() {
			return true
		}
	}
	return false
}

// backlogs are those that are done, to be used again.
var backlogs = sync.Pool{New: func() any { return new(backlog) }}

// keepTasks is for how many tasks memory is used again, and keepTaskBytes for how many bytes of
// their arguments.
const keepTasks, keepTaskBytes = 128, 16 << 10

// size is about how much memory it takes.
func (b *backlog) size() int {
	return cap(b.tasks)*int(unsafe.Sizeof(task{})) + cap(b.args)*int(unsafe.Sizeof(b.bytes)) + cap(b.bytes) + b.large
}

// full tells whether nothing more is to be added: it would be of another trip, and the bytes that it
// comes from take up less.
func (b *backlog) full() bool { return len(b.left()) >= tripMost }

// left are the tasks that are not done.
func (b *backlog) left() []task { return b.tasks[b.done:] }

// forget forgets what was read for those that are not done: it would be older than what comes
// before it, and its memory is another's when the trip has ended.
func (b *backlog) forget() {
	for i := range b.left() {
		b.left()[i].read = nil
	}
}

// add adds a request about one key of a user, with a copy of its arguments.
func (b *backlog) add(c *client, r redis.Request, u *acl.User) {
	first := len(b.args)
	for _, a := range r.Args {
		if len(a) > keepTaskBytes {
			b.args, b.large = append(b.args, bytes.Clone(a)), b.large+len(a)
			continue
		}
		start := len(b.bytes)
		b.bytes = append(b.bytes, a...) // if it grows, what was added before stays where it is
		b.args = append(b.args, b.bytes[start:len(b.bytes):len(b.bytes)])
	}
	r.Args = b.args[first:len(b.args):len(b.args)]
	b.tasks = append(b.tasks, task{request: r, space: c.space, user: u})
}

// moveTo lets the requests about one key that are left be about a keyspace: if that was emptied, the one
// of the client is another than when it has asked for them.
func (b *backlog) moveTo(k *node.Space) {
	for i := range b.left() {
		if t := &b.left()[i]; t.isStaged() && t.space != k && !plant.Bug("serve-backlog-of-an-emptied-keyspace") {
			t.space, b.tried = k, b.done // what was brought into memory is not this
		}
	}
}

// recycle lets the memory be used again of a backlog that is done.
func (b *backlog) recycle() {
	clear(b.tasks)
	clear(b.args)
	if cap(b.tasks) <= keepTasks && cap(b.args) <= 4*keepTasks && cap(b.bytes) <= keepTaskBytes {
		*b = backlog{tasks: b.tasks[:0], args: b.args[:0], bytes: b.bytes[:0]}
		backlogs.Put(b)
	}
}

// waits tells whether a client that is not busy has something left to do, which comes before
// all that it asks for next.
func (c *client) waits() bool { return c.backlog != nil }

// open returns the backlog of a client, of which it gets busy: it leaves with one of the next
// releases. Until then more may be added.
func (w *worker) open(c *client) *backlog {
	if c.backlog == nil {
		c.backlog = backlogs.Get().(*backlog)
	}
	if !c.busy {
		c.busy, c.away = true, false
		c.backlog.since = time.Now().Add(-c.waited)
		w.undone = append(w.undone, c)
	}
	return c.backlog
}

// join adds a request about one key, which a user was allowed, to what is not done for a client.
func (w *worker) join(c *client, r redis.Request, u *acl.User) { w.open(c).add(c, r, u) }

// slow adds anything else, behind all that the client has staged, and lets it leave.
func (w *worker) slow(c *client, t task) {
	if c.pending > 0 {
		w.execute()
	}
	t.space, t.user = c.space, c.allowed // not the user of now: who was asked may have been another
	b := w.open(c)
	b.tasks, b.large = append(b.tasks, t), b.large+t.weight()
	w.release()
}

// postpone adds a request that was staged and refused. It comes before all that was not staged.
func (w *worker) postpone(a *ask, why error) {
	t := task{request: kept(a.request), space: a.space, unit: a.unit.kept(), user: a.c.allowed, refused: a.refused}
	if errors.Is(why, group.ErrCold) || errors.Is(why, group.ErrBehind) {
		t.refused++
	}
	t.alone = t.refused == a.refused || t.refused > 1
	w.open(a.c)
	a.c.first = append(a.c.first, t)
}

// gather puts what was refused before what was not staged.
func (c *client) gather() {
	b := c.backlog
	b.tried = 0
	for i := range c.first {
		b.large += c.first[i].weight()
	}
	switch {
	case len(c.first) == 0:
		return
	case plant.Bug("serve-refused-comes-last"):
		b.tasks = append(b.tasks, c.first...)
	default:
		b.tasks, b.done = append(c.first, b.left()...), 0
	}
	c.first = nil
}

// advance does what comes first of a client's backlog, up to what the worker has to stage, and as
// long as the client may leave the answers unread.
func (s *Server) advance(ctx context.Context, c *client) {
	b, began := c.backlog, c.backlog.done
	for first := true; len(b.left()) > 0 && len(c.out.Bytes) <= unread; first = false {
		t := &b.left()[0]
		if t.isStaged() && (!t.isRead() || b.done >= b.tried || ctx.Err() != nil || c.left.Load()) {
			break
		}
		if err := c.revoked(t, c.account.User()); err != nil {
			c.reply(nil, func(out *redis.Writer) { out.Fail(err) })
		} else {
			s.perform(ctx, c, t, first)
		}
		b.done++
	}
	c.advanced(began)
}

// perform does a task that need not be staged.
func (s *Server) perform(ctx context.Context, c *client, t *task, first bool) {
	switch {
	case t.call != nil:
		t.call(ctx)
	case t.unit != nil:
		before, began := c.waited, time.Now()
		s.warmUnit(ctx, t.unit)
		c.waited += time.Since(began)
		s.runUnit(ctx, t.unit)
		c.waited = before
	case t.inOrder(first):
		c.answerRead(t)
	case t.isRead() && t.space.Check() == nil:
		s.read(ctx, c, t)
	default:
		t.alone = true // it may be the read of a keyspace that was emptied
		took := c.timed(&t.request, t.space, func() { s.single(ctx, c, t) })
		s.stats.took(t.request.Spec, 1, took, took)
	}
}

// revoked is why a user must not do a task that was allowed when it was asked for, nil if it may: it
// may have waited for as long as the client has not read, and the user may have been changed since.
func (c *client) revoked(t *task, u *acl.User) error {
	if u == t.user || u.All() || plant.Bug("serve-cold-though-revoked") {
		return nil
	}
	if t.request.Spec != nil {
		return c.s.permitted(c, u, t.request.Spec, t.request.Args)
	}
	if t.unit != nil {
		for i := range t.unit.items {
			if err := c.s.permitted(c, u, t.unit.items[i].Spec, t.unit.items[i].Args); err != nil {
				return err
			}
		}
	}
	return nil
}

// allow notes that a user may ask for what is staged next. If there is more that is staged, it was asked for
// by that user or one before: see postpone.
func (c *client) allow(u *acl.User) {
	if c.pending == 0 {
		c.allowed = u
	}
}

// advanced is called when something was done for a client that is away, from a task on.
func (c *client) advanced(from int) {
	b := c.backlog
	b.forget()
	c.waited = time.Since(b.since)
	reads, slow := 0, c.s.measured(eventCommand, c.waited)
	for i := range b.tasks[from:b.done] {
		if t := &b.tasks[from+i]; t.isRead() {
			if reads++; slow && reads <= slowOfBatch {
				c.s.slow.note(c, &t.request, c.waited, t.space)
			}
		}
	}
	if reads > 0 {
		c.s.stats.took(getSpec, reads, c.waited, c.waited)
	}
	if len(b.left()) == 0 {
		if c.s.ctx.Err() == nil || plant.Bug("serve-recycles-what-is-under-way") {
			b.recycle() // else a group may still have a request that nobody waited for
		}
		c.backlog = nil
	}
}

// restage goes on with a client that is back: it stages what it can. If the client gets busy with
// that, the others wait. From a task on that cannot be staged, because its row is large say, the
// client is away once more.
func (w *worker) restage(c *client) {
	if c.backlog == nil {
		c.waited = 0
		return
	}
	w.late = true
	c.backlog.moveTo(c.space)
	for !c.busy && len(c.out.Bytes) <= unread {
		if len(c.backlog.left()) == 0 {
			c.backlog = nil // what it is made of may be staged
			return
		}
		if !w.restageOne(c) {
			return
		}
		if w.full() {
			w.commit() // then it may be busy, and its answers another's
		}
	}
}

// restageOne stages the first task of a client that is back, and tells whether to go on with it.
func (w *worker) restageOne(c *client) bool {
	t := &c.backlog.left()[0]
	if !t.isStaged() {
		w.open(c)
		return false
	}
	u := c.account.User()
	if err := c.revoked(t, u); err != nil {
		return w.refuse(c, err)
	}
	c.allow(u)
	r := t.request
	row, part := w.locate(c, r.Args[r.Spec.Keys.First])
	if part == nil {
		return false // it is busy
	}
	size, known := part.Group.Knows(row)
	if !known && !w.blind(&r, part) {
		w.giveUp(c.backlog)
		w.open(c)
		return false
	}
	cmd, err := w.compose(&r, row)
	if err != nil {
		return w.refuse(c, err)
	}
	c.backlog.done++
	w.weight += size
	w.add(c, r, row, part, cmd).refused = t.refused
	return true
}

// giveUp lets the first tasks be executed by themselves, as far as their rows were brought into memory
// and are not there.
func (w *worker) giveUp(b *backlog) {
	for i := b.done; i < b.tried; i++ {
		t := &b.tasks[i]
		if !t.isStaged() || t.isRead() {
			return
		}
		row := group.RowKey(t.appendRow(nil))
		part := w.s.node.PartOf(row.Position())
		if _, known := part.Group.Knows(row); known || w.blind(&t.request, part) {
			return
		}
		t.alone = true
	}
}

// refuse answers the first task of a client that is back with an error, behind what the client has
// staged. If it gets busy with that, the task stays.
func (w *worker) refuse(c *client, err error) bool {
	if !w.settled(c) {
		return false
	}
	c.backlog.done++
	c.reply(nil, func(out *redis.Writer) { out.Fail(err) })
	return true
}
