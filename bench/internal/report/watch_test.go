package report

import (
	"testing"
	"time"
)

func TestStatCountsEverythingButIdleAndGuests(t *testing.T) {
	got, ok := parseStat("cpu  100 20 3 99999 88888 4 5 6 70 7\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
	if want := 1380 * time.Millisecond; !ok || got != want {
		t.Errorf("got %v, %v, want %v", got, ok, want)
	}
	for _, bad := range []string{"", "cpu 1 2 3", "intr 1 2 3 4 5 6 7 8"} {
		if _, ok := parseStat(bad); ok {
			t.Errorf("%q was taken for a CPU line", bad)
		}
	}
}
