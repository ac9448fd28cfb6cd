package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/server/acl"
	"github.com/cleavekv/cleave/internal/server/conn"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/server/stats"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/partition"
)

// backlog is what a client has asked for and what could not be done at once, in order. As long as
// there is any, nothing else is done for the client.
//
// It is done by turns. A goroutine has the client while it is away: it brings into memory what the
// first of the tasks need, and does those that need no group, or may wait at one for as long as it
// takes. Then the worker has it again, and stages the next with what others ask for: they share a
// write of the log.
type backlog struct {
	tasks        []task
	done         int       // how many of them are done
	refused      int       // how many of the others were staged and refused since the client was busy last
	prefetchedTo int       // how many of them were on a trip, or are done
	waitingSince time.Time // when the client began to wait
	// args and bytes are what the arguments of requests are made of, and large is about how many bytes
	// of arguments there are elsewhere.
	args          [][]byte
	argBytes      []byte
	largeArgBytes int
}

// task is a request about one key, requests that are executed as one, or anything else.
type task struct {
	request  redis.Request
	keyspace *node.Keyspace
	unit     *unit
	run      func(context.Context) // it must not point to anything of a round: see kept
	user     *acl.User             // the user whose permissions allowed it
	// refusals is how often a group has not executed it for what is not in memory.
	refusals int8
	// exclusive reports whether it is executed by itself, and may wait for as long as it takes.
	exclusive bool
	// admitted reports whether it is a write whose turn has come, and refusedTurn why it has none.
	admitted    bool
	refusedTurn error
	readRow     *group.ReadRow // of a GET that is on a trip
	// readTime is its share of the time of that trip, readShard the index of its shard in readMap.
	readTime  time.Duration
	readMap   *partition.Map
	readShard int
}

// isStageable reports whether the worker stages it, unless it is a GET whose row is read.
func (t *task) isStageable() bool { return t.run == nil && t.unit == nil && !t.exclusive }

// isGet reports whether the task is a GET, which is executed by the reader of its row.
func (t *task) isGet() bool { return t.request.Spec == getSpec && t.isStageable() }

// isReadCurrent reports whether what was read for a GET is its answer, and its keyspace was not emptied.
// If it is not the first of several that were read together it must still be so: else it could
// be older than what those before it were answered.
func (t *task) isReadCurrent(first bool) bool {
	return t.readRow != nil && t.readRow.Known && t.keyspace.CheckOpen() == nil && (first || t.readRow.IsCurrent())
}

// appendRowKey appends the row key of a request about one key.
func (t *task) appendRowKey(to []byte) []byte {
	return t.keyspace.AppendPosition(group.AppendRowKeyPrefix(to), t.request.Args[t.request.Spec.Keys.First])
}

// argBytes is how many bytes the arguments of a task have.
func (t *task) argBytes() int {
	n := t.request.ArgBytes()
	if t.unit != nil {
		for i := range t.unit.items {
			n += t.unit.items[i].ArgBytes()
		}
	}
	return n
}

// needsExclusive reports whether a goroutine may have to wait for more than a disk with some tasks.
func needsExclusive(tasks []task) bool {
	for i := range tasks {
		if !tasks[i].isStageable() {
			return true
		}
	}
	return false
}

// backlogPool are those that are done, to be used again.
var backlogPool = sync.Pool{New: func() any { return new(backlog) }}

// maxPooledTasks is for how many tasks memory is used again, and maxPooledTaskBytes for how many bytes of
// their arguments.
const maxPooledTasks, maxPooledTaskBytes = 128, 16 << 10

// memoryBytes is about how much memory it takes.
func (b *backlog) memoryBytes() int {
	return cap(b.tasks)*int(unsafe.Sizeof(task{})) + cap(b.args)*int(unsafe.Sizeof(b.argBytes)) + cap(b.argBytes) + b.largeArgBytes
}

// maxBacklogTasks is how many requests of a client are taken before the first of them is done. The others stay bytes
// that have arrived, which take up less.
const maxBacklogTasks = 256

// isFull reports whether nothing more is to be added.
func (b *backlog) isFull() bool { return len(b.remaining()) >= maxBacklogTasks }

// remaining are the tasks that are not done.
func (b *backlog) remaining() []task { return b.tasks[b.done:] }

// discardReads forgets what was read for those that are not done: it would be older than what comes
// before it, and its memory is another's when the trip has ended.
func (b *backlog) discardReads() {
	for i := range b.remaining() {
		b.remaining()[i].readRow = nil
	}
}

// add adds a request about one key of a user, with a copy of its arguments.
func (b *backlog) add(c *client, r redis.Request, u *acl.User) {
	first := len(b.args)
	for _, a := range r.Args {
		if len(a) > maxPooledTaskBytes {
			b.args, b.largeArgBytes = append(b.args, bytes.Clone(a)), b.largeArgBytes+len(a)
			continue
		}
		start := len(b.argBytes)
		b.argBytes = append(b.argBytes, a...) // if it grows, what was added before stays where it is
		b.args = append(b.args, b.argBytes[start:len(b.argBytes):len(b.argBytes)])
	}
	r.Args = b.args[first:len(b.args):len(b.args)]
	b.tasks = append(b.tasks, task{request: r, keyspace: c.keyspace, user: u})
}

