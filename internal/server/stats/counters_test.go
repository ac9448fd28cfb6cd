package stats

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestATimeIsKnownToAnEighth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(math.Exp2(rapid.Float64Range(3, 38).Draw(t, "log2 of the time")))
		var one timeHistogram
		one.add(3, d, 3*d, true)
		micros := one.estimateQuantiles([]float64{0, 50, 100})
		exact := float64(d) / 1000
		for _, m := range micros {
			if m < exact || m > exact*1.15+0.002 {
				t.Fatalf("%v is said to be %v us", d, m)
			}
		}
	})
	for d, want := range map[time.Duration]int{-1: 0, 0: 0, math.MaxInt64: timeBuckets - 1} {
		if got := timeBucket(d); got != want {
			t.Errorf("%v is in bucket %d, want %d", d, got, want)
		}
	}
	for i := range timeBuckets - 1 {
		if timeBucketBound(i) >= timeBucketBound(i+1) {
			t.Errorf("bucket %d ends at %v, the next at %v", i, timeBucketBound(i), timeBucketBound(i+1))
		}
	}
}

func TestQuantilesCountTheCalls(t *testing.T) {
	var all timeHistogram
	for i := range 1000 {
		all.add(1, time.Duration(1+i)*time.Millisecond, 0, true)
	}
	micros := all.estimateQuantiles([]float64{0, 50, 99, 100})
	for i, want := range []float64{1e3, 500e3, 990e3, 1000e3} {
		if got := micros[i]; got < want || got > want*1.15 {
			t.Errorf("quantile %d is %v us, want about %v", i, got, want)
		}
	}
}

func TestRatesAreOfTheLastSecond(t *testing.T) {
	var r trafficRates
	expect := func(requests, in, out float64) {
		t.Helper()
		if a, b, c := r.perSecond(); a != requests || b != in || c != out {
			t.Errorf("%v requests, %v and %v bytes in a second, want %v, %v and %v", a, b, c, requests, in, out)
		}
	}
	expect(0, 0, 0)
	r.record(trafficSample{time.Second, 1000, 10, 20})
	expect(0, 0, 0)
	r.record(trafficSample{3 * time.Second, 1500, 20, 50})
	expect(250, 5, 15)
	r.record(trafficSample{4 * time.Second, 1500, 20, 50})
	expect(0, 0, 0)
	r.reset(trafficSample{5 * time.Second, 0, 0, 0})
	expect(0, 0, 0)
	r.record(trafficSample{6 * time.Second, 7, 8, 9})
	expect(7, 8, 9)
	r.record(trafficSample{7 * time.Second, 1, 1, 1}) // counted anew in between
	expect(0, 0, 0)
}
