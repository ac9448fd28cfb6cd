package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/partition"
)

// jobs are what changes the map: splits, merges, moves and what is made of them.
// Their records in the catalog are the truth; here is who drives them.
type jobs struct {
	// changed rings when a job has begun, ended, or was interfered with.
	changed bell
	mu      sync.Mutex
	drivers map[own.Job]*driver
	// quiet is shared by drivers while they do something, from a freeze to the end of
	// it without a break, and by whoever makes a keyspace; a backup has it alone. It
	// comes before spaces.mapping.
	quiet calm
	rates rates
	sizes sizes
	// start and startMS are a time by both clocks. The machine's may be turned;
	// how long a range is frozen must not depend on that.
	start   time.Time
	startMS int64
}

// jobMS is the time of jobs, in Unix milliseconds.
func (n *Node) jobMS() int64 { return n.jobs.startMS + time.Since(n.jobs.start).Milliseconds() }

// keptJobs is how many jobs that have ended are remembered.
const keptJobs = 100

// resumeJobs goes on with what was not ended when the node was closed, or crashed.
func (n *Node) resumeJobs(ctx context.Context) error {
	n.jobs.start = time.Now()
	n.jobs.startMS = n.jobs.start.UnixMilli()
	n.jobs.drivers = map[own.Job]*driver{}
	records, err := n.records(ctx)
	if err != nil {
		return err
	}
	for _, j := range records {
		if !j.Phase.Final() {
			n.jobs.startMS = max(n.jobs.startMS, j.ChangedMS)
		}
	}
	for _, j := range records {
		if !j.Phase.Final() {
			n.drive(j)
		}
	}
	return nil
}

// survey returns what is known when a job is admitted or surveyed.
func (n *Node) survey(ctx context.Context) (mover.View, error) {
	m, err := n.newestMap(ctx)
	if err != nil {
		return mover.View{}, err
	}
	records, err := n.records(ctx)
	if err != nil {
		return mover.View{}, err
	}
	v := mover.View{
		Map: m, Home: homes(m), Middle: n.Middle, Fixed: meta.Fixed, Failed: n.failures(),
		Jobs: slices.DeleteFunc(records, func(j mover.Job) bool { return j.Phase.Final() }),
	}
	v.Sizes, err = n.Sizes(ctx, m, sizesFor)
	return v, err
}

// failures tells which groups are on stores that have failed, and why, for the mover.
func (n *Node) failures() func(partition.GroupID) error {
	why := make([]error, len(n.hosts))
	for i, h := range n.hosts {
		why[i] = h.why()
	}
	return func(id partition.GroupID) error {
		if p := n.part(id); p != nil {
			return why[p.Host.index]
		}
		return nil // it is about to be opened, or was removed
	}
}

// homes names the store of each group of a map, for the mover.
func homes(m *partition.Map) func(partition.GroupID) uint64 {
	return func(id partition.GroupID) uint64 { return uint64(StoreOf(m, id)) }
}

// PlanJob returns what a job would cost, or why it is refused. Nothing changes.
func (n *Node) PlanJob(ctx context.Context, r mover.Request) (mover.Price, error) {
	v, err := n.survey(ctx)
	if err != nil {
		return mover.Price{}, err
	}
	if err := n.complete(&r, v.Map); err != nil {
		return mover.Price{}, err
	}
	known, next := v.Home, v.Map.NextGroup()
	v.Home = func(id partition.GroupID) uint64 {
		if i := int(id) - int(next); i >= 0 && i < len(r.Labels) {
			return uint64(storeOf(partition.Group{Labels: r.Labels[i]}))
		}
		return known(id)
	}
	return mover.Plan(v, r, n.jobs.rates.now())
}

// StartJob admits a job, durably, and begins with it.
func (n *Node) StartJob(ctx context.Context, r mover.Request) (*Job, error) {
	var price mover.Price
	switch r.Kind {
	case mover.Move, mover.Drain, mover.Regroup: // the others carry nothing
		var err error
		if price, err = n.PlanJob(ctx, r); err != nil {
			return nil, err
		}
	}
	return n.admitJob(ctx, r, price)
}

