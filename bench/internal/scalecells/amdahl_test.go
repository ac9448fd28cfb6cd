package scalecells

import (
	"math"
	"testing"
)

func TestBound_IsAmdahlsLaw(t *testing.T) {
	for _, c := range []struct {
		share          float64
		threads, cores int
		want           float64
	}{
		{0, 1, 16, 16},
		{1, 1, 16, 1},
		{0.5, 1, 16, 1 / (0.5 + 0.5/16)},
		{0.1, 1, 64, 1 / (0.1 + 0.9/64)},
		{0.9, 16, 16, 16}, // what grows with the processors bounds nothing
		{0.9, 64, 16, 16}, // and more threads than processors are no faster
		{1, 4, 16, 4},
	} {
		if got := Bound(c.share, c.threads, c.cores); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("Bound(%v, %d, %d) = %v, want %v", c.share, c.threads, c.cores, got, c.want)
		}
	}
}

func TestMaxSerialShare_IsWhereTheBoundIsReached(t *testing.T) {
	for _, times := range []float64{1, 6, 12, 16} {
		if got := Bound(MaxSerialShare(times, 16), 1, 16); math.Abs(got-times) > 1e-9 {
			t.Errorf("with the largest share for %vx the bound is %v", times, got)
		}
	}
}
