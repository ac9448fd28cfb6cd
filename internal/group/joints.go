package group

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/internal/command"
)

// Joints lets the joint requests of groups that share a log share its writes too: those
// that come while one is on its way go together into the next batch, whatever their
// groups. Each of them is still done as a whole or not at all.
type Joints struct {
	actor *actor.Actor[struct{}, *jointCall, struct{}]
}

// maxJoints bounds the joint requests that wait. Each is a caller that waits for it.
const maxJoints = 1 << 16

// NewJoints returns what the groups of one log have in common, for [Options.Joints].
func NewJoints() *Joints {
	// As for a group: the handler waits for a disk, and a batch costs a write to it,
	// however many are in it.
	a, err := actor.New(struct{}{}, actor.Batch((*Joints)(nil).run), actor.Options{Capacity: maxJoints, Turns: -1, Gather: true})
	if err != nil {
		panic(err) // the options are right
	}
	return &Joints{a}
}

// jointCall is a joint request on its way. It belongs to whoever has claimed it.
type jointCall struct {
	pieces  []Piece
	replies []command.Reply
	err     error
	// recalled tells that it was executed before, refusedWhole that its batch was refused.
	recalled, refusedWhole bool
	// claimed is set by whoever executes it, or by the caller who leaves before.
	claimed atomic.Bool
}

// do executes a request together with others.
func (j *Joints) do(ctx context.Context, c *jointCall) ([]command.Reply, error) {
	_, err := j.actor.Call(ctx, c)
	if errors.Is(err, actor.ErrAbandoned) && c.claimed.CompareAndSwap(false, true) {
		return nil, ctx.Err() // nobody looks at it any more
	}
	if err != nil {
		return nil, c.refused(err)
	}
	return c.replies, c.err
}

// run is the handler: it executes what has come, in order.
func (*Joints) run(_ *struct{}, calls []*jointCall, _ []struct{}) {
	claimed := make([]*jointCall, 0, len(calls))
	for _, c := range calls {
		if c.claimed.CompareAndSwap(false, true) {
			claimed = append(claimed, c)
		}
	}
	doJoint(context.Background(), claimed)
}
