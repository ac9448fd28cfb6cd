package admin

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/output"
)

// jobOf is a job of the store as it is told.
func jobOf(s cleave.JobStatus, now time.Time) api.Job {
	price := priceOf(s.Expected)
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
	progress(&j, now)
	return j
}

// progress says how far a job has come, and how long it will take at this rate.
func progress(j *api.Job, now time.Time) {
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

// jobsNow are all jobs, the oldest first.
func (a *Admin) jobsNow(ctx context.Context) ([]api.Job, error) {
	jobs, err := a.o.DB.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	all := a.tasks.list()
	now := a.o.Now()
	for _, s := range jobs {
		all = append(all, jobOf(withChildren(s, jobs), now))
	}
	slices.SortStableFunc(all, func(x, y api.Job) int { return x.Created.Compare(y.Created) })
	return all, nil
}

func (a *Admin) jobs(ctx context.Context, q *query) (api.Page[api.Job], error) {
	if s := q.text(api.QueryState); q.has(api.QueryState) &&
		!slices.Contains([]string{api.JobRunning, api.JobPaused, api.JobUndoing, api.JobDone, api.JobUndone, api.JobFailed}, s) {
		return api.Page[api.Job]{}, invalid("there is no state "+strconv.Quote(s), "jobs are running, paused, undoing, done, undone or failed")
	}
	all, err := a.jobsNow(ctx)
	if err != nil {
		return api.Page[api.Job]{}, err
	}
	all = slices.DeleteFunc(all, func(j api.Job) bool { return q.has(api.QueryState) && j.State != q.text(api.QueryState) })
	return page(q, all, inOrder[api.Job], false)
}

func (a *Admin) job(ctx context.Context, q *query) (api.Job, error) {
	if j, ok := a.tasks.get(q.id); ok {
		return j, nil
	}
	job, err := a.findJob(ctx, q)
	if err != nil {
		return api.Job{}, err
	}
	s, err := job.Status(ctx)
	if err != nil {
		return api.Job{}, err
	}
	if s.Children > 0 {
		jobs, err := a.o.DB.Jobs(ctx)
		if err != nil {
			return api.Job{}, err
		}
		s = withChildren(s, jobs)
	}
	return jobOf(s, a.o.Now()), nil
}

// withChildren is a job with what those that it has begun have carried, if it is done by
// others. It counts them when they have ended, and not all of those are remembered.
func withChildren(s cleave.JobStatus, jobs []cleave.JobStatus) cleave.JobStatus {
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
		return nil, missing("there is no job "+strconv.Quote(q.id), "list the jobs")
	}
	return a.o.DB.Job(ctx, cleave.JobID(id))
}

// control plans something that is done to a job of the store.
func (a *Admin) control(ctx context.Context, q *query, summary string, f func(ctx context.Context, j *cleave.Job) error) (*change, error) {
	if j, ok := a.tasks.get(q.id); ok {
		return nil, refused(fmt.Sprintf("job %s is a %s, which can only be cancelled", j.ID, j.Kind), "")
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
	return &change{
		plan: api.Plan{Summary: summary + " job " + q.id + ", a " + s.Kind},
		do: func(ctx context.Context) (*api.Job, error) {
			if err := f(ctx, job); err != nil {
				return nil, err
			}
			s, err := job.Status(ctx)
			if err != nil {
				return nil, nil // it was done, whoever cannot be told how it stands
			}
			one := jobOf(s, a.o.Now())
			return &one, nil
		},
	}, nil
}

func (a *Admin) pauseJob(ctx context.Context, q *query, _ api.Nothing) (*change, error) {
	return a.control(ctx, q, "pause", func(ctx context.Context, j *cleave.Job) error { return j.Pause(ctx) })
}

func (a *Admin) resumeJob(ctx context.Context, q *query, _ api.Nothing) (*change, error) {
	return a.control(ctx, q, "resume", func(ctx context.Context, j *cleave.Job) error { return j.Resume(ctx) })
}

func (a *Admin) cancelJob(ctx context.Context, q *query, _ api.Nothing) (*change, error) {
	if j, ok := a.tasks.get(q.id); ok {
		if j.Over() {
			return nil, cleave.ErrJobEnded
		}
		return &change{
			plan: api.Plan{Summary: "cancel job " + j.ID + ", a " + j.Kind, Steps: []string{"What it has written is removed."}},
			do: func(context.Context) (*api.Job, error) {
				a.tasks.cancel(j.ID)
				return &j, nil
			},
		}, nil
	}
	return a.control(ctx, q, "take back", func(ctx context.Context, j *cleave.Job) error { return j.Cancel(ctx) })
}

func (a *Admin) throttleJob(ctx context.Context, q *query, r api.Throttle) (*change, error) {
	summary := fmt.Sprintf("bound by %s a second", output.Counted(r.BytesPerSecond, "byte"))
	if r.BytesPerSecond == 0 {
		summary = "lift the bound of"
	}
	return a.control(ctx, q, summary, func(ctx context.Context, j *cleave.Job) error { return j.Throttle(ctx, r.BytesPerSecond) })
}
