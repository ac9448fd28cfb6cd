package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/partition"
)

// Job is a job for its observers. Records of jobs are forgotten some time after their end; the
// driver notifies each Job, which keeps the result for ever.
type Job struct {
	ID         ownership.JobID
	node       *Node
	completion *jobCompletion
}

// jobCompletion is how a job has ended.
type jobCompletion struct {
	done   chan struct{} // closed when it has
	record mover.Job     // from then on
}

func newJobCompletion() *jobCompletion { return &jobCompletion{done: make(chan struct{})} }

func (e *jobCompletion) completeWith(j mover.Job) {
	e.record = j
	close(e.done)
}

// isDone reports whether the job has ended.
func (e *jobCompletion) isDone() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// Job returns a job by its number, or ErrNoJob.
func (n *Node) Job(ctx context.Context, id ownership.JobID) (*Job, error) {
	for {
		changed := n.jobs.changed.subscribe()
		record, err := n.loadJob(ctx, id)
		if err != nil {
			return nil, err
		}
		j := &Job{ID: id, node: n, completion: n.findCompletion(id)}
		switch {
		case j.completion != nil:
			return j, nil
		case record.Phase.IsFinal():
			j.completion = newJobCompletion()
			j.completion.completeWith(record)
			return j, nil
		}
		// It is just being begun, or has just ended.
		if err := errors.Join(n.CheckOpen(), waitContext(ctx, changed, retryPause)); err != nil {
			return nil, err
		}
	}
}

// findCompletion returns the ending of a job that is driven, else nil.
func (n *Node) findCompletion(id ownership.JobID) *jobCompletion {
	n.jobs.mu.Lock()
	defer n.jobs.mu.Unlock()
	if d := n.jobs.drivers[id]; d != nil {
		return d.completion
	}
	return nil
}

// Record returns how far the job has come.
func (j *Job) Record(ctx context.Context) (mover.Job, error) {
	if !j.completion.isDone() {
		record, err := j.node.loadJob(ctx, j.ID)
		if !errors.Is(err, ErrNoJob) {
			return record, err
		}
	}
	return j.Wait(ctx) // it has ended, or its record were there
}

// Wait returns when the job has ended, with its last record.
func (j *Job) Wait(ctx context.Context) (mover.Job, error) {
	if !j.completion.isDone() {
		select {
		case <-j.completion.done:
		case <-ctx.Done():
			return mover.Job{}, ctx.Err()
		case <-j.node.ctx.Done():
			return mover.Job{}, group.ErrClosed
		}
	}
	return j.completion.record, nil
}

// Control changes the record, as mover.Pause and the like do.
func (j *Job) Control(ctx context.Context, f func(j mover.Job, nowMS int64) (mover.Job, error)) error {
	err := j.node.ControlJob(ctx, j.ID, f)
	if !errors.Is(err, ErrNoJob) {
		return err
	}
	last, err := j.Wait(ctx)
	if err == nil {
		_, err = f(last, j.node.jobNowMS()) // the error is that it is too late
	}
	return err
}

// jobRegistry has the jobs that change the map: splits, merges, moves and what is made of them.
// Their records in the catalog are the truth; here are their drivers.
type jobRegistry struct {
	// changed rings when a job has begun, ended, or was interfered with.
	changed notifier
	mu      sync.Mutex
	drivers map[ownership.JobID]*jobDriver
	// backupLock is shared by drivers while they work, from a freeze to its end without a break,
	// and by the making of a keyspace; a backup has it alone. It is locked before
	// keyspaceCatalog.mapMu.
	backupLock ctxRWMutex
	rates      jobRates
	sizes      sizeCache
	// start and startMS are a time by both clocks. The machine's may be turned;
	// how long a range is frozen must not depend on that.
	start   time.Time
	startMS int64
}

// jobNowMS is the time of jobs, in Unix milliseconds.
func (n *Node) jobNowMS() int64 { return n.jobs.startMS + time.Since(n.jobs.start).Milliseconds() }

// maxEndedJobs is how many jobs that have ended are remembered.
const maxEndedJobs = 100

