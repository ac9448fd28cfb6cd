package cleave

import (
	"errors"
	"testing"
	"time"
)

// Who holds a job learns how it ended, however many jobs have ended since.
func TestAJobThatIsHeldIsNotForgotten(t *testing.T) {
	db := small(t, 1)
	ks := rangeSpace(t, db, "r")
	var jobs []*Job
	for i := 1; i <= 130; i++ {
		job, err := db.Start(ctx, Split{Keyspace: ks, At: [][]byte{number(i)}})
		for ; errors.Is(err, ErrBusy); job, err = db.Start(ctx, Split{Keyspace: ks, At: [][]byte{number(i)}}) {
			time.Sleep(100 * time.Microsecond)
		}
		must(t, err)
		jobs = append(jobs, job)
	}
	for _, job := range jobs {
		s, err := job.Wait(ctx)
		if err != nil || s.State != JobDone || s.ID != job.ID() {
			t.Fatalf("job %d: %v, %v", job.ID(), s.State, err)
		}
	}
	if _, err := db.Job(ctx, jobs[0].ID()); !errors.Is(err, ErrNoJob) {
		t.Fatalf("the first is still there: %v", err)
	}
	if s, err := jobs[0].Status(ctx); err != nil || s.State != JobDone {
		t.Errorf("the status of the first: %v, %v", s.State, err)
	}
	for what, err := range map[string]error{"pause": jobs[0].Pause(ctx), "cancel": jobs[0].Cancel(ctx)} {
		if !errors.Is(err, ErrJobEnded) {
			t.Errorf("%s of the first: %v", what, err)
		}
	}
}

// A job that was found by its id is held like one that was begun.
func TestAJobThatWasFoundIsHeld(t *testing.T) {
	db := small(t, 1)
	ks := rangeSpace(t, db, "r")
	id := mustDo(t, db, Split{Keyspace: ks, At: [][]byte{number(500)}}).ID
	job, err := db.Job(ctx, id)
	must(t, err)
	for i := range 110 {
		mustDo(t, db, Split{Keyspace: ks, At: [][]byte{number(i)}})
	}
	if s, err := job.Wait(ctx); err != nil || s.State != JobDone || s.ID != id {
		t.Errorf("%+v, %v", s, err)
	}
}
