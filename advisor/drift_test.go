package advisor

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// reportOf is a report whose current key has a grade, and a fullest shard.
func reportOf(grade string, skew, nulls float64) *Report {
	return &Report{
		At:      time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC),
		Columns: []Column{{Name: "User", Identifier: "user", Nulls: nulls}, {Name: "other", Identifier: "other", Nulls: 1 - nulls}},
		Current: &Result{Layout: "user", Kind: "hash", Grade: grade, Sentence: "it is bad", Skews: []Skew{{16, Interval{skew - 0.05, skew, skew + 0.05}}}, Present: exactly(1 - nulls)},
	}
}

func TestCompare_NamesWhatHasMoved(t *testing.T) {
	for _, c := range []struct {
		was, is       string
		wasSkew, skew float64
		nulls         float64
		right         bool
		want, moved   string
	}{
		{"A", "A", 1, 1.02, 0, true, "still right: grade A, as on 2026-10-01", ""},
		{"A", "B", 1, 1.3, 0, true, "still right: grade B, on 2026-10-01 it was A", "bytes of the fullest shard over the mean 1.00 -> 1.30"},
		{"A", "D", 1, 4, 0.2, false, "no longer right: grade D, on 2026-10-01 it was A: it is bad", "bytes of the fullest shard over the mean 1.00 -> 4.00; share of rows that have the key 1.00 -> 0.80; share of rows without user 0.00 -> 0.20"},
		{"C", "C", 2, 2, 0, true, "still right", ""},
		{"D", "C", 3, 3, 0, true, "is right: grade C, on 2026-10-01 it was D", ""},
		{"D", "D", 3, 3, 0, false, "was and is wrong: grade D, as on 2026-10-01: it is bad", ""},
		{"F", "D", 3, 3, 0, false, "still not right: grade D, on 2026-10-01 it was F: it is bad", ""},
		{"D", "F", 3, 9, 0, false, "still not right: grade F", "bytes of the fullest shard over the mean 3.00 -> 9.00"},
		{"A", "?", 1, 9, 0, true, "not known", "bytes of the fullest shard over the mean 1.00 -> 9.00"},
	} {
		d, err := Compare(reportOf(c.was, c.wasSkew, 0), reportOf(c.is, c.skew, c.nulls))
		if err != nil {
			t.Fatal(err)
		}
		var moved []string
		for _, m := range d.Moved {
			moved = append(moved, m.String())
		}
		if got := strings.Join(moved, "; "); d.StillRight != c.right || !strings.Contains(d.Sentence, c.want) || got != c.moved {
			t.Errorf("%s to %s: still right: %v, %q, moved %q, want %+v", c.was, c.is, d.StillRight, d.Sentence, got, c)
		}
	}
	// What is stored and what is asked for are measured in other units.
	traffic := reportOf("D", 9, 0.5)
	traffic.Traffic = true
	if d, err := Compare(reportOf("A", 1, 0), traffic); err != nil || d.StillRight || len(d.Moved) > 0 || !strings.Contains(d.Sentence, "no longer right") {
		t.Errorf("stored records and traffic: %+v, %v", d, err)
	}
	if _, err := Compare(&Report{}, reportOf("A", 1, 0)); !errors.Is(err, ErrOptions) {
		t.Errorf("got %v, want %v", err, ErrOptions)
	}
	if _, err := Compare(reportOf("A", 1, 0), &Report{}); !errors.Is(err, ErrOptions) {
		t.Errorf("got %v, want %v", err, ErrOptions)
	}
}
