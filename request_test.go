package cleave

import (
	"errors"
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

// A conditional add that was refused stays so for its request, whatever comes after.
func TestARefusedAddIsRemembered(t *testing.T) {
	db, err := OpenMemory(Options{})
	must(t, err)
	defer db.Close()
	ks, id := db.Default(), db.NewRequestID()
	add := func(o AddOptions) (int64, error) { return ks.AddWith(ctx, []byte("n"), 5, o) }
	if _, err := add(AddOptions{IfPresent: true, Request: id}); !errors.Is(err, ErrNotStored) {
		t.Fatalf("an add to what is absent: %v", err)
	}
	if n, err := add(AddOptions{}); n != 5 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if _, err := add(AddOptions{IfPresent: true, Request: id}); !errors.Is(err, ErrNotStored) {
		t.Fatalf("its retry: %v", err)
	}
	other := db.NewRequestID()
	for range 2 {
		if n, err := add(AddOptions{IfPresent: true, Request: other}); n != 10 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	b := &Batch{}
	b.AddWith(ks, []byte("n"), 1, AddOptions{Request: other})
	if err := b.Err(); !errors.Is(err, ErrOptions) {
		t.Fatalf("a write of a batch with a request of its own: %v", err)
	}
	err = db.Update(ctx, func(tx *Txn) error {
		_, err := tx.AddWith(ks, []byte("n"), 1, AddOptions{Request: other})
		return err
	})
	if !errors.Is(err, ErrOptions) {
		t.Fatalf("a write of a transaction with a request: %v", err)
	}
}
