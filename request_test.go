package cleave

import (
	"testing"
	"time"
)

// A store whose clock is far from the machine's takes the ids that it made.
func TestARequestIDIsOfTheStoresClock(t *testing.T) {
	now := time.Date(1999, 12, 31, 23, 59, 0, 0, time.UTC)
	db, err := OpenMemory(Options{Now: func() time.Time { return now }})
	must(t, err)
	defer db.Close()
	ids := map[RequestID]bool{}
	for range 3 {
		id := db.NewRequestID()
		for range 2 {
			if sum, err := db.Default().AddOnce(ctx, id, []byte("n"), 1); err != nil || sum != int64(len(ids)+1) {
				t.Errorf("%d, %v", sum, err)
			}
		}
		ids[id] = true
	}
	if len(ids) != 3 {
		t.Errorf("%d ids are different, want 3", len(ids))
	}
}
