package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/plant"
)

// doJoint executes joint requests in order, in as many batches as it takes.
func doJoint(ctx context.Context, calls []*jointCall) {
	for len(calls) > 0 {
		b := newJointBatch(calls)
		err := actor.DoAll(ctx, actorsOf(b.groups), b.run)
		var panicked *actor.PanicError
		switch {
		case err == nil:
			b.urge(ctx)
			calls = calls[b.taken:]
		case len(calls) == 1 || errors.As(err, &panicked):
			for _, c := range calls {
				c.replies, c.err = nil, c.refused(err)
			}
			b.abandon(err)
			return
		default: // a group is closed: those that do not need it go on
			for i := range calls {
				doJoint(ctx, calls[i:i+1])
			}
			return
		}
	}
}

// jointBatch is joint requests as a batch of their groups.
type jointBatch struct {
	together
	calls []*jointCall
	taken int // of calls, so far
}

func newJointBatch(calls []*jointCall) *jointBatch {
	b := &jointBatch{calls: calls}
	for _, c := range calls {
		for i := range c.pieces {
			if g := c.pieces[i].Group; !slices.Contains(b.groups, g) {
				b.groups = append(b.groups, g)
			}
		}
	}
	return b
}

// run evaluates requests until the batch is large enough, and commits what they write.
func (b *jointBatch) run(states []*executor) {
	b.use(states)
	b.admit()
	b.begin()
	for full := false; b.taken < len(b.calls) && !full; b.taken++ {
		c := b.calls[b.taken]
		if c.err == nil { // a group may have died since it was admitted
			for i := range c.pieces {
				c.err = cmp.Or(c.err, b.refused[b.at(&c.pieces[i])])
			}
		}
		if c.err != nil {
			continue
		}
		var again bool
		if full, again = b.evaluate(c); again {
			break // its record has to be there first
		}
	}
	err := b.commit(!slices.ContainsFunc(b.calls[:b.taken], func(c *jointCall) bool { return c.wrote() && !c.urgent() }))
	b.finish(err)
	if err == nil {
		return
	}
	for _, c := range b.calls[:b.taken] {
		switch {
		case c.recalled, c.err != nil:
			// The record of a request that was executed before was there before, and one
			// that was refused before has seen nothing of the batch.
		case errors.Is(err, ErrUncertain) && !c.failed():
			c.err = fmt.Errorf("%w: %w", ErrUnknown, failed(err))
		case errors.Is(err, ErrUncertain):
			c.err = failed(err)
		default: // also of one that failed: what it has met did not happen
			c.err, c.refusedWhole = err, true
		}
	}
}

// urge executes urgent requests that were refused with others again, each by itself: they
// may use what is kept for them when the disk is full.
func (b *jointBatch) urge(ctx context.Context) {
	for _, c := range b.calls[:b.taken] {
		if c.refusedWhole && b.taken > 1 && c.urgent() {
			c.err, c.refusedWhole = nil, false
			clear(c.replies)
			doJoint(ctx, []*jointCall{c})
		}
	}
}

// admit makes the groups ready for the requests. Whatever of that is a batch of its own
// comes before any clock is held.
func (b *jointBatch) admit() {
	b.reserve()
	for _, c := range b.calls {
		for i := range c.pieces {
			at := b.at(&c.pieces[i])
			if c.err == nil {
				c.err = b.refused[at]
			}
			if c.err == nil {
				c.err = b.states[at].admit(&call{Request: c.pieces[i].Request})
			}
		}
	}
}

// at is which of the groups a piece is for.
func (b *jointBatch) at(p *Piece) int { return slices.Index(b.groups, p.Group) }

// evaluate evaluates one request. If a part fails, no part of it leaves anything. full
// tells that the batch ends with it, again that it ends before it: it was executed in it.
func (b *jointBatch) evaluate(c *jointCall) (full, again bool) {
	marks := make([]executorMark, 0, len(c.pieces))
	order := c.order()
	for n, i := range order {
		x := b.states[b.at(&c.pieces[i])]
		marks = append(marks, x.mark())
		one := call{Request: c.pieces[i].Request}
		x.execute(&one)
		keepReply(&one)
		c.replies[i], c.recalled = one.reply, one.recalled
		if one.reply.Err != nil || one.recalled {
			for ; n >= 0 && !plant.Bug("group-joint-not-taken-back"); n-- {
				b.states[b.at(&c.pieces[order[n]])].rewind(marks[n])
			}
			if again = one.recalled && one.wrote; again {
				c.recalled = false
				clear(c.replies)
			}
			return false, again
		}
		full = full || x.full()
	}
	return full, false
}

// order is that in which the pieces are evaluated. The one with an ID comes first: it
// may turn out that nothing is left to do.
func (c *jointCall) order() []int {
	order := make([]int, len(c.pieces))
	for i := range order {
		order[i] = i
	}
	if i := slices.IndexFunc(c.pieces, func(p Piece) bool { return p.Request.ID != RequestID{} }); i > 0 {
		order[0], order[i] = i, 0
	}
	return order
}

// urgent tells whether all parts of it are.
func (c *jointCall) urgent() bool {
	return !slices.ContainsFunc(c.pieces, func(p Piece) bool { return !urgent(p.Request.Command) })
}

// wrote tells whether the batch has what it writes.
func (c *jointCall) wrote() bool { return c.err == nil && !c.recalled && !c.failed() }

// failed tells whether a part of it has failed, so that it writes nothing.
func (c *jointCall) failed() bool {
	return slices.ContainsFunc(c.replies, func(r command.Reply) bool { return r.Err != nil })
}