// changeKeyspace lets the requests about one key that are left be about a keyspace: if that was emptied, the one
// of the client is another than when it has asked for them.
func (b *backlog) changeKeyspace(k *node.Keyspace) {
	for i := range b.remaining() {
		if t := &b.remaining()[i]; t.isStageable() && t.keyspace != k {
			t.keyspace, b.prefetchedTo = k, b.done // what was brought into memory is not this
		}
	}
}

// returnToPool lets the memory be used again of a backlog that is done.
func (b *backlog) returnToPool() {
	clear(b.tasks)
	clear(b.args)
	if cap(b.tasks) <= maxPooledTasks && cap(b.args) <= 4*maxPooledTasks && cap(b.argBytes) <= maxPooledTaskBytes {
		*b = backlog{tasks: b.tasks[:0], args: b.args[:0], argBytes: b.argBytes[:0]}
		backlogPool.Put(b)
	}
}

// hasBacklog reports whether a client that is not busy has something left to do, which comes before
// all that it asks for next.
func (c *client) hasBacklog() bool { return c.backlog != nil }

// openBacklog returns the backlog of a client, of which it gets busy: it leaves with one of the next
// releases. Until then more may be added.
func (w *worker) openBacklog(c *client) *backlog {
	if c.backlog == nil {
		c.backlog = backlogPool.Get().(*backlog)
	}
	if !c.Busy {
		c.Busy, c.HandedOff = true, false
		c.backlog.waitingSince = time.Now().Add(-c.waited)
		w.pending = append(w.pending, c)
	}
	return c.backlog
}

// enqueueRequest adds a request about one key, which a user was allowed, to what is not done for a client.
func (w *worker) enqueueRequest(c *client, r redis.Request, u *acl.User) {
	w.openBacklog(c).add(c, r, u)
}

// enqueueExclusive is enqueueRequest of one that is executed by itself: its group is held up.
func (w *worker) enqueueExclusive(c *client, r redis.Request, u *acl.User) {
	w.enqueueRequest(c, r, u)
	c.backlog.tasks[len(c.backlog.tasks)-1].exclusive = true
}

// enqueueTask adds anything else, behind all that the client has staged, and lets it leave.
func (w *worker) enqueueTask(c *client, t task) {
	if c.Staged > 0 {
		w.executeStaged()
	}
	t.keyspace, t.user = c.keyspace, c.stagedUser // the user whose permissions were checked, not the current one
	b := w.openBacklog(c)
	b.tasks, b.largeArgBytes = append(b.tasks, t), b.largeArgBytes+t.argBytes()
	w.schedulePending()
}

// addRefused adds a task behind those that were refused before it, and before all that was not staged.
func (b *backlog) addRefused(t task) {
	at := b.done + b.refused
	b.tasks = slices.Insert(b.tasks, at, t)
	b.largeArgBytes += t.argBytes()
	b.refused++
}

// requeueRefused adds a request that was staged and refused.
func (w *worker) requeueRefused(a *stagedRequest, why error) {
	t := task{request: cloneRequest(a.request), keyspace: a.keyspace, unit: a.unit.clone(), user: a.c.stagedUser, refusals: a.refusals, admitted: true}
	if (errors.Is(why, group.ErrWouldBlock) || errors.Is(why, group.ErrSkipped)) && !errors.Is(why, group.ErrReadTooLarge) {
		t.refusals++ // what is long does not get shorter in memory: it is executed by itself
	}
	t.exclusive = t.refusals == a.refusals || t.refusals > 1
	w.openBacklog(a.c).addRefused(t)
}

// runBacklog does what comes first of a client's backlog, up to what the worker has to stage, and as
// long as the client may leave the answers unread.
func (s *Server) runBacklog(ctx context.Context, c *client) {
	b, began := c.backlog, c.backlog.done
	for first := true; len(b.remaining()) > 0 && len(c.Out.Bytes) <= conn.MaxUnreadBytes; first = false {
		t := &b.remaining()[0]
		if t.isStageable() && (!t.isGet() || b.done >= b.prefetchedTo || ctx.Err() != nil || c.Disconnected.Load()) {
			break
		}
		if err := cmp.Or(c.checkStillAllowed(t, c.account.User()), t.refusedTurn); err != nil {
			c.WriteReply(nil, func(out *redis.Writer) { out.Fail(err) })
		} else {
			s.runTask(ctx, c, t, first)
		}
		b.done++
	}
	c.finishBacklogRun(began)
}

// runTask does a task that need not be staged.
func (s *Server) runTask(ctx context.Context, c *client, t *task, first bool) {
	switch {
	case t.run != nil:
		t.run(ctx)
	case t.unit != nil:
		before, began := c.waited, time.Now()
		s.prefetchUnit(ctx, t.unit)
		c.waited += time.Since(began)
		s.runUnit(ctx, t.unit)
		c.waited = before
	case t.isReadCurrent(first):
		c.replyReadRow(t)
	case t.isGet() && t.keyspace.CheckOpen() == nil:
		s.runGet(ctx, c, t)
	default:
		t.exclusive = true // it may be the read of a keyspace that was emptied
		took := c.runTimed(&t.request, t.keyspace, func() { s.runExclusive(ctx, c, t) })
		s.stats.RecordTime(t.request.Spec, 1, took, took)
	}
}

