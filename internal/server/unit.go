package server

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/engine"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/server/redis"
	"github.com/cleavekv/cleave/internal/server/resp"
	"github.com/cleavekv/cleave/internal/server/stats"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/load"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

// unit is requests that are executed as one: one that needs several keys or steps, or
// those between MULTI and EXEC.
type unit struct {
	c     *client
	items []unitRequest
	multi bool
	// watchedKeys must be as they were, or nothing is executed.
	watchedKeys []watchedKey

	out redis.Writer
	// replyEnds are where the answers end.
	replyEnds []int
	// watchedChanged reports whether a key that was watched is another now.
	watchedChanged bool
	// freesSpace reports that what it wrote gives room back: see IsUrgent.
	freesSpace bool
	// loads count what is asked of the shards of all its keys, if it is staged.
	loads []*load.ShardRecorder
	// misses are the keys that it did not find, if they are to be published.
	misses []missedKey
}

// unitRequest is a request of a unit.
type unitRequest struct {
	redis.Request
	keyspace *node.Keyspace
}

func (i *unitRequest) isServerCommand() bool { return i.Spec.Flags&redis.ServerCommand != 0 }

// unitState is what a unit is executed on.
type unitState interface {
	eval(k *node.Keyspace, p partition.Position, c command.Command, writes bool) command.Reply
	nowMS() int64
	// setSavepoint begins a request, and rollbackToSavepoint takes back what it has written.
	setSavepoint()
	rollbackToSavepoint()
	// checkSize refuses a unit that has written more than a transaction may.
	checkSize() error
}

// run executes the unit on a state. It may be called again: then all of it is new.
// Requests about the connection have no part in it: their turn comes after the commit.
func (u *unit) run(s unitState) {
	u.out = redis.Writer{Version: u.c.Out.Version, Limit: u.c.Out.Limit, Bytes: u.out.Bytes[:0]}
	u.replyEnds, u.watchedChanged, u.misses = u.replyEnds[:0], false, nil
	notifies := u.c.s.notifier.PublishesMisses()
	for i := range u.watchedKeys {
		w := &u.watchedKeys[i]
		p := w.keyspace.AppendPosition(nil, w.key)
		reply := s.eval(w.keyspace, p, &command.Type{Key: p}, false)
		if reply.Version != w.version || reply.Err != nil {
			u.watchedChanged = true
			return
		}
	}
	for i := range u.items {
		it := &u.items[i]
		// A client whose answers are too many gets none of them.
		if !it.isServerCommand() && !(u.out.HasOverflowed && it.Spec.Flags&redis.Write == 0) {
			start := len(u.out.Bytes)
			s.setSavepoint()
			on := s
			if notifies && mayMiss(it.Spec) {
				on = missRecorder{s, &u.misses}
			}
			it.Spec.Run(requestState{on, it.keyspace}, &it.Request, &u.out)
			if resp.IsError(u.out.Bytes[start:]) {
				s.rollbackToSavepoint()
			}
			if s.checkSize() != nil {
				return // nothing of it is executed
			}
		}
		u.replyEnds = append(u.replyEnds, len(u.out.Bytes))
	}
}

// requestState is a state as one request sees it.
type requestState struct {
	unitState
	keyspace *node.Keyspace
}

// PositionOf implements [redis.KeyspaceView].
func (s requestState) PositionOf(key []byte) partition.Position {
	return s.keyspace.AppendPosition(nil, key)
}

// IsSelected implements [redis.KeyspaceView].
func (s requestState) IsSelected(name []byte) bool {
	return string(name) == s.keyspace.Name || string(name) == "0" && s.keyspace.Name == node.DefaultKeyspace
}

// Read implements [redis.KeyspaceView].
func (s requestState) Read(p partition.Position, c command.Command) command.Reply {
	return s.eval(s.keyspace, p, c, false)
}

// Write implements [redis.KeyspaceView].
func (s requestState) Write(p partition.Position, c command.Command) command.Reply {
	return s.eval(s.keyspace, p, c, true)
}

// NowMS implements [redis.KeyspaceView].
func (s requestState) NowMS() int64 { return s.nowMS() }

// envState is the state of a group's batch.
type envState struct {
	*command.Env
	start     command.Savepoint // before the unit
	savepoint command.Savepoint // the last mark
	err       error             // why the unit is not executed
	usesSpace bool              // something was written that does not give room back
}

