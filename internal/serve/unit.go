package serve

import (
	"bytes"
	"context"
	"errors"
	"math"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/inside"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/redis"
	"github.com/cleavekv/cleave/partition"
)

// unit is requests that are executed as one: one that needs several keys or steps, or
// those between MULTI and EXEC.
type unit struct {
	c     *client
	items []item
	multi bool
	// watched must be as they were, or nothing is executed.
	watched []watched

	out redis.Writer
	// ends are where the answers end.
	ends []int
	// changed tells that a key that was watched is another now.
	changed bool
}

// item is a request of a unit.
type item struct {
	redis.Request
	space *node.Space
}

func (i *item) edge() bool { return i.Spec.Flags&redis.Edge != 0 }

// state is what a unit is executed on.
type state interface {
	do(k *node.Space, p partition.Position, c command.Command, writes bool) command.Reply
	nowMS() int64
	// mark begins a request, and rewind takes back what it has written.
	mark()
	rewind()
}

// run executes the unit on a state. It may be called again: then all of it is new.
// Requests about the connection have no part in it: their turn comes after the commit.
func (u *unit) run(s state) {
	u.out = redis.Writer{Version: u.c.out.Version, Limit: u.c.out.Limit, Bytes: u.out.Bytes[:0]}
	u.ends, u.changed = u.ends[:0], false
	for i := range u.watched {
		w := &u.watched[i]
		p := w.space.AppendPosition(nil, w.key)
		reply := s.do(w.space, p, &command.Type{Key: p}, false)
		if reply.Version != w.version || reply.Err != nil {
			u.changed = true
			return
		}
	}
	for i := range u.items {
		it := &u.items[i]
		// A client whose answers are too many hears none of them.
		if !it.edge() && !(u.out.Over && it.Spec.Flags&redis.Write == 0) {
			start := len(u.out.Bytes)
			s.mark()
			it.Spec.Run(stateOf{s, it.space}, &it.Request, &u.out)
			if isError(u.out.Bytes[start:]) {
				s.rewind()
			}
		}
		u.ends = append(u.ends, len(u.out.Bytes))
	}
}

// isError tells whether an answer is an error.
func isError(answer []byte) bool { return len(answer) > 0 && answer[0] == '-' }

// stateOf is a state as one request sees it.
type stateOf struct {
	state
	space *node.Space
}

// At implements [redis.Unit].
func (s stateOf) At(key []byte) partition.Position { return s.space.AppendPosition(nil, key) }

// Selects implements [redis.Unit].
func (s stateOf) Selects(name []byte) bool {
	return string(name) == s.space.Name || string(name) == "0" && s.space.Name == node.DefaultName
}

// Read implements [redis.Unit].
func (s stateOf) Read(p partition.Position, c command.Command) command.Reply {
	return s.do(s.space, p, c, false)
}

// Write implements [redis.Unit].
func (s stateOf) Write(p partition.Position, c command.Command) command.Reply {
	return s.do(s.space, p, c, true)
}

// NowMS implements [redis.Unit].
func (s stateOf) NowMS() int64 { return s.nowMS() }

// envState is the state of a group's batch.
type envState struct {
	*command.Env
	since command.Point // the last mark
	met   error         // why the unit is not executed
}

// do does nothing more once something could not be evaluated: a key that a transaction has
// locked, a range that goes elsewhere, a disk that cannot be read.
func (e *envState) do(_ *node.Space, _ partition.Position, c command.Command, _ bool) command.Reply {
	if e.met != nil {
		return command.Reply{Kind: command.Failed, Err: e.met}
	}
	reply := e.Do(c)
	if reply.Err != nil && !command.IsAnswer(reply.Err) {
		e.met = reply.Err
	}
	return reply
}

func (e *envState) nowMS() int64 { return e.NowMS() }

func (e *envState) mark() { e.since = e.Mark() }

func (e *envState) rewind() { e.Rewind(e.since) }

// Eval implements [command.Command]: the unit as one command of a group that has all of
// its keys. What a request refuses is its answer: it leaves nothing, and the others are
// executed all the same; what the group refuses the client does not hear of, and nothing is
// executed.
func (u *unit) Eval(e *command.Env) command.Reply {
	s := &envState{Env: e}
	u.run(s)
	if s.met != nil && !plant.Bug("serve-unit-half-executed") {
		return command.Reply{Kind: command.Failed, Err: s.met}
	}
	return command.Reply{Kind: command.OK}
}

// txnState is the state of a transaction.
type txnState struct{ inside.Txn }

