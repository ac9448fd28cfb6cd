package admin

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/api"
)

// tasks are jobs of the server itself: those of backups. They are about files outside of
// the store, so the store does not know them, and they end with the server.
type tasks struct {
	now     func() time.Time
	running sync.WaitGroup

	mu    sync.Mutex
	next  int
	all   []*task // the oldest first
	ended bool
}

type task struct {
	job  api.Job
	stop context.CancelFunc
}

// keptTasks is how many that have ended are known.
const keptTasks = 100

func (ts *tasks) init(now func() time.Time) { ts.now = now }

var errEnding = &api.Error{Status: 503, Code: api.CodeUnavailable, Message: "the server ends", Hint: "ask again when it is back"}

// start begins a task: one at a time, because each of them reads or writes all that the
// store has.
func (ts *tasks) start(kind string, f func(ctx context.Context, phase func(string)) (result string, bytes int64, err error)) (*api.Job, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.ended {
		return nil, errEnding
	}
	for _, t := range ts.all {
		if !t.job.Over() {
			return nil, &api.Error{Status: 409, Code: api.CodeBusy, Message: "job " + t.job.ID + ", a " + t.job.Kind + ", is under way", Hint: "wait for it, or cancel it"}
		}
	}
	if len(ts.all) >= keptTasks {
		ts.all = slices.Delete(ts.all, 0, 1)
	}
	ts.next++
	now := ts.now().UTC()
	ctx, stop := context.WithCancel(context.Background())
	t := &task{job: api.Job{ID: "b" + strconv.Itoa(ts.next), Kind: kind, State: api.JobRunning, Phase: "planned", Created: now, Changed: now}, stop: stop}
	ts.all = append(ts.all, t)
	ts.running.Go(func() {
		defer stop()
		result, bytes, err := f(ctx, func(phase string) { ts.change(t, func(j *api.Job) { j.Phase = phase }) })
		ts.change(t, func(j *api.Job) { end(j, result, bytes, err, ts.now().UTC()) })
	})
	job := t.job
	return &job, nil
}

// end says what came of a task.
func end(j *api.Job, result string, bytes int64, err error, now time.Time) {
	j.Ended, j.Bytes = &now, uint64(max(0, bytes))
	switch {
	case errors.Is(err, context.Canceled):
		j.State, j.Phase, j.Why = api.JobUndone, "rolled back", "it was cancelled"
	case err != nil:
		j.State, j.Phase, j.Why = api.JobFailed, "failed", err.Error()
	default:
		j.State, j.Phase, j.Result = api.JobDone, "done", result
	}
	progress(j, now)
}

func (ts *tasks) change(t *task, f func(*api.Job)) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	f(&t.job)
	t.job.Changed = ts.now().UTC()
}

func (ts *tasks) list() []api.Job {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	jobs := make([]api.Job, 0, len(ts.all))
	for _, t := range ts.all {
		jobs = append(jobs, t.job)
	}
	return jobs
}

func (ts *tasks) get(id string) (api.Job, bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.all {
		if t.job.ID == id {
			return t.job, true
		}
	}
	return api.Job{}, false
}

func (ts *tasks) cancel(id string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.all {
		if t.job.ID == id {
			t.stop()
		}
	}
}

// end cancels all, lets none begin, and waits.
func (ts *tasks) end() {
	ts.mu.Lock()
	ts.ended = true
	for _, t := range ts.all {
		t.stop()
	}
	ts.mu.Unlock()
	ts.running.Wait()
}