// eval does nothing more once something could not be evaluated: a key that a transaction has
// locked, a range that goes elsewhere, a disk that cannot be read.
func (e *envState) eval(_ *node.Keyspace, _ partition.Position, c command.Command, writes bool) command.Reply {
	if e.err != nil {
		return command.Reply{Kind: command.Failed, Err: e.err}
	}
	if freeing, ok := c.(group.UrgentCommand); writes && (!ok || !freeing.IsUrgent()) {
		e.usesSpace = true
	}
	reply := e.Do(c)
	if reply.Err != nil && !command.IsCommandError(reply.Err) {
		e.err = reply.Err
	}
	return reply
}

func (e *envState) nowMS() int64 { return e.NowMS() }

func (e *envState) checkSize() error {
	if e.err == nil {
		e.err = e.CheckTxn(e.start)
	}
	return e.err
}

func (e *envState) setSavepoint() { e.savepoint = e.Savepoint() }

func (e *envState) rollbackToSavepoint() { e.RollbackTo(e.savepoint) }

// Eval implements [command.Command]: the unit as one command of a group that has all of
// its keys. What a request refuses is its answer: it leaves nothing, and the others are
// executed all the same; what the group refuses is not reported to the client, and nothing is
// executed.
func (u *unit) Eval(e *command.Env) command.Reply {
	s := &envState{Env: e, start: e.Savepoint()}
	u.run(s)
	u.freesSpace = !s.usesSpace
	if s.err != nil {
		return command.Reply{Kind: command.Failed, Err: s.err}
	}
	return command.Reply{Kind: command.OK}
}

// IsUrgent implements [group.UrgentCommand]: it reports whether all that the unit wrote when it was
// evaluated gives room back.
func (u *unit) IsUrgent() bool { return u.freesSpace }

// txnState is the state of a transaction.
type txnState struct{ *engine.CommandTxn }

func (t txnState) eval(k *node.Keyspace, p partition.Position, c command.Command, writes bool) command.Reply {
	return t.Eval(k, p, c, writes)
}

func (t txnState) nowMS() int64 { return t.NowMS() }

func (t txnState) checkSize() error { return t.CheckSize() }

func (t txnState) setSavepoint() { t.Mark() }

func (t txnState) rollbackToSavepoint() { t.Rewind() }

// writeReplies writes the answers.
func (u *unit) writeReplies(out *redis.Writer) {
	u.publishMisses()
	switch {
	case u.watchedChanged:
		out.NullArray()
		return
	case u.multi:
		out.Array(len(u.items))
		from := 0
		for i, end := range u.replyEnds {
			u.c.s.stats.RecordError(u.items[i].Spec, u.out.Bytes[from:end])
			from = end
		}
	}
	out.HasOverflowed = out.HasOverflowed || u.out.HasOverflowed
	out.Bytes = append(out.Bytes, u.out.Bytes...)
}

// commandSpec is the command that the unit is, or EXEC.
func (u *unit) commandSpec() *redis.Spec {
	if u.multi {
		return execSpec
	}
	return u.items[0].Spec
}

// recordTime notes that the unit took so long, of which so much is its own.
func (u *unit) recordTime(s *stats.ServerCounters, took, own time.Duration) {
	s.RecordTime(u.commandSpec(), 1, took, own)
	if !u.multi {
		return
	}
	for i := range u.items { // each has waited for all of it
		s.RecordTime(u.items[i].Spec, 1, took, own/time.Duration(len(u.items)))
	}
}

// beginUnit begins requests that are executed as one.
func (w *worker) beginUnit(c *client, u *unit) {
	if err := u.checkKeys(); err != nil {
		w.replyInOrder(c, u.commandSpec(), func(out *redis.Writer) { out.Fail(err) })
		return
	}
	m := w.s.node.Map()
	part, p := w.findSingleGroup(u, m)
	size, known := 0, false
	if part != nil && w.sharesMap(m) {
		size, known = u.sizeInMemory(part)
	}
	if !known {
		w.enqueueTask(c, task{unit: u.clone()})
		return
	}
	w.stagedBytes += size
	if !u.multi {
		u.items[0].Args = w.holdArgs(u.items[0].Args)
	}
	w.stage(part, stagedRequest{c: c, unit: u}, group.Request{Command: u, Key: p, Gate: u.newGate(), NonBlocking: true, ReadOnly: !u.isWrite()})
}

