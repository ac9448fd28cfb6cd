package saga

import (
	"context"
	"iter"
	"slices"
	"time"
)

// Info is how far a saga has come.
type Info struct {
	ID, Definition string
	State          State
	// Step is the one that is done or undone next, and Steps are all.
	Step  string
	Steps []string
	// Attempts is how often it failed in a row, Failure its last error, and Next when
	// it is tried again.
	Attempts int
	Failure  string
	Next     time.Time
	// Cancelled is why it was cancelled, if that has not turned it round yet; Cause why
	// it did turn round, and Turned the step at which it was.
	Cancelled, Cause, Turned string
	// Stuck is why it stands still, if it does.
	Stuck Stuck
	// Deadline, Created, Changed and Ended are zero if there is no such time.
	Deadline, Created, Changed, Ended time.Time
	// Owner names the runner that works on it.
	Owner string
	// Data is its value, as its codec made it.
	Data []byte
	// Revision is one more with each change.
	Revision uint64
}

// Err is why it was taken back or is stuck, nil if neither.
func (i Info) Err() error {
	switch {
	case i.Stuck != NotStuck:
		return &EndError{ID: i.ID, Definition: i.Definition, Step: i.Step, Cause: i.Failure, Stuck: i.Stuck}
	case i.State == Compensated:
		return &EndError{ID: i.ID, Definition: i.Definition, Step: i.Turned, Cause: i.Cause}
	}
	return nil
}

func toInfo(r Record) Info {
	i := Info{
		ID: r.ID, Definition: r.Definition, State: r.State, Step: r.StepName(), Attempts: r.Attempts, Failure: r.Failure,
		Next: toTime(r.NotBeforeMS), Cancelled: r.Cancel, Cause: r.Cause, Turned: r.Turned, Stuck: r.Stuck,
		Deadline: toTime(r.DeadlineMS), Created: toTime(r.CreatedMS), Changed: toTime(r.ChangedMS), Ended: toTime(r.EndedMS),
		Owner: r.Owner, Data: slices.Clone(r.Data), Revision: r.Revision,
	}
	for _, p := range r.Steps {
		i.Steps = append(i.Steps, p.Name)
	}
	return i
}

func toTime(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// Inspect returns how far a saga has come, or ErrNotFound.
func (r *Runner) Inspect(ctx context.Context, id string) (Info, error) {
	rec, err := r.journal.Load(ctx, id)
	return toInfo(rec), err
}

// Filter chooses sagas. The zero value chooses all.
type Filter struct {
	// States are those to list. Default all.
	States []State
	// Stuck lists only those that are stuck.
	Stuck bool
	// Definition lists only those of one definition.
	Definition string
}

func (f Filter) matchesRecord(r *Record) bool {
	return (len(f.States) == 0 || slices.Contains(f.States, r.State)) && (!f.Stuck || r.Stuck != NotStuck) &&
		(f.Definition == "" || f.Definition == r.Definition)
}

// List visits sagas in the order of their ids, those under way before those that have
// ended. It is not of one moment: one that ends meanwhile may be visited twice.
func (r *Runner) List(ctx context.Context, f Filter) iter.Seq2[Info, error] {
	const page = 256
	return func(yield func(Info, error) bool) {
		for _, list := range []func(context.Context, string, int) ([]Record, error){r.journal.Open, r.journal.Ended} {
			for after := ""; ; {
				records, err := list(ctx, after, page)
				if err != nil {
					yield(Info{}, err)
					return
				}
				for i := range records {
					after = records[i].ID
					if f.matchesRecord(&records[i]) && !yield(toInfo(records[i]), nil) {
						return
					}
				}
				if len(records) < page {
					break
				}
			}
		}
	}
}

// Cancel has a saga taken back, and returns when that is certain: it will undo what was
// done. why is kept as the cause. One that has completed, or was compensated, is
// ErrEnded; one that is on its way back already is left alone.
func (r *Runner) Cancel(ctx context.Context, id, why string) error {
	return r.changeAndLaunch(ctx, id, func(rec Record) (Event, bool) {
		return Event{Kind: Cancelled, Why: why}, rec.State != Compensating && rec.Cancel == ""
	})
}

// Retry has a saga that is stuck go on, and one that waits for its next try not wait.
// One that has ended is ErrEnded.
func (r *Runner) Retry(ctx context.Context, id string) error {
	return r.changeAndLaunch(ctx, id, func(Record) (Event, bool) { return Event{Kind: Pushed}, true })
}

// changeAndLaunch changes a record and has the saga go on, with this runner unless it does not
// have the definition.
func (r *Runner) changeAndLaunch(ctx context.Context, id string, e func(Record) (Event, bool)) error {
	rec, err := r.journal.Load(ctx, id)
	if err != nil {
		return err
	}
	rec, err = r.changeRecord(ctx, rec, func(rec Record) (Event, bool) {
		event, ok := e(rec)
		event.NowMS = r.nowMS()
		return event, ok
	})
	if err != nil || rec.Stuck != NotStuck || r.findDefinition(rec.Definition) == nil {
		return err
	}
	if a, err := r.launchSaga(rec); err == nil { // else it is closed, and the runner that resumes the saga finds what was asked for
		a.interruptDo()
	}
	return nil
}
