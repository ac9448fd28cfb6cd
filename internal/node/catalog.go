package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/partition"
)

// meta is where the map and the jobs are.
var meta = drive.Catalog{Space: &system}

// catalog is the group that has the rows.
func (n *Node) catalog() *group.Group { return n.part(firstGroup).Group }

// enter executes commands of the catalog as one, and syncs them whatever the
// durability class: other stores hold keys of a keyspace by its id, and a crash
// that took the id back would give them to the next keyspace. It does not stop
// half way because a caller lost patience.
func (n *Node) enter(ctx context.Context, commands ...command.Command) error {
	c := commands[0] // which may be one that only a group evaluates
	if len(commands) > 1 {
		c = &command.Batch{Commands: commands}
	}
	return n.settle(ctx, n.part(firstGroup), c)
}

// settle executes a command of the node's own in a group, and syncs it whatever the
// durability class. If that fails the error is group.ErrUnknown: it may have happened.
func (n *Node) settle(ctx context.Context, p *Part, c command.Command) error {
	if err := p.do(context.WithoutCancel(ctx), c); err != nil {
		return err
	}
	if err := n.sync(p); err != nil {
		return fmt.Errorf("%w: %w", group.ErrUnknown, err)
	}
	return nil
}

// ask executes a command of the catalog that only reads.
func (n *Node) ask(ctx context.Context, c command.Command) (command.Reply, error) {
	reply, err := n.catalog().Do(ctx, group.Request{Command: c})
	return reply, errors.Join(group.Untouched(ctx, err), reply.Err)
}

// newestMap reads the map, which may be newer than the one that is published: a job
// publishes what it has decided when the groups know of it.
func (n *Node) newestMap(ctx context.Context) (*partition.Map, error) {
	reply, err := n.ask(ctx, &command.Get{Key: meta.Map()})
	if err != nil {
		return nil, err
	}
	m, err := partition.Decode(reply.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: the map: %w", store.ErrCorrupt, err)
	}
	return m, nil
}

// records reads the records of all jobs, in the order of their numbers.
func (n *Node) records(ctx context.Context) ([]mover.Job, error) {
	reply, err := n.ask(ctx, meta.Jobs())
	if err != nil {
		return nil, err
	}
	jobs, err := drive.Records(reply)
	if err != nil {
		return nil, fmt.Errorf("%w: a job: %w", store.ErrCorrupt, err)
	}
	return jobs, nil
}

// ErrNoJob means that there is no such job: there never was, or it ended long ago.
var ErrNoJob = errors.New("node: no such job")

// record reads the record of a job.
func (n *Node) record(ctx context.Context, id own.Job) (mover.Job, error) {
	reply, err := n.ask(ctx, &command.Get{Key: meta.Job(id)})
	switch {
	case err != nil:
		return mover.Job{}, err
	case reply.Kind == command.Nil:
		return mover.Job{}, fmt.Errorf("%w: %d", ErrNoJob, id)
	}
	j, err := mover.Decode(reply.Bytes)
	if err != nil {
		return j, fmt.Errorf("%w: job %d: %w", store.ErrCorrupt, id, err)
	}
	return j, nil
}
