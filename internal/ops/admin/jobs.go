package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
)

// toJob is a job of the store as clients see it.
func toJob(s cleave.JobStatus, now time.Time) api.Job {
	price := toPrice(s.Expected)
	j := api.Job{
		ID: strconv.FormatUint(uint64(s.ID), 10), Kind: s.Kind, State: s.State.String(), Phase: s.Phase,
		Shard: uint64(s.Shard), From: uint64(s.From), To: uint64(s.To), Why: s.Why, Expected: &price,
		Rows: s.Rows, Bytes: s.Bytes, Children: s.Children, PauseSeconds: s.Pause.Seconds(), PauseTotalSeconds: s.PauseTotal.Seconds(),
		LimitBytesPerSecond: s.BytesPerSecond, Created: s.Created.UTC(), Changed: s.Changed.UTC(),
	}
	if s.Parent != 0 {
		j.Parent = strconv.FormatUint(uint64(s.Parent), 10)
	}
	if !s.Ended.IsZero() {
		ended := s.Ended.UTC()
		j.Ended = &ended
	}
	estimateProgress(&j, now)
	return j
}

// estimateProgress sets how far a job has come, and how long it will take at this rate.
func estimateProgress(j *api.Job, now time.Time) {
	until := now
	if j.Ended != nil {
		until = *j.Ended
	}
	if took := until.Sub(j.Created).Seconds(); took > 0 {
		j.RateBytesPerSecond = float64(j.Bytes) / took
	}
	switch {
	case j.State == api.JobDone:
		j.Progress = 1
		return
	case j.Expected == nil || j.Expected.Bytes == 0:
		return
	}
	j.Progress = min(0.99, float64(j.Bytes)/float64(j.Expected.Bytes)) // what is written meanwhile comes on top
	if left := float64(j.Expected.Bytes) - float64(j.Bytes); j.State == api.JobRunning && j.RateBytesPerSecond > 0 {
		eta := max(0, left) / j.RateBytesPerSecond
		j.ETASeconds = &eta
	}
}

// loadJobs are all jobs, the oldest first.
func (a *Admin) loadJobs(ctx context.Context) ([]api.Job, error) {
	jobs, err := a.o.DB.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	all := a.serverJobs.listJobs()
	now := a.o.Now()
	for _, s := range jobs {
		all = append(all, toJob(withChildTotals(s, jobs), now))
	}
	slices.SortStableFunc(all, func(x, y api.Job) int { return x.Created.Compare(y.Created) })
	return all, nil
}

func (a *Admin) listJobs(ctx context.Context, q *query) (api.Page[api.Job], error) {
	if s := q.getString(api.QueryState); q.has(api.QueryState) &&
		!slices.Contains([]string{api.JobRunning, api.JobPaused, api.JobUndoing, api.JobDone, api.JobUndone, api.JobFailed}, s) {
		return api.Page[api.Job]{}, newInvalidError("there is no state "+strconv.Quote(s), "jobs are running, paused, undoing, done, undone or failed")
	}
	all, err := a.loadJobs(ctx)
	if err != nil {
		return api.Page[api.Job]{}, err
	}
	all = slices.DeleteFunc(all, func(j api.Job) bool { return q.has(api.QueryState) && j.State != q.getString(api.QueryState) })
	return cutPage(q, all, byIndex[api.Job], false)
}

func (a *Admin) getJob(ctx context.Context, q *query) (api.Job, error) {
	if j, ok := a.serverJobs.findJob(q.id); ok {
		return j, nil
	}
	job, err := a.findJob(ctx, q)
	if err != nil {
		return api.Job{}, err
	}
	one, err := a.toStoreJob(ctx, job)
	if err != nil {
		return api.Job{}, err
	}
	return *one, nil
}

// loadStoreJob is a job of the store.
func (a *Admin) loadStoreJob(ctx context.Context, id cleave.JobID) (*api.Job, error) {
	job, err := a.o.DB.Job(ctx, id)
	if err != nil {
		return nil, err
	}
	return a.toStoreJob(ctx, job)
}

func (a *Admin) toStoreJob(ctx context.Context, job *cleave.Job) (*api.Job, error) {
	s, err := job.Status(ctx)
	if err != nil {
		return nil, err
	}
	if s.Children > 0 {
		jobs, err := a.o.DB.Jobs(ctx)
		if err != nil {
			return nil, err
		}
		s = withChildTotals(s, jobs)
	}
	one := toJob(s, a.o.Now())
	return &one, nil
}