// resumeJobs goes on with what was not ended when the node was closed, or crashed.
func (n *Node) resumeJobs(ctx context.Context) error {
	n.jobs.start = time.Now()
	n.jobs.startMS = n.jobs.start.UnixMilli()
	n.jobs.drivers = map[ownership.JobID]*jobDriver{}
	records, err := n.loadJobs(ctx)
	if err != nil {
		return err
	}
	for _, j := range records {
		if !j.Phase.IsFinal() {
			n.jobs.startMS = max(n.jobs.startMS, j.ChangedMS)
		}
	}
	for _, j := range records {
		if !j.Phase.IsFinal() {
			n.events.newJobLogger(&j).Info("job resumed", "phase", j.Phase)
			n.startDriver(j)
		}
	}
	return nil
}

// surveyCluster returns what is known when a job is admitted or surveyed.
func (n *Node) surveyCluster(ctx context.Context) (mover.ClusterState, error) {
	m, err := n.loadNewestMap(ctx)
	if err != nil {
		return mover.ClusterState{}, err
	}
	records, err := n.loadJobs(ctx)
	if err != nil {
		return mover.ClusterState{}, err
	}
	v := mover.ClusterState{
		Map: m, HomeStore: homeStores(m), SplitPoint: n.SplitPoint, IsFixed: catalogKeys.IsFixed, StoreErr: n.storeFailures(),
		Jobs: slices.DeleteFunc(records, func(j mover.Job) bool { return j.Phase.IsFinal() }),
	}
	v.ShardSize, err = n.ShardSizes(ctx, m, sizeTTL)
	return v, err
}

// storeFailures returns which groups are on stores that have failed, and why, for the mover.
func (n *Node) storeFailures() func(partition.GroupID) error {
	why := make([]error, len(n.storeHosts))
	for i, h := range n.storeHosts {
		why[i] = h.failureCause()
	}
	return func(id partition.GroupID) error {
		if p := n.lookupGroup(id); p != nil {
			return why[p.Host.index]
		}
		return nil // it is about to be opened, or was removed
	}
}

// homeStores names the store of each group of a map, for the mover.
func homeStores(m *partition.Map) func(partition.GroupID) uint64 {
	return func(id partition.GroupID) uint64 { return uint64(StoreOf(m, id)) }
}

// PlanJob returns what a job would cost, or why it is refused. Nothing changes.
func (n *Node) PlanJob(ctx context.Context, r mover.Request) (mover.Price, error) {
	v, err := n.surveyCluster(ctx)
	if err != nil {
		return mover.Price{}, err
	}
	if err := n.completeRequest(&r, v.Map); err != nil {
		return mover.Price{}, err
	}
	known, next := v.HomeStore, v.Map.NextGroup()
	v.HomeStore = func(id partition.GroupID) uint64 {
		if i := int(id) - int(next); i >= 0 && i < len(r.Labels) {
			return uint64(parseStoreLabel(partition.Group{Labels: r.Labels[i]}))
		}
		return known(id)
	}
	return mover.Plan(v, r, n.jobs.rates.currentRates())
}

// StartJob admits a job, durably, and begins with it.
func (n *Node) StartJob(ctx context.Context, r mover.Request) (*Job, error) {
	var price mover.Price
	switch r.Kind {
	case mover.Move, mover.Drain, mover.Regroup: // the others copy nothing
		var err error
		if price, err = n.PlanJob(ctx, r); err != nil {
			return nil, err
		}
	}
	return n.admitJob(ctx, r, price)
}

func (n *Node) admitJob(ctx context.Context, r mover.Request, price mover.Price) (*Job, error) {
	if err := errors.Join(ctx.Err(), n.CheckOpen()); err != nil {
		return nil, err
	}
	n.mapMu.Lock()
	defer n.mapMu.Unlock()
	m, err := n.loadStableMap(ctx)
	if err != nil {
		return nil, err
	}
	if err := n.completeRequest(&r, m); err != nil {
		return nil, err
	}
	c := &protocol.AdmitJob{Catalog: catalogKeys, Request: r, Home: homeStores(m), Failed: n.storeFailures(), Plan: price, NowMS: n.jobNowMS()}
	begun := time.Now()
	if err := n.writeCatalog(ctx, c); err != nil {
		return nil, err
	}
	n.jobs.rates.recordRound(time.Since(begun))
	n.events.reportJobStarted(&c.Job)
	j := &Job{ID: c.Job.ID, node: n, completion: n.startDriver(c.Job)}
	n.jobs.changed.notify()
	return j, nil
}