// checkStillAllowed is why a user must not do a task that was allowed when it was asked for, nil if it may: it
// may have waited for as long as the client has not read, and the user may have been changed since.
func (c *client) checkStillAllowed(t *task, u *acl.User) error {
	if u == t.user || u.IsUnlimited() {
		return nil
	}
	if t.request.Spec != nil {
		return c.s.checkPermission(c, u, t.request.Spec, t.request.Args)
	}
	if t.unit != nil {
		for i := range t.unit.items {
			if err := c.s.checkPermission(c, u, t.unit.items[i].Spec, t.unit.items[i].Args); err != nil {
				return err
			}
		}
	}
	return nil
}

// setStagedUser notes that a user may ask for what is staged next. If there is more that is staged, it was asked for
// by that user or one before: see requeueRefused.
func (c *client) setStagedUser(u *acl.User) {
	if c.Staged == 0 {
		c.stagedUser = u
	}
}

// finishBacklogRun is called when something was done for a client that is away, from a task on.
func (c *client) finishBacklogRun(from int) {
	b := c.backlog
	b.discardReads()
	c.waited = time.Since(b.waitingSince)
	reads, slow := 0, c.s.recordLatency(stats.EventCommand, c.waited)
	for i := range b.tasks[from:b.done] {
		if t := &b.tasks[from+i]; t.isGet() {
			if reads++; slow && reads <= stats.MaxSlowlogPerBatch {
				c.recordSlow(&t.request, c.waited, t.keyspace)
			}
		}
	}
	if reads > 0 {
		c.s.stats.RecordTime(getSpec, reads, c.waited, c.waited)
	}
	if len(b.remaining()) == 0 {
		if c.s.ctx.Err() == nil {
			b.returnToPool() // else a group may still have a request that was not waited for
		}
		c.backlog = nil
	}
}

// restageBacklog goes on with a client that is back: it stages what it can. If the client gets busy with
// that, the others wait. From a task on that cannot be staged, because its row is large say, the
// client is away once more.
func (w *worker) restageBacklog(c *client) {
	if c.backlog == nil {
		c.waited = 0
		return
	}
	w.hasWaited = true
	c.backlog.changeKeyspace(c.keyspace)
	for !c.Busy && len(c.Out.Bytes) <= conn.MaxUnreadBytes {
		if len(c.backlog.remaining()) == 0 {
			c.backlog = nil // what it is made of may be staged
			return
		}
		if !w.restageTask(c) {
			return
		}
		if w.isFull() {
			w.commit() // then it may be busy, and its answers another's
		}
	}
}

// restageTask stages the first task of a client that is back, and reports whether to go on with it.
func (w *worker) restageTask(c *client) bool {
	t := &c.backlog.remaining()[0]
	if !t.isStageable() {
		w.openBacklog(c)
		return false
	}
	u := c.account.User()
	if err := cmp.Or(c.checkStillAllowed(t, u), t.refusedTurn); err != nil {
		return w.rejectTask(c, err)
	}
	c.setStagedUser(u)
	r := t.request
	at := w.locateKey(c, r.Args[r.Spec.Keys.First])
	row, part := at.row, at.groupHost
	if part == nil {
		return false // it is busy
	}
	if part.Group.HasLargeRequest() {
		t.exclusive = true
		w.openBacklog(c)
		return false
	}
	size, known := part.Group.LookupSize(row)
	if !known && !w.isBlindWrite(&r, part) {
		w.markExclusive(c.backlog)
		w.openBacklog(c)
		return false
	}
	cmd, err := w.buildCommand(&r, row)
	if err != nil {
		return w.rejectTask(c, err)
	}
	c.backlog.done++
	w.stagedBytes += size
	w.stageRequest(c, r, at, cmd).refusals = t.refusals
	return true
}

// markExclusive lets the first tasks be executed by themselves, as far as their rows were brought into memory
// and are not there.
func (w *worker) markExclusive(b *backlog) {
	for i := b.done; i < b.prefetchedTo; i++ {
		t := &b.tasks[i]
		if !t.isStageable() || t.isGet() {
			return
		}
		row := group.RowKey(t.appendRowKey(nil))
		part := w.s.node.GroupHostAt(row.Position())
		if _, known := part.Group.LookupSize(row); known || w.isBlindWrite(&t.request, part) {
			return
		}
		t.exclusive = true
	}
}

// rejectTask answers the first task of a client that is back with an error, behind what the client has
// staged. If it gets busy with that, the task stays.
func (w *worker) rejectTask(c *client, err error) bool {
	if !w.ensureExecuted(c) {
		return false
	}
	c.backlog.done++
	c.WriteReply(nil, func(out *redis.Writer) { out.Fail(err) })
	return true
}