// sizeInMemory reports whether a group that has all keys executes the unit without a disk to wait for
// until it has found their rows, and how large these are together.
func (u *unit) sizeInMemory(part *node.GroupHost) (size int, known bool) {
	if part.Group.CanSetBlindly() && u.isBlindWrite() {
		return 0, true
	}
	for row := range u.rowKeys {
		n, known := part.Group.LookupSize(row)
		if !known {
			return 0, false
		}
		size += n
	}
	return size, true
}

// isBlindWrite reports whether it sets values whatever was there before.
func (u *unit) isBlindWrite() bool {
	for i := range u.items {
		if r := &u.items[i].Request; r.Spec != msetSpec && !(r.Spec == setSpec && len(r.Args) == 3) {
			return false
		}
	}
	return len(u.watchedKeys) == 0
}

var msetSpec = redis.SpecByName("mset")

// prefetchUnit brings the rows of a unit into memory.
func (s *Server) prefetchUnit(ctx context.Context, u *unit) {
	unknown := map[*store.Store][][]byte{}
	for row := range u.rowKeys {
		part := s.node.GroupHostAt(row.Position())
		if _, known := part.Group.LookupSize(row); !known {
			unknown[part.Store] = append(unknown[part.Store], bytes.Clone(row))
		}
	}
	for of, rows := range unknown {
		prefetchRows(ctx, of, rows)
	}
}

// rowKeys are the row keys of all keys, each until the next.
func (u *unit) rowKeys(yield func(group.RowKey) bool) {
	var room []byte
	for k, key := range u.allKeys {
		if room = k.AppendPosition(group.AppendRowKeyPrefix(room[:0]), key); !yield(room) {
			return
		}
	}
}

// checkKeys refuses keys that are none, and more of them than a transaction may have. What it writes
// is held to the limits as it is executed: so the same is refused wherever the keys are.
func (u *unit) checkKeys() error {
	keys, size := len(u.watchedKeys), 0
	for i := range u.items {
		it := &u.items[i]
		at, err := it.Spec.KeyIndexes(it.Args)
		if err != nil {
			continue // it answers that itself
		}
		for _, k := range at {
			if err := command.CheckKey(it.Args[k]); err != nil {
				return err
			}
			size += len(it.Args[k])
		}
		keys += len(at)
	}
	return command.CheckTxn(keys, size)
}

// findSingleGroup returns the part that has all keys of a unit, and the position of one of them;
// nil if there is none, or if it needs more than a group knows.
func (w *worker) findSingleGroup(u *unit, m *partition.Map) (part *node.GroupHost, first partition.Position) {
	if len(u.items) == 0 {
		return nil, nil
	}
	limits := w.s.node.WriteLimits()
	writes := !limits.IsEmpty() && u.isWrite()
	for k, key := range u.allKeys {
		p := k.AppendPosition(nil, key)
		newest, shard, host := w.s.node.Locate(p)
		if first == nil {
			part, first = host, p
		}
		if newest != m || host != part || k != u.items[0].keyspace || writes && limits.Covers(p) || part.Group.HasLargeRequest() {
			return nil, nil // a transaction waits as long as it has to
		}
		u.loads = append(u.loads, w.shardLoad(m, shard))
	}
	for i := range u.items {
		if u.items[i].Spec.Flags&(redis.ServerCommand|redis.Heavy) != 0 {
			return nil, nil
		}
	}
	return part, first
}

// allKeys are all keys of the unit, with the keyspaces that they are of.
func (u *unit) allKeys(yield func(*node.Keyspace, []byte) bool) {
	for _, w := range u.watchedKeys {
		if !yield(w.keyspace, w.key) {
			return
		}
	}
	for i := range u.items {
		it := &u.items[i]
		at, _ := it.Spec.KeyIndexes(it.Args)
		for _, k := range at {
			if !yield(it.keyspace, it.Args[k]) {
				return
			}
		}
	}
}

// newGate is what must hold of the keyspace when the unit is executed by one group.
func (u *unit) newGate() group.Gate {
	if u.isWrite() {
		return node.UnindexedGate{Keyspace: u.items[0].keyspace} // all are of one keyspace: see together
	}
	return u.items[0].keyspace
}

