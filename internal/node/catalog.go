package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

// catalogKeys is where the map and the jobs are.
var catalogKeys = protocol.Catalog{Keyspace: &systemKeyspace}

// findCatalogGroup is the group that has the rows.
func (n *Node) findCatalogGroup() *group.Group { return n.lookupGroup(firstGroup).Group }

// writeCatalog executes commands of the catalog as one, and syncs them whatever the
// durability class: other stores hold keys of a keyspace by its id, and a crash
// that took the id back would give them to the next keyspace. It does not stop
// half way because a caller lost patience.
func (n *Node) writeCatalog(ctx context.Context, commands ...command.Command) error {
	c := commands[0] // which may be one that only a group evaluates
	if len(commands) > 1 {
		c = &command.Batch{Commands: commands}
	}
	return n.doDurably(ctx, n.lookupGroup(firstGroup), c)
}

// doDurably executes a command of the node's own in a group, and syncs it whatever the
// durability class. If that fails the error is group.ErrUnknown: it may have happened.
func (n *Node) doDurably(ctx context.Context, p *GroupHost, c command.Command) error {
	if err := p.doCommand(context.WithoutCancel(ctx), c); err != nil {
		return err
	}
	if err := n.syncStore(p); err != nil {
		return fmt.Errorf("%w: %w", group.ErrUnknown, err)
	}
	return nil
}

// readCatalog executes a command of the catalog that only reads.
func (n *Node) readCatalog(ctx context.Context, c command.Command) (command.Reply, error) {
	reply, err := n.findCatalogGroup().Execute(ctx, group.Request{Command: c})
	return reply, errors.Join(group.AsReadError(ctx, err), reply.Err)
}

// loadNewestMap reads the map, which may be newer than the one that is published: a job
// publishes what it has decided when the groups know of it.
func (n *Node) loadNewestMap(ctx context.Context) (*partition.Map, error) {
	reply, err := n.readCatalog(ctx, &command.Get{Key: catalogKeys.MapKey()})
	if err != nil {
		return nil, err
	}
	m, err := partition.Decode(reply.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: the map: %w", store.ErrCorrupt, err)
	}
	return m, nil
}

// loadJobs reads the records of all jobs, in the order of their numbers.
func (n *Node) loadJobs(ctx context.Context) ([]mover.Job, error) {
	reply, err := n.readCatalog(ctx, catalogKeys.ListJobs())
	if err != nil {
		return nil, err
	}
	jobs, err := protocol.DecodeJobs(reply)
	if err != nil {
		return nil, fmt.Errorf("%w: a job: %w", store.ErrCorrupt, err)
	}
	return jobs, nil
}

// ErrNoJob means that there is no such job: there never was, or it ended long ago.
var ErrNoJob = errors.New("node: no such job")

// loadJob reads the record of a job.
func (n *Node) loadJob(ctx context.Context, id ownership.JobID) (mover.Job, error) {
	reply, err := n.readCatalog(ctx, &command.Get{Key: catalogKeys.JobKey(id)})
	switch {
	case err != nil:
		return mover.Job{}, err
	case reply.Kind == command.Nil:
		return mover.Job{}, fmt.Errorf("%w: %d", ErrNoJob, id)
	}
	j, err := mover.DecodeRecord(reply.Bytes)
	if err != nil {
		return j, fmt.Errorf("%w: job %d: %w", store.ErrCorrupt, id, err)
	}
	return j, nil
}

// Notes are rows of the catalog that others keep there: users of the server, and what the balancer has decided. They are
// where the keyspaces are, out of the reach of clients, in every backup, and one truth for all nodes that will share a
// catalog. What they mean is not known here. Each kind has a prefix of its own.

const userPrefix = "user/"

func noteKey(name string) partition.Position { return systemKeyspace.AppendPosition(nil, []byte(name)) }

// PutNotes stores notes by their names, as one, durably. One without content is removed.
func (n *Node) PutNotes(ctx context.Context, notes map[string][]byte) error {
	var commands []command.Command
	for name, content := range notes {
		if len(content) == 0 {
			commands = append(commands, &command.Delete{Keys: []partition.Position{noteKey(name)}})
		} else {
			commands = append(commands, &command.Set{Key: noteKey(name), Value: content})
		}
	}
	if len(commands) == 0 {
		return nil
	}
	return n.writeCatalog(ctx, commands...)
}

// Notes returns the notes whose names begin with a prefix, by what follows it.
func (n *Node) Notes(ctx context.Context, prefix string) (notes map[string][]byte, err error) {
	notes = map[string][]byte{}
	span := systemKeyspace.PrefixSpan([]byte(prefix))
	var bad error
	err = n.lookupGroup(firstGroup).Store.Scan(effect.Rows.AppendKey(nil, span.Start), effect.Rows.AppendKey(nil, span.End), false, func(key, value []byte) bool {
		if bad = ctx.Err(); bad != nil {
			return false
		}
		name, _, err := systemKeyspace.Split(nil, key[1:])
		var row command.Row
		if err == nil {
			row, err = command.DecodeRow(value)
		}
		if bad = err; err == nil {
			notes[strings.TrimPrefix(string(name), prefix)] = bytes.Clone(row.Payload)
		}
		return err == nil
	})
	return notes, errors.Join(err, bad)
}

// PutUser keeps the rules of a user, durably. Empty rules forget it.
func (n *Node) PutUser(ctx context.Context, name, rules string) error {
	if err := n.PutNotes(ctx, map[string][]byte{userPrefix + name: []byte(rules)}); err != nil {
		return fmt.Errorf("keep user %q: %w", name, err)
	}
	return nil
}

// Users returns the rules of the users that are kept, by name.
func (n *Node) Users(ctx context.Context) (users map[string]string, err error) {
	notes, err := n.Notes(ctx, userPrefix)
	if err != nil {
		return nil, fmt.Errorf("read the users: %w", err)
	}
	users = make(map[string]string, len(notes))
	for name, rules := range notes {
		users[name] = string(rules)
	}
	return users, nil
}