// withChildTotals is a job with what those that it has begun have carried, if it is done by
// others. It counts them when they have ended, and not all of those are remembered.
func withChildTotals(s cleave.JobStatus, jobs []cleave.JobStatus) cleave.JobStatus {
	var rows, bytes uint64
	for i := range jobs {
		if jobs[i].Parent == s.ID {
			rows, bytes = rows+jobs[i].Rows, bytes+jobs[i].Bytes
		}
	}
	s.Rows, s.Bytes = max(s.Rows, rows), max(s.Bytes, bytes)
	return s
}

// findJob is the job of the store that the path names.
func (a *Admin) findJob(ctx context.Context, q *query) (*cleave.Job, error) {
	id, err := strconv.ParseUint(q.id, 10, 63)
	if err != nil {
		return nil, notFoundError("there is no job "+strconv.Quote(q.id), "list the jobs")
	}
	return a.o.DB.Job(ctx, cleave.JobID(id))
}

// planJobControl plans something that is done to a job of the store.
func (a *Admin) planJobControl(ctx context.Context, q *query, summary string, f func(ctx context.Context, j *cleave.Job) error) (*plannedChange, error) {
	if j, ok := a.serverJobs.findJob(q.id); ok {
		return nil, newRefusedError(fmt.Sprintf("job %s is a %s, which can only be cancelled", j.ID, j.Kind), "")
	}
	job, err := a.findJob(ctx, q)
	if err != nil {
		return nil, err
	}
	s, err := job.Status(ctx)
	if err != nil {
		return nil, err
	}
	if !s.Ended.IsZero() {
		return nil, cleave.ErrJobEnded
	}
	return &plannedChange{
		plan: api.Plan{Summary: summary + " job " + q.id + ", a " + s.Kind},
		apply: func(ctx context.Context) (*api.Job, error) {
			if err := f(ctx, job); err != nil {
				return nil, err
			}
			s, err := job.Status(ctx)
			if err != nil {
				return nil, nil // it was done, even if its state is unknown
			}
			one := toJob(s, a.o.Now())
			return &one, nil
		},
	}, nil
}

func (a *Admin) planPauseJob(ctx context.Context, q *query, _ api.Nothing) (*plannedChange, error) {
	return a.planJobControl(ctx, q, "pause", func(ctx context.Context, j *cleave.Job) error { return j.Pause(ctx) })
}

func (a *Admin) planResumeJob(ctx context.Context, q *query, _ api.Nothing) (*plannedChange, error) {
	return a.planJobControl(ctx, q, "resume", func(ctx context.Context, j *cleave.Job) error { return j.Resume(ctx) })
}

func (a *Admin) planCancelJob(ctx context.Context, q *query, _ api.Nothing) (*plannedChange, error) {
	if j, ok := a.serverJobs.findJob(q.id); ok {
		if j.HasEnded() {
			return nil, cleave.ErrJobEnded
		}
		return &plannedChange{
			plan: api.Plan{Summary: "cancel job " + j.ID + ", a " + j.Kind, Steps: []string{"What it has written is removed."}},
			apply: func(context.Context) (*api.Job, error) {
				a.serverJobs.cancelJob(j.ID)
				return &j, nil
			},
		}, nil
	}
	return a.planJobControl(ctx, q, "take back", func(ctx context.Context, j *cleave.Job) error { return j.Cancel(ctx) })
}

func (a *Admin) planThrottleJob(ctx context.Context, q *query, r api.Throttle) (*plannedChange, error) {
	summary := fmt.Sprintf("bound by %s a second", output.Plural(r.BytesPerSecond, "byte"))
	if r.BytesPerSecond == 0 {
		summary = "lift the bound of"
	}
	return a.planJobControl(ctx, q, summary, func(ctx context.Context, j *cleave.Job) error { return j.Throttle(ctx, r.BytesPerSecond) })
}

// serverJobs are jobs of the server itself: those of backups. They are about files outside of
// the store, so the store does not know them, and they end with the server.
type serverJobs struct {
	now func() time.Time
	log *slog.Logger
	wg  sync.WaitGroup

	mu     sync.Mutex
	lastID int
	jobs   []*serverJob // the oldest first
	closed bool
}

type serverJob struct {
	job    api.Job
	cancel context.CancelFunc
	// usedDirs are directories below that of backups which no other change may touch meanwhile.
	usedDirs []string
}

// maxServerJobs is how many that have ended are known.
const maxServerJobs = 100

