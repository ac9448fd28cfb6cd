package drive

import (
	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/feed"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/store"
)

// Notes are for readers of the feed: what a job does to rows is not what somebody did to
// keys. See package feed.

// HandedFrom returns where readers of the feed find what happened to a range before it is
// served by another store, if that is what a job is about to let happen. number
// tells which store is which.
func HandedFrom(find Find, j *mover.Job, number func(*store.Store) int) (*feed.Handed, error) {
	if j.Phase != mover.Activating {
		return nil, nil
	}
	p, err := find(j.From)
	if err != nil {
		return nil, err
	}
	return &feed.Handed{Store: number(p.Store), Position: uint64(p.Store.Position())}, nil
}

// noting is a command with a note.
type noting struct {
	mover.Bound
	key []byte
}

// Eval notes, and evaluates the command.
func (c *noting) Eval(e *command.Env) command.Reply {
	e.Delete(c.key)
	return c.Bound.Eval(e)
}

// Urgent is that of the command.
func (c *noting) Urgent() bool {
	u, ok := c.Bound.(group.Urgent)
	return ok && u.Urgent()
}
