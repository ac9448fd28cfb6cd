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

func TestChildrenAreAddedUpWhateverWeAreCalled(t *testing.T) {
	const stat = "7 (a ) b) R 1 2 3 4 5 6 7 8 9 10 11 12 130 140 15\n"
	if got := parseChildren(stat); got != 270*tick {
		t.Errorf("children took %v", got)
	}
	for _, bad := range []string{"", "7 (a) R 1 2", "x"} {
		if got := parseChildren(bad); got != 0 {
			t.Errorf("%q: children took %v", bad, got)
		}
	}
}
