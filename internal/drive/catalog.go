package drive

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

// ErrOvertaken means that a record of the catalog is not the one that a change
// was made from: read it again.
var ErrOvertaken = errors.New("drive: the record has changed")

// Catalog says where in a keyspace the map and the jobs are. Its commands are
// evaluated by the group that owns their rows, which makes each of them one step.
type Catalog struct{ Space *partition.Keyspace }

// Map is the position of the newest map.
func (c Catalog) Map() partition.Position { return c.Space.AppendPosition(nil, []byte("map")) }

// next is the position of the number of the last job.
func (c Catalog) next() partition.Position { return c.Space.AppendPosition(nil, []byte("job")) }

// Fixed tells that the shard of the catalog stays where it is, so that everybody
// knows where to ask.
func (c Catalog) Fixed(s partition.Shard) bool { return s.Span.Contains(c.Space.Span().Start) }

const jobPrefix = "job/"

// Job is the position of the record of a job.
func (c Catalog) Job(id own.Job) partition.Position {
	return c.Space.AppendPosition(nil, binary.BigEndian.AppendUint64([]byte(jobPrefix), uint64(id)))
}

// Jobs makes the command that lists the records of all jobs.
func (c Catalog) Jobs() *command.Range {
	s := c.Space.PrefixSpan([]byte(jobPrefix))
	return &command.Range{Start: s.Start, End: s.End, Limit: 1 << 20}
}

// Records reads the reply to Jobs.
func Records(r command.Reply) (jobs []mover.Job, err error) {
	for _, item := range r.Items {
		j, err := mover.Decode(item.Value)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, r.Err
}

func failed(err error) command.Reply { return command.Reply{Kind: command.Failed, Err: err} }

// loadMap reads the map.
func (c Catalog) loadMap(e *command.Env) (*partition.Map, error) {
	r := e.Do(&command.Get{Key: c.Map()})
	if r.Err != nil {
		return nil, r.Err
	}
	return partition.Decode(r.Bytes)
}

// loadJob reads the record of a job.
func (c Catalog) loadJob(e *command.Env, id own.Job) (mover.Job, error) {
	r := e.Do(&command.Get{Key: c.Job(id)})
	switch {
	case r.Err != nil:
		return mover.Job{}, r.Err
	case r.Kind == command.Nil:
		return mover.Job{}, fmt.Errorf("%w: there is no job %d", ErrOvertaken, id)
	}
	return mover.Decode(r.Bytes)
}

// FirstMap makes the command that stores the first map.
func (c Catalog) FirstMap(m *partition.Map) command.Command {
	return &command.Set{Key: c.Map(), Value: m.Append(nil), If: command.IfAbsent}
}

func (c Catalog) keepMap(e *command.Env, m *partition.Map) error {
	return e.Do(&command.Set{Key: c.Map(), Value: m.Append(nil)}).Err
}

func (c Catalog) keepJob(e *command.Env, j mover.Job) error {
	return e.Do(&command.Set{Key: c.Job(j.ID), Value: j.Append(nil)}).Err
}

// Admit is mover.Admit where the records are. Job is what was admitted.
type Admit struct {
	Catalog
	Request mover.Request
	Home    func(partition.GroupID) uint64
	Failed  func(partition.GroupID) error // see mover.View
	Plan    mover.Price                   // for the record
	NowMS   int64
	Job     mover.Job
}

// Eval admits a job and keeps its record.
func (c *Admit) Eval(e *command.Env) command.Reply {
	m, err := c.loadMap(e)
	if err != nil {
		return failed(err)
	}
	jobs, err := Records(e.Do(c.Jobs()))
	if err != nil {
		return failed(err)
	}
	id := e.Do(&command.Add{Key: c.next(), Delta: 1})
	if id.Err != nil {
		return id
	}
	view := mover.View{Map: m, Jobs: jobs, Home: c.Home, Fixed: c.Fixed, Failed: c.Failed}
	if c.Job, err = mover.Admit(view, c.Request, own.Job(id.Int), c.NowMS); err != nil {
		return failed(err)
	}
	c.Job.Plan = c.Plan
	if err := c.keepJob(e, c.Job); err != nil {
		return failed(err)
	}
	return command.Reply{Kind: command.Int, Int: id.Int}
}

// Urgent tells that it may be what makes room: who moves shards off a full store begins
// with a record, which may be on that store.
func (c *Admit) Urgent() bool { return true }

// Swap stores a record in the place of the one with revision Rev.
type Swap struct {
	Catalog
	Rev uint64
	Job mover.Job
}

// Eval compares and stores.
func (c *Swap) Eval(e *command.Env) command.Reply {
	was, err := c.loadJob(e, c.Job.ID)
	if err == nil && (was.Rev != c.Rev || c.Job.Rev <= c.Rev) {
		err = fmt.Errorf("%w: job %d is at %d, not %d", ErrOvertaken, c.Job.ID, was.Rev, c.Rev)
	}
	if err == nil {
		err = c.keepJob(e, c.Job)
	}
	if err != nil {
		return failed(err)
	}
	return command.Reply{Kind: command.OK}
}

// Urgent tells that a job is not to stand still for want of it.
func (c *Swap) Urgent() bool { return true }

// Choose is mover.Decide where the records and the map are. Job, Effects and Map
// are what it makes.
type Choose struct {
	Catalog
	ID      own.Job
	Choose  mover.Choose
	NowMS   int64
	Job     mover.Job
	Effects []mover.Effect
	Map     *partition.Map
}

// Eval decides, and keeps record and map.
func (c *Choose) Eval(e *command.Env) command.Reply {
	was, err := c.loadJob(e, c.ID)
	if err != nil {
		return failed(err)
	}
	m, err := c.loadMap(e)
	if err != nil {
		return failed(err)
	}
	next, made, effects, err := mover.Decide(was, c.Choose, m, c.NowMS)
	if err == nil {
		err = c.keepJob(e, next)
	}
	if err == nil && made != m {
		err = c.keepMap(e, made)
	}
	if err != nil {
		return failed(err)
	}
	c.Job, c.Effects, c.Map = next, effects, made
	return command.Reply{Kind: command.Int, Int: int64(made.Version())}
}

// Urgent tells that a job is not to stand still for want of it.
func (c *Choose) Urgent() bool { return true }