// completeRequest fills in what a request leaves to the node: on which stores groups are
// added. Each goes where there are fewest.
func (n *Node) completeRequest(r *mover.Request, m *partition.Map) error {
	if r.Kind != mover.Regroup {
		return nil
	}
	if least := len(n.storeHosts); r.Groups < least || r.Groups > maxGroups {
		return fmt.Errorf("%w: Groups is %d: use %d to %d, no fewer than there are stores", mover.ErrBadRequest, r.Groups, least, maxGroups)
	}
	count := make([]int, len(n.storeHosts))
	for _, g := range m.Groups() {
		count[StoreOf(m, g.ID)]++
	}
	r.Labels = nil
	for range r.Groups - len(m.Groups()) {
		i := slices.Index(count, slices.Min(count))
		if err := n.storeHosts[i].failureCause(); err != nil {
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

// CheckOpen returns group.ErrClosed if the node is.
func (n *Node) CheckOpen() error {
	if n.ctx.Err() != nil {
		return group.ErrClosed
	}
	return nil
}

// Jobs returns the jobs that are under way, and the last that have ended.
func (n *Node) Jobs(ctx context.Context) ([]mover.Job, error) { return n.loadJobs(ctx) }

// JobsUnderWay returns the jobs that have not ended. It reads nothing while there are none, so that one may ask often.
func (n *Node) JobsUnderWay(ctx context.Context) (jobs []mover.Job, err error) {
	n.jobs.mu.Lock()
	ids := slices.Sorted(maps.Keys(n.jobs.drivers))
	n.jobs.mu.Unlock()
	for _, id := range ids {
		j, err := n.loadJob(ctx, id)
		switch {
		case errors.Is(err, ErrNoJob) || err == nil && j.Phase.IsFinal():
			continue // it has just ended
		case err != nil:
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// ControlJob changes the record of a job, as mover.Pause and the like do.
func (n *Node) ControlJob(ctx context.Context, id ownership.JobID, f func(j mover.Job, nowMS int64) (mover.Job, error)) error {
	for {
		j, err := n.loadJob(ctx, id)
		if err != nil {
			return err
		}
		next, err := f(j, n.jobNowMS())
		if err != nil || next.Rev == j.Rev {
			return err
		}
		err = n.writeCatalog(ctx, &protocol.SwapJob{Catalog: catalogKeys, Rev: j.Rev, Job: next})
		if errors.Is(err, protocol.ErrStaleRecord) {
			continue // it has gone on: look again
		}
		if err == nil {
			n.events.reportJobControl(&j, &next)
		}
		n.wakeDriver(id)
		n.jobs.changed.notify()
		return err
	}
}

// trimJobs removes the records of jobs that ended long ago, when one has ended.
func (n *Node) trimJobs(ctx context.Context, ended ownership.JobID) error {
	records, err := n.loadJobs(ctx)
	if err != nil {
		return err
	}
	records = slices.DeleteFunc(records, func(j mover.Job) bool {
		driven := j.ID != ended && n.findCompletion(j.ID) != nil // and its driver has to see how it has ended
		return !j.Phase.IsFinal() || driven
	})
	slices.SortStableFunc(records, func(a, b mover.Job) int { return cmp.Compare(a.EndedMS, b.EndedMS) })
	var keys []partition.Position
	for _, j := range records[:max(len(records)-maxEndedJobs, 0)] {
		keys = append(keys, catalogKeys.JobKey(j.ID))
	}
	if len(keys) == 0 {
		return nil
	}
	return n.writeCatalog(ctx, &command.Delete{Keys: keys})
}