func (t txnState) do(k *node.Space, p partition.Position, c command.Command, writes bool) command.Reply {
	return t.Do(k, p, c, writes)
}

func (t txnState) nowMS() int64 { return t.NowMS() }

func (t txnState) mark() { t.Mark() }

func (t txnState) rewind() { t.Rewind() }

// write writes the answers.
func (u *unit) write(out *redis.Writer) {
	switch {
	case u.changed:
		out.NullArray()
		return
	case u.multi:
		out.Array(len(u.items))
		from := 0
		for i, end := range u.ends {
			u.c.s.stats.answered(u.items[i].Spec, u.out.Bytes[from:end])
			from = end
		}
	}
	out.Over = out.Over || u.out.Over
	out.Bytes = append(out.Bytes, u.out.Bytes...)
}

// spec is the command that the unit is, or EXEC.
func (u *unit) spec() *redis.Spec {
	if u.multi {
		return execSpec
	}
	return u.items[0].Spec
}

// tookUnit notes that a unit took so long, of which so much is its own.
func (s *stats) tookUnit(u *unit, took, own time.Duration) {
	s.took(u.spec(), 1, took, own)
	if !u.multi {
		return
	}
	for i := range u.items { // each has waited for all of it
		s.took(u.items[i].Spec, 1, took, own/time.Duration(len(u.items)))
	}
}

// unit begins requests that are executed as one.
func (w *worker) unit(c *client, u *unit) {
	if err := u.check(); err != nil {
		w.say(c, u.spec(), func(out *redis.Writer) { out.Fail(err) })
		return
	}
	part, p := w.s.together(u)
	size, known := 0, false
	if part != nil && (c.pending == 0 || c.store == part.Store || w.settled(c)) {
		size, known = u.known(part)
	}
	if !known {
		w.slow(c, task{unit: u.kept()})
		return
	}
	w.weight += size
	if !u.multi {
		u.items[0].Args = w.hold(u.items[0].Args)
	}
	b := w.stage(c, part)
	b.many.Add(part.Group, group.Request{Command: u, Key: p, Gate: u.gate(), Hasty: true}, c.id)
	b.asks = append(b.asks, ask{c: c, unit: u})
}

// known tells whether a group that has all keys executes the unit without a disk to wait for
// until it has found their rows, and how large these are together.
func (u *unit) known(part *node.Part) (size int, known bool) {
	if plant.Bug("serve-cold-unit-staged") || part.Group.Blind() && u.plain() {
		return 0, true
	}
	for row := range u.rows {
		n, known := part.Group.Knows(row)
		if !known {
			return 0, false
		}
		size += n
	}
	return size, true
}

// plain tells whether it sets values whatever was there before.
func (u *unit) plain() bool {
	for i := range u.items {
		if r := &u.items[i].Request; r.Spec != msetSpec && !(r.Spec == setSpec && len(r.Args) == 3) {
			return false
		}
	}
	return len(u.watched) == 0
}

var msetSpec = redis.Named("mset")

// warmUnit brings the rows of a unit into memory.
func (s *Server) warmUnit(ctx context.Context, u *unit) {
	unknown := map[*node.Part][][]byte{}
	for row := range u.rows {
		part := s.node.PartOf(row.Position())
		if _, known := part.Group.Knows(row); !known {
			unknown[part] = append(unknown[part], bytes.Clone(row))
		}
	}
	for part, rows := range unknown {
		s.warm(ctx, part, rows)
	}
}

// rows are the row keys of all keys, each until the next.
func (u *unit) rows(yield func(group.RowKey) bool) {
	var room []byte
	for k, key := range u.keys {
		if room = k.AppendPosition(group.BeginRowKey(room[:0]), key); !yield(room) {
			return
		}
	}
}

// check refuses keys that are none.
func (u *unit) check() error {
	for i := range u.items {
		it := &u.items[i]
		at, err := it.Spec.KeysOf(it.Args)
		if err != nil {
			continue // it answers that itself
		}
		for _, k := range at {
			if err := command.CheckKey(it.Args[k]); err != nil {
				return err
			}
		}
	}
	return nil
}

// together returns the part that has all keys of a unit, and the position of one of them;
// nil if there is none, or if it needs more than a group knows.
func (s *Server) together(u *unit) (part *node.Part, first partition.Position) {
	if len(u.items) == 0 {
		return nil, nil
	}
	for k, key := range u.keys {
		p := k.AppendPosition(nil, key)
		if first == nil {
			part, first = s.node.PartOf(p), p
		}
		if s.node.PartOf(p) != part || k != u.items[0].space || part.Group.Held(p) > 0 {
			return nil, nil // a transaction waits as long as it has to
		}
	}
	for i := range u.items {
		if u.items[i].Spec.Flags&(redis.Edge|redis.Heavy) != 0 {
			return nil, nil
		}
	}
	return part, first
}

