package admin

import (
	"testing"
	"time"

	"github.com/cleavekv/cleave"
)

// A job that is done by others comes further while they do.
func TestAJobComesFurtherWithItsChildren(t *testing.T) {
	now := time.UnixMilli(1e12)
	drain := cleave.JobStatus{ID: 7, Kind: "drain", Children: 2, Rows: 2, Bytes: 200, Expected: cleave.Price{Bytes: 1000}, Created: now.Add(-time.Second)}
	jobs := []cleave.JobStatus{
		drain,
		{ID: 8, Parent: 7, State: cleave.JobDone, Rows: 2, Bytes: 200},
		{ID: 9, Parent: 7, Rows: 3, Bytes: 300},
		{ID: 10, Rows: 9, Bytes: 900},
	}
	if j := jobOf(withChildren(drain, jobs), now); j.Rows != 5 || j.Bytes != 500 || j.Progress != 0.5 || j.ETASeconds == nil || *j.ETASeconds != 1 {
		t.Errorf("%+v", j)
	}
	if s := withChildren(drain, jobs[2:]); s.Bytes != 300 { // the first is forgotten
		t.Errorf("%+v", s)
	}
}
