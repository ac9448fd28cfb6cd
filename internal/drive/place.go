package drive

import (
	"context"
	"errors"
	"slices"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/partition"
)

// ErrAway means that a group is not open here: try again later.
var ErrAway = errors.New("drive: the group is not open")

// Place is an open group, and the store that it lives on.
type Place struct {
	Group *group.Group
	Store *store.Store
}

// Find returns the place of a group, or ErrAway.
type Find func(partition.GroupID) (Place, error)

// Standing returns the first version that the group has not given out, and its
// time, in its turn.
func (p Place) Standing(ctx context.Context) (nextVersion uint64, clockMS int64, err error) {
	reply, err := p.Group.Try(ctx, group.Request{Command: standing{}})
	return reply.Version, reply.Int, err
}

// over returns the ranges of a list that overlap with a span.
func over(l *own.List, s partition.Span) []own.Range { return slices.Collect(l.Over(s)) }

// standing is a command that reads what the group gives out next.
type standing struct{}

// Eval reads both.
func (standing) Eval(e *command.Env) command.Reply {
	return command.Reply{Kind: command.Int, Int: e.NowMS(), Version: e.NextVersion()}
}
