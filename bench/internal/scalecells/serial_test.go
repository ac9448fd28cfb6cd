package scalecells

import (
	"math"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// sampled is a sample of a stack, from the leaf on.
func sampled(nanoseconds int64, stack ...string) *profile.Sample {
	s := &profile.Sample{Value: []int64{1, nanoseconds}}
	for _, name := range stack {
		s.Location = append(s.Location, &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: name}}}})
	}
	return s
}

func TestSharesOf_CountsASampleForEachSectionThatItIsIn(t *testing.T) {
	function := map[string]string{}
	for _, s := range sections {
		function[s.name] = s.function
	}
	got := sharesOf(&profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples"}, {Type: "cpu", Unit: "nanoseconds"}},
		Sample: []*profile.Sample{
			sampled(40, "parse", function["event loops"]),
			sampled(20, "write", function["log turn"], function["executors of groups"], function["event loops"]),
			sampled(30, "sort", function["applier"]),
			sampled(10, "runtime.gcDrain"),
		},
	})
	for name, want := range map[string]float64{
		"event loops": 0.6, "executors of groups": 0.2, "log turn": 0.2, "applier": 0.3, "flush of tables": 0, outside: 0.1,
		BusiestSerial: 0.3, // loops and executors grow with the processors
	} {
		if math.Abs(got[name]-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got[name], want)
		}
	}
}

func TestShareOfBusiest_CountsOnlyWhatWasUsedMeanwhile(t *testing.T) {
	before := map[string]time.Duration{"1": 100, "2": 0}
	after := map[string]time.Duration{"1": 110, "2": 60, "3": 30}
	if got := shareOfBusiest(before, after); got != 0.6 {
		t.Errorf("%v, want 0.6", got)
	}
}

func TestBounds_FollowTheMedianShare(t *testing.T) {
	rounds := []shares{{"x": 0.9}, {"x": 0.1}, {"x": 0.2}}
	got := bounds(rounds, "x", func(int) int { return 1 })
	if len(got) != 2 || got[0].Name != "bound on 16 cores" || math.Abs(got[0].Value-4) > 1e-9 {
		t.Errorf("bounds %v, want 4 on 16 cores", got)
	}
}