func (ts *serverJobs) init(now func() time.Time, log *slog.Logger) { ts.now, ts.log = now, log }

var errShuttingDown = &api.Error{Status: 503, Code: api.CodeUnavailable, Message: "the server ends", Hint: "ask again when it is back"}

// start begins a task: one at a time, because each of them reads or writes all that the
// store has.
func (ts *serverJobs) start(kind string, uses []string, f func(ctx context.Context, phase func(string)) (result string, bytes int64, err error)) (*api.Job, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.closed {
		return nil, errShuttingDown
	}
	if err := ts.checkIdleLocked(); err != nil {
		return nil, err
	}
	if len(ts.jobs) >= maxServerJobs {
		ts.jobs = slices.Delete(ts.jobs, 0, 1)
	}
	ts.lastID++
	now := ts.now().UTC()
	ctx, stop := context.WithCancel(context.Background())
	t := &serverJob{job: api.Job{ID: "b" + strconv.Itoa(ts.lastID), Kind: kind, State: api.JobRunning, Phase: "planned", Created: now, Changed: now}, cancel: stop, usedDirs: uses}
	ts.jobs = append(ts.jobs, t)
	job := t.job
	ts.log.Info("job begun", "job", job.ID, "kind", kind)
	ts.wg.Go(func() {
		defer stop()
		result, bytes, err := f(ctx, func(phase string) { ts.updateJob(t, func(j *api.Job) { j.Phase = phase }) })
		ts.updateJob(t, func(j *api.Job) { finishJob(j, result, bytes, err, ts.now().UTC()) })
		ts.logJobEnd(job, bytes, err)
	})
	return &job, nil
}

// logJobEnd logs the outcome of a task.
func (ts *serverJobs) logJobEnd(j api.Job, bytes int64, err error) {
	log := ts.log.With("job", j.ID, "kind", j.Kind, "took", ts.now().Sub(j.Created))
	switch {
	case errors.Is(err, context.Canceled):
		log.Info("job cancelled")
	case err != nil:
		log.Error("job failed", "error", err)
	default:
		log.Info("job done", "bytes", bytes)
	}
}

// checkIdleLocked refuses a task while another is under way. REQUIRES: ts.mu held.
func (ts *serverJobs) checkIdleLocked() error {
	for _, t := range ts.jobs {
		if !t.job.HasEnded() {
			return &api.Error{Status: 409, Code: api.CodeBusy, Message: "job " + t.job.ID + ", a " + t.job.Kind + ", is under way", Hint: "wait for it, or cancel it"}
		}
	}
	return nil
}

// checkIdle refuses what needs a task of its own while another is under way.
func (ts *serverJobs) checkIdle() error {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.checkIdleLocked()
}

// findJobUsing returns the job that uses a directory, "" if none does.
func (ts *serverJobs) findJobUsing(dir string) string {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.jobs {
		if !t.job.HasEnded() && slices.Contains(t.usedDirs, dir) {
			return t.job.ID
		}
	}
	return ""
}

// finishJob records the outcome of a task.
func finishJob(j *api.Job, result string, bytes int64, err error, now time.Time) {
	j.Ended, j.Bytes = &now, uint64(max(0, bytes))
	switch {
	case errors.Is(err, context.Canceled):
		j.State, j.Phase, j.Why = api.JobUndone, "rolled back", "it was cancelled"
	case err != nil:
		j.State, j.Phase, j.Why = api.JobFailed, "failed", err.Error()
	default:
		j.State, j.Phase, j.Result = api.JobDone, "done", result
	}
	estimateProgress(j, now)
}

func (ts *serverJobs) updateJob(t *serverJob, f func(*api.Job)) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	f(&t.job)
	t.job.Changed = ts.now().UTC()
}

func (ts *serverJobs) listJobs() []api.Job {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	jobs := make([]api.Job, 0, len(ts.jobs))
	for _, t := range ts.jobs {
		jobs = append(jobs, t.job)
	}
	return jobs
}

func (ts *serverJobs) findJob(id string) (api.Job, bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.jobs {
		if t.job.ID == id {
			return t.job, true
		}
	}
	return api.Job{}, false
}

func (ts *serverJobs) cancelJob(id string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.jobs {
		if t.job.ID == id {
			t.cancel()
		}
	}
}

// close cancels all, lets none begin, and waits.
func (ts *serverJobs) close() {
	ts.mu.Lock()
	ts.closed = true
	for _, t := range ts.jobs {
		t.cancel()
	}
	ts.mu.Unlock()
	ts.wg.Wait()
}
