package drive

import (
	"fmt"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/partition"
)

// Positions that nobody uses are given to groups without a job: a [Note] says
// what is to be, the groups are brought in line with it, and [Adopt] makes it the
// map. Whoever keeps the catalog lets nobody else change the map in between.

// Placing is the position of a map that groups are being brought in line with.
func (c Catalog) Placing() partition.Position {
	return c.Space.AppendPosition(nil, []byte("placing"))
}

// Note notes a map that is to be, which differs from that of version Base in some
// spans. With is done as one with it.
type Note struct {
	Catalog
	Base  partition.Version
	Spans []partition.Span
	Map   *partition.Map
	With  []command.Command
	// Frees tells that it gives room back in the end.
	Frees bool
}

// Urgent tells whether a full disk is no reason to refuse it.
func (c *Note) Urgent() bool { return c.Frees }

// Eval notes the map, unless another was made meanwhile, or a job is at work in
// one of the spans.
func (c *Note) Eval(e *command.Env) command.Reply {
	m, err := c.loadMap(e)
	if err != nil {
		return failed(err)
	}
	if m.Version() != c.Base {
		return failed(fmt.Errorf("%w: the map is at %d, not %d", ErrOvertaken, m.Version(), c.Base))
	}
	jobs, err := Records(e.Do(c.Jobs()))
	if err != nil {
		return failed(err)
	}
	for _, s := range c.Spans {
		if err := mover.Busy(jobs, s); err != nil && !plant.Bug("drive-placed-over-a-job") {
			return failed(err)
		}
	}
	return all(e, append(c.With, &command.Set{Key: c.Placing(), Value: c.Map.Append(nil)}))
}

// Adopt makes a map that was noted the newest. With is done as one with it.
type Adopt struct {
	Catalog
	Map  *partition.Map
	With []command.Command
}

// Eval stores the map, unless a newer one is there, and forgets the note.
func (c *Adopt) Eval(e *command.Env) command.Reply {
	m, err := c.loadMap(e)
	if err != nil {
		return failed(err)
	}
	if c.Map.Version() > m.Version() {
		if err := c.keepMap(e, c.Map); err != nil {
			return failed(err)
		}
	}
	return all(e, append(c.With, &command.Delete{Keys: []partition.Position{c.Placing()}}))
}

// Urgent tells that no other map is made before: the [Note] found room.
func (c *Adopt) Urgent() bool { return true }

// all does commands until one fails.
func all(e *command.Env, commands []command.Command) command.Reply {
	for _, x := range commands {
		if r := e.Do(x); r.Err != nil {
			return r
		}
	}
	return command.Reply{Kind: command.OK}
}