func (n *Node) admitJob(ctx context.Context, r mover.Request, price mover.Price) (*Job, error) {
	if err := errors.Join(ctx.Err(), n.Closed()); err != nil {
		return nil, err
	}
	n.mapping.Lock()
	defer n.mapping.Unlock()
	m, err := n.settled(ctx)
	if err != nil {
		return nil, err
	}
	if err := n.complete(&r, m); err != nil {
		return nil, err
	}
	c := &drive.Admit{Catalog: meta, Request: r, Home: homes(m), Failed: n.failures(), Plan: price, NowMS: n.jobMS()}
	begun := time.Now()
	if err := n.enter(ctx, c); err != nil {
		return nil, err
	}
	n.jobs.rates.round(time.Since(begun))
	j := &Job{ID: c.Job.ID, n: n, end: n.drive(c.Job)}
	n.jobs.changed.ring()
	return j, nil
}

// complete fills in what a request leaves to the node: on which stores groups are
// added. Each goes where there are fewest.
func (n *Node) complete(r *mover.Request, m *partition.Map) error {
	if r.Kind != mover.Regroup {
		return nil
	}
	if least := len(n.hosts); r.Groups < least || r.Groups > maxGroups {
		return fmt.Errorf("%w: Groups is %d: use %d to %d, no fewer than there are stores", mover.ErrRequest, r.Groups, least, maxGroups)
	}
	count := make([]int, len(n.hosts))
	for _, g := range m.Groups() {
		count[StoreOf(m, g.ID)]++
	}
	r.Labels = nil
	for range r.Groups - len(m.Groups()) {
		i := slices.Index(count, slices.Min(count))
		if err := n.hosts[i].why(); err != nil {
			return fmt.Errorf("store %d would have another group: %w", i, err)
		}
		count[i]++
		labels, err := partition.ParseLabels(fmt.Sprintf("%s=%d", storeLabel, i))
		if err != nil {
			return err
		}
		r.Labels = append(r.Labels, labels)
	}
	return nil
}

// Closed returns group.ErrClosed if the node is.
func (n *Node) Closed() error {
	if n.ctx.Err() != nil {
		return group.ErrClosed
	}
	return nil
}

// Jobs returns the jobs that are under way, and the last that have ended.
func (n *Node) Jobs(ctx context.Context) ([]mover.Job, error) { return n.records(ctx) }

// ControlJob changes the record of a job, as mover.Pause and the like do.
func (n *Node) ControlJob(ctx context.Context, id own.Job, f func(j mover.Job, nowMS int64) (mover.Job, error)) error {
	for {
		j, err := n.record(ctx, id)
		if err != nil {
			return err
		}
		next, err := f(j, n.jobMS())
		if err != nil || next.Rev == j.Rev {
			return err
		}
		err = n.enter(ctx, &drive.Swap{Catalog: meta, Rev: j.Rev, Job: next})
		if errors.Is(err, drive.ErrOvertaken) {
			continue // it has gone on: look again
		}
		n.wake(id)
		n.jobs.changed.ring()
		return err
	}
}

// forgetJobs removes the records of jobs that ended long ago, when one has ended.
func (n *Node) forgetJobs(ctx context.Context, ended own.Job) error {
	records, err := n.records(ctx)
	if err != nil {
		return err
	}
	records = slices.DeleteFunc(records, func(j mover.Job) bool {
		driven := j.ID != ended && n.endingOf(j.ID) != nil // and its driver has to see how it has ended
		return !j.Phase.Final() || driven
	})
	slices.SortStableFunc(records, func(a, b mover.Job) int { return cmp.Compare(a.EndedMS, b.EndedMS) })
	var keys []partition.Position
	for _, j := range records[:max(len(records)-keptJobs, 0)] {
		keys = append(keys, meta.Job(j.ID))
	}
	if len(keys) == 0 {
		return nil
	}
	return n.enter(ctx, &command.Delete{Keys: keys})
}