// isWrite reports whether any of its requests writes.
func (u *unit) isWrite() bool {
	return slices.ContainsFunc(u.items, func(it unitRequest) bool { return it.Spec.Flags&redis.Write != 0 })
}

// runUnit executes requests as one, wherever their keys are.
func (s *Server) runUnit(ctx context.Context, u *unit) {
	if len(u.items) == 0 {
		s.runUnitInTxn(ctx, u)
		return
	}
	s.runReported(u, func() {
		took := u.c.runTimed(&u.items[0].Request, nil, func() { s.runUnitInTxn(ctx, u) })
		u.recordTime(s.stats, took, took)
	})
}

func (s *Server) runUnitInTxn(ctx context.Context, u *unit) {
	began := time.Now()
	err := s.evalUnitInTxn(ctx, u)
	for errors.Is(err, node.ErrNoKeyspace) && s.refreshKeyspaces(ctx, u) {
		err = s.evalUnitInTxn(ctx, u)
	}
	c := u.c
	start := len(c.Out.Bytes)
	switch {
	case err != nil:
		c.Out.Fail(redactRows(err))
	case u.watchedChanged || !u.multi:
		u.writeReplies(&c.Out)
	default:
		s.writeMultiReplies(ctx, u)
	}
	c.recordUnit(u, c.finishOp(u.commandSpec(), start), began)
	c.NotifyOutput()
}

// versionGone is no version of a key.
const versionGone = math.MaxUint64

// refreshKeyspaces takes the keyspaces that have taken the place of those that were emptied, and
// reports whether there are such. A key that was watched there is another now, if it was
// there.
func (s *Server) refreshKeyspaces(ctx context.Context, u *unit) (some bool) {
	for i := range u.watchedKeys {
		w := &u.watchedKeys[i]
		if k, err := s.node.Successor(ctx, w.keyspace); err == nil && k != w.keyspace {
			if w.version != 0 {
				w.version = versionGone
			}
			w.keyspace, some = k, true
		}
	}
	for i := range u.items {
		it := &u.items[i]
		if k, err := s.node.Successor(ctx, it.keyspace); err == nil && k != it.keyspace {
			if u.c.keyspace == it.keyspace {
				u.c.setKeyspace(k)
			}
			it.keyspace, some = k, true
		}
	}
	return some
}

// writeMultiReplies writes the answers of a MULTI, and lets requests about the connection have
// their turn.
func (s *Server) writeMultiReplies(ctx context.Context, u *unit) {
	c, from := u.c, 0
	u.publishMisses()
	s.followKeyspace(ctx, c)
	c.Out.HasOverflowed = c.Out.HasOverflowed || u.out.HasOverflowed
	c.Out.Array(len(u.items))
	for i := range u.items {
		it := &u.items[i]
		start := len(c.Out.Bytes)
		if it.isServerCommand() {
			(&call{ctx, s, c, it.Request, &c.Out, true}).perform(handlers[it.Spec.Name].handle)
		} else {
			c.Out.Bytes = append(c.Out.Bytes, u.out.Bytes[from:u.replyEnds[i]]...)
			from = u.replyEnds[i]
		}
		s.stats.RecordError(it.Spec, c.Out.Bytes[start:])
	}
}

// evalUnitInTxn executes a unit as a transaction.
func (s *Server) evalUnitInTxn(ctx context.Context, u *unit) error {
	writes, some := u.isWrite(), len(u.watchedKeys) > 0
	for i := range u.items {
		some = some || !u.items[i].isServerCommand()
	}
	switch {
	case !some:
		u.replyEnds = make([]int, len(u.items))
		return nil
	case writes:
		return cleave.PublicError(s.engine.UpdateCommands(ctx, func(tx *engine.CommandTxn) { u.run(txnState{tx}) }))
	}
	return cleave.PublicError(s.engine.ViewCommands(ctx, func(tx *engine.CommandTxn) { u.run(txnState{tx}) }))
}

// clone is the same for after the round.
func (u *unit) clone() *unit {
	if u == nil {
		return nil
	}
	k := &unit{c: u.c, multi: u.multi, watchedKeys: u.watchedKeys}
	for _, it := range u.items {
		k.items = append(k.items, unitRequest{cloneRequest(it.Request), it.keyspace})
	}
	return k
}
