package wal

import (
	"errors"
	"testing"
)

func TestRotateSealsWhatIsThereAndNothingElse(t *testing.T) {
	var r recorder
	fs := newDisk(1)
	l := r.start(t, r.options(fs), 0)
	if err := l.Rotate(); err != nil || len(r.sealed) != 0 {
		t.Fatalf("a log with nothing in it: %v, %v", r.sealed, err)
	}
	end := put(t, l, "one")
	for range 2 { // the second time there is nothing
		if err := l.Rotate(); err != nil || len(r.sealed) != 1 || r.sealed[0] < end {
			t.Fatalf("sealed are %v of %v, %v", r.sealed, end, err)
		}
	}
	put(t, l, "two")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Rotate(); !errors.Is(err, ErrClosed) {
		t.Errorf("a log that is closed: %v", err)
	}
	again := recorder{}
	again.start(t, again.options(fs), 0)
	if len(again.replayed) != 2 {
		t.Errorf("replayed are %v", again.replayed)
	}
}