// keys are all keys of the unit, with the keyspaces that they are of.
func (u *unit) keys(yield func(*node.Space, []byte) bool) {
	for _, w := range u.watched {
		if !yield(w.space, w.key) {
			return
		}
	}
	for i := range u.items {
		it := &u.items[i]
		at, _ := it.Spec.KeysOf(it.Args)
		for _, k := range at {
			if !yield(it.space, it.Args[k]) {
				return
			}
		}
	}
}

// gate is what must hold of the keyspace when the unit is executed by one group.
func (u *unit) gate() group.Gate {
	for i := range u.items {
		if u.items[i].Spec.Flags&redis.Write != 0 {
			return node.Plain{Space: u.items[i].space}
		}
	}
	return u.items[0].space
}

// runUnit executes requests as one, wherever their keys are.
func (s *Server) runUnit(ctx context.Context, u *unit) {
	if len(u.items) == 0 {
		s.run(ctx, u)
		return
	}
	s.observed(u, func() {
		took := u.c.timed(&u.items[0].Request, nil, func() { s.run(ctx, u) })
		s.stats.tookUnit(u, took, took)
	})
}

func (s *Server) run(ctx context.Context, u *unit) {
	err := s.transact(ctx, u)
	for errors.Is(err, node.ErrNoKeyspace) && s.renew(ctx, u) {
		err = s.transact(ctx, u)
	}
	c := u.c
	start := len(c.out.Bytes)
	switch {
	case err != nil:
		c.out.Fail(err)
	case u.changed || !u.multi:
		u.write(&c.out)
	default:
		s.writeAll(ctx, u)
	}
	c.hush(u.spec(), start)
	c.conn.dirty()
}

// gone is no version of a key.
const gone = math.MaxUint64

// renew takes the keyspaces that have taken the place of those that were emptied, and
// tells whether there are such. A key that was watched there is another now, if it was
// there.
func (s *Server) renew(ctx context.Context, u *unit) (some bool) {
	for i := range u.watched {
		w := &u.watched[i]
		if k, err := s.node.Successor(ctx, w.space); err == nil && k != w.space {
			if w.version != 0 {
				w.version = gone
			}
			w.space, some = k, true
		}
	}
	for i := range u.items {
		it := &u.items[i]
		if k, err := s.node.Successor(ctx, it.space); err == nil && k != it.space {
			if u.c.space == it.space {
				u.c.use(k)
			}
			it.space, some = k, true
		}
	}
	return some
}

// writeAll writes the answers of a MULTI, and lets requests about the connection have
// their turn.
func (s *Server) writeAll(ctx context.Context, u *unit) {
	c, from := u.c, 0
	s.follow(ctx, c)
	c.out.Over = c.out.Over || u.out.Over
	c.out.Array(len(u.items))
	for i := range u.items {
		it := &u.items[i]
		start := len(c.out.Bytes)
		if it.edge() {
			edges[it.Spec.Name].do(&turn{ctx, s, c, it.Request, &c.out, true})
		} else {
			c.out.Bytes = append(c.out.Bytes, u.out.Bytes[from:u.ends[i]]...)
			from = u.ends[i]
		}
		s.stats.answered(it.Spec, c.out.Bytes[start:])
	}
}

// transact executes a unit as a transaction.
func (s *Server) transact(ctx context.Context, u *unit) error {
	writes, some := false, len(u.watched) > 0
	for i := range u.items {
		writes = writes || u.items[i].Spec.Flags&redis.Write != 0
		some = some || !u.items[i].edge()
	}
	switch {
	case !some:
		u.ends = make([]int, len(u.items))
		return nil
	case writes:
		return inside.Update(ctx, s.db, func(tx inside.Txn) { u.run(txnState{tx}) })
	}
	return inside.View(ctx, s.db, func(tx inside.Txn) { u.run(txnState{tx}) })
}

// kept is the same for after the round.
func (u *unit) kept() *unit {
	if u == nil {
		return nil
	}
	k := &unit{c: u.c, multi: u.multi, watched: u.watched}
	for _, it := range u.items {
		k.items = append(k.items, item{kept(it.Request), it.space})
	}
	return k
}
