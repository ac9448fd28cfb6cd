package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// ErrStaleRecord means that a record of the catalog is not the one that a change
// was made from: read it again.
var ErrStaleRecord = errors.New("protocol: the record has changed")

// Catalog is where in a keyspace the map and the jobs are. Its commands are
// evaluated by the group that owns their rows, which makes each of them one step.
type Catalog struct{ Keyspace *partition.Keyspace }

// MapKey is the position of the newest map.
func (c Catalog) MapKey() partition.Position { return c.Keyspace.AppendPosition(nil, []byte("map")) }

// lastJobKey is the position of the number of the last job.
func (c Catalog) lastJobKey() partition.Position {
	return c.Keyspace.AppendPosition(nil, []byte("job"))
}

// IsFixed reports that the shard of the catalog stays where it is, so that every node knows
// where to ask.
func (c Catalog) IsFixed(s partition.Shard) bool { return s.Span.Contains(c.Keyspace.Span().Start) }

const jobPrefix = "job/"

// JobKey is the position of the record of a job.
func (c Catalog) JobKey(id ownership.JobID) partition.Position {
	return c.Keyspace.AppendPosition(nil, binary.BigEndian.AppendUint64([]byte(jobPrefix), uint64(id)))
}

// ListJobs makes the command that lists the records of all jobs.
func (c Catalog) ListJobs() *command.Range {
	s := c.Keyspace.PrefixSpan([]byte(jobPrefix))
	return &command.Range{Start: s.Start, End: s.End, Limit: 1 << 20}
}

