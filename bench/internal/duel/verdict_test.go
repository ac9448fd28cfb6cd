package duel

import (
	"math"
	"testing"
)

func TestATargetIsMetByMedianAndLowerBoundOfEnoughRounds(t *testing.T) {
	for _, c := range []struct {
		why    string
		ratio  Estimate
		target float64
		want   Verdict
	}{
		{"clearly above", Estimate{2, 1.9, 2.1, 10}, 1.5, Met},
		{"median exactly there", Estimate{1.5, 1.4, 1.6, 10}, 1.5, Met},
		{"bound exactly at the slack", Estimate{10, 9, 11, 10}, 10, Met},
		{"median short", Estimate{1.49, 1.45, 1.6, 10}, 1.5, NotMet},
		{"bound too low", Estimate{2, 1.34, 3, 10}, 1.5, NotMet},
		{"too few rounds", Estimate{9, 9, 9, 9}, 1.5, Undecided},
		{"no data", Bootstrap(nil, 0), 1, Undecided},
	} {
		if got := Judge(c.ratio, c.target); got != c.want {
			t.Errorf("%s: Judge(%+v, %v) = %q, want %q", c.why, c.ratio, c.target, got, c.want)
		}
	}
}

func TestRatiosUnderOnePointTwoAreTiesOnBothSides(t *testing.T) {
	for ratio, want := range map[float64]string{
		3: "better", 1.2: "better", 1.19: "tie", 1: "tie", 0.84: "tie", 0.83: "worse", 0.1: "worse",
	} {
		if got := Call(ratio); got != want {
			t.Errorf("Call(%v) = %q, want %q", ratio, got, want)
		}
	}
	if got := Call(math.NaN()); got != "–" {
		t.Errorf("Call(NaN) = %q", got)
	}
}
