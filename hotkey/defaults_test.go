package hotkey

import (
	"fmt"
	"math"
	"testing"
	"time"
)

func TestDefaults_OneCallInAThousandIsSampled(t *testing.T) {
	const calls = 100_000
	n := uint64(0)
	d := mustNew(t, Options{Random: func() uint64 { n++; return n * (math.MaxUint64 / calls) }})
	for range calls {
		d.Observe("key", time.Millisecond)
	}
	if got := d.Report().Samples; got != calls/1000 {
		t.Errorf("%v samples of %d calls, want one in 1000", got, calls)
	}
}

// recordKeys records samples of keys that are all as fast, and of one that is slower by a factor.
func recordKeys(d *Detector, others, samples int, factor time.Duration) {
	for range samples {
		for i := range others {
			d.Record(fmt.Sprint("other ", i), time.Millisecond)
		}
		d.Record("slow", factor*time.Millisecond)
	}
}

func TestDefaults_AKeyIsHotFromTwentySamplesThreeKeysAndTenMediansOn(t *testing.T) {
	for _, test := range []struct {
		name            string
		others, samples int
		factor          time.Duration
		judged          int
		hot             bool
	}{
		{"all reached", 2, 20, 11, 3, true},
		{"a sample less", 2, 19, 11, 0, false},
		{"a key less", 1, 20, 11, 2, false},
		{"not above ten medians", 2, 20, 10, 3, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := mustNew(t, Options{Now: (&clock{}).readTime})
			recordKeys(d, test.others, test.samples, test.factor)
			r := d.Report()
			if r.Judged != test.judged || (len(r.Hot) == 1) != test.hot || len(r.Hot) > 1 {
				t.Errorf("%d keys are judged and %v are hot; want %d, and a hot one: %t", r.Judged, r.Hot, test.judged, test.hot)
			}
		})
	}
}