// DecodeJobs reads the reply to Jobs.
func DecodeJobs(r command.Reply) (jobs []mover.Job, err error) {
	for _, item := range r.Items {
		j, err := mover.DecodeRecord(item.Value)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, r.Err
}

func failedReply(err error) command.Reply { return command.Reply{Kind: command.Failed, Err: err} }

// loadMap reads the map.
func (c Catalog) loadMap(e *command.Env) (*partition.Map, error) {
	r := e.Do(&command.Get{Key: c.MapKey()})
	if r.Err != nil {
		return nil, r.Err
	}
	return partition.Decode(r.Bytes)
}

// loadJob reads the record of a job.
func (c Catalog) loadJob(e *command.Env, id ownership.JobID) (mover.Job, error) {
	r := e.Do(&command.Get{Key: c.JobKey(id)})
	switch {
	case r.Err != nil:
		return mover.Job{}, r.Err
	case r.Kind == command.Nil:
		return mover.Job{}, fmt.Errorf("%w: there is no job %d", ErrStaleRecord, id)
	}
	return mover.DecodeRecord(r.Bytes)
}

// InsertFirstMap makes the command that stores the first map.
func (c Catalog) InsertFirstMap(m *partition.Map) command.Command {
	return &command.Set{Key: c.MapKey(), Value: m.Append(nil), Condition: command.IfAbsent}
}

func (c Catalog) putMap(e *command.Env, m *partition.Map) error {
	return e.Do(&command.Set{Key: c.MapKey(), Value: m.Append(nil)}).Err
}

func (c Catalog) putJob(e *command.Env, j mover.Job) error {
	return e.Do(&command.Set{Key: c.JobKey(j.ID), Value: j.AppendRecord(nil)}).Err
}

// AdmitJob is mover.Admit where the records are. Job is what was admitted.
type AdmitJob struct {
	Catalog
	Request mover.Request
	Home    func(partition.GroupID) uint64
	Failed  func(partition.GroupID) error // see mover.ClusterState
	Plan    mover.Price                   // for the record
	NowMS   int64
	Job     mover.Job
}

// Eval admits a job and keeps its record.
func (c *AdmitJob) Eval(e *command.Env) command.Reply {
	m, err := c.loadMap(e)
	if err != nil {
		return failedReply(err)
	}
	jobs, err := DecodeJobs(e.Do(c.ListJobs()))
	if err != nil {
		return failedReply(err)
	}
	id := e.Do(&command.Add{Key: c.lastJobKey(), Delta: 1})
	if id.Err != nil {
		return id
	}
	view := mover.ClusterState{Map: m, Jobs: jobs, HomeStore: c.Home, IsFixed: c.IsFixed, StoreErr: c.Failed}
	if c.Job, err = mover.Admit(view, c.Request, ownership.JobID(id.Int), c.NowMS); err != nil {
		return failedReply(err)
	}
	c.Job.Plan = c.Plan
	if err := c.putJob(e, c.Job); err != nil {
		return failedReply(err)
	}
	return command.Reply{Kind: command.Int, Int: id.Int}
}

// IsUrgent reports that it may be what frees space: to move shards off a full store begins with
// a record, which may be on that store.
func (c *AdmitJob) IsUrgent() bool { return true }

// SwapJob stores a record in the place of the one with revision Rev.
type SwapJob struct {
	Catalog
	Rev uint64
	Job mover.Job
}

// Eval compares and stores.
func (c *SwapJob) Eval(e *command.Env) command.Reply {
	was, err := c.loadJob(e, c.Job.ID)
	if err == nil && (was.Rev != c.Rev || c.Job.Rev <= c.Rev) {
		err = fmt.Errorf("%w: job %d is at %d, not %d", ErrStaleRecord, c.Job.ID, was.Rev, c.Rev)
	}
	if err == nil {
		err = c.putJob(e, c.Job)
	}
	if err != nil {
		return failedReply(err)
	}
	return command.Reply{Kind: command.OK}
}

// IsUrgent reports that a job is not to stand still for want of it.
func (c *SwapJob) IsUrgent() bool { return true }

// DecideJob is mover.Decide where the records and the map are. Job, Effects and Map
// are what it makes.
type DecideJob struct {
	Catalog
	ID      ownership.JobID
	Choose  mover.DecideJob
	NowMS   int64
	Job     mover.Job
	Effects []mover.Effect
	Map     *partition.Map
}

// Eval decides, and keeps record and map.
func (c *DecideJob) Eval(e *command.Env) command.Reply {
	was, err := c.loadJob(e, c.ID)
	if err != nil {
		return failedReply(err)
	}
	m, err := c.loadMap(e)
	if err != nil {
		return failedReply(err)
	}
	next, made, effects, err := mover.Decide(was, c.Choose, m, c.NowMS)
	if err == nil {
		err = c.putJob(e, next)
	}
	if err == nil && made != m {
		err = c.putMap(e, made)
	}
	if err != nil {
		return failedReply(err)
	}
	c.Job, c.Effects, c.Map = next, effects, made
	return command.Reply{Kind: command.Int, Int: int64(made.Version())}
}

// IsUrgent reports that a job is not to stand still for want of it.
func (c *DecideJob) IsUrgent() bool { return true }

// Positions that are not in use are given to groups without a job: a [BeginPlacing] records what
// is to be, the groups are brought in line with it, and [FinishPlacing] makes it the map. The
// caller of both lets no other change of the map in between.

// PlacingKey is the position of a map that groups are being brought in line with.
func (c Catalog) PlacingKey() partition.Position {
	return c.Keyspace.AppendPosition(nil, []byte("placing"))
}

// BeginPlacing notes a map that is to be, which differs from that of version Base in some
// spans. With is done as one with it.
type BeginPlacing struct {
	Catalog
	BaseVersion partition.Version
	Spans       []partition.Span
	Map         *partition.Map
	Commands    []command.Command
	// ReclaimsSpace means that it frees space in the end.
	ReclaimsSpace bool
}

// IsUrgent reports whether a full disk is no reason to refuse it.
func (c *BeginPlacing) IsUrgent() bool { return c.ReclaimsSpace }

// Eval notes the map, unless another was made meanwhile, or a job is at work in
// one of the spans.
func (c *BeginPlacing) Eval(e *command.Env) command.Reply {
	m, err := c.loadMap(e)
	if err != nil {
		return failedReply(err)
	}
	if m.Version() != c.BaseVersion {
		return failedReply(fmt.Errorf("%w: the map is at %d, not %d", ErrStaleRecord, m.Version(), c.BaseVersion))
	}
	jobs, err := DecodeJobs(e.Do(c.ListJobs()))
	if err != nil {
		return failedReply(err)
	}
	for _, s := range c.Spans {
		if err := mover.CheckBusy(jobs, s); err != nil {
			return failedReply(err)
		}
	}
	return evalAll(e, append(c.Commands, &command.Set{Key: c.PlacingKey(), Value: c.Map.Append(nil)}))
}

// FinishPlacing makes a map that was noted the newest. With is done as one with it.
type FinishPlacing struct {
	Catalog
	Map      *partition.Map
	Commands []command.Command
}

// Eval stores the map, unless a newer one is there, and forgets the note.
func (c *FinishPlacing) Eval(e *command.Env) command.Reply {
	m, err := c.loadMap(e)
	if err != nil {
		return failedReply(err)
	}
	if c.Map.Version() > m.Version() {
		if err := c.putMap(e, c.Map); err != nil {
			return failedReply(err)
		}
	}
	return evalAll(e, append(c.Commands, &command.Delete{Keys: []partition.Position{c.PlacingKey()}}))
}

// IsUrgent reports that no other map is made before: the [BeginPlacing] found space.
func (c *FinishPlacing) IsUrgent() bool { return true }

// evalAll does commands until one fails.
func evalAll(e *command.Env, commands []command.Command) command.Reply {
	for _, x := range commands {
		if r := e.Do(x); r.Err != nil {
			return r
		}
	}
	return command.Reply{Kind: command.OK}
}
