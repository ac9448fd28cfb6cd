package hotkey

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// clock is one that is set by hand.
type clock struct{ ns atomic.Int64 }

func (c *clock) readTime() time.Time      { return time.Unix(0, c.ns.Load()) }
func (c *clock) advance(by time.Duration) { c.ns.Add(int64(by)) }

func mustNew(t interface{ Fatal(...any) }, o Options) *Detector {
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// exactDetector is a detector that keeps every sample.
type exactDetector struct {
	o       Options
	samples map[string][]sample
}

type sample struct {
	latency time.Duration
	window  int
}

// reportWindow judges by all samples, each with the weight of its age.
func (e *exactDetector) reportWindow(window int) (hot []string, median float64, judged int) {
	means := map[string]float64{}
	for key, list := range e.samples {
		weight, sum := 0.0, 0.0
		for _, s := range list {
			w := math.Pow(0.5, float64(window-s.window))
			weight, sum = weight+w, sum+w*float64(s.latency)
		}
		if weight >= float64(e.o.MinSamples) {
			means[key] = sum / weight
		}
	}
	var sorted []float64
	for _, m := range means {
		sorted = append(sorted, m)
	}
	slices.Sort(sorted)
	if len(sorted) == 0 {
		return nil, 0, 0
	}
	median = sorted[len(sorted)/2]
	for key, m := range means {
		if len(means) >= e.o.MinKeys && m > e.o.Ratio*math.Max(median, 1) {
			hot = append(hot, key)
		}
	}
	slices.Sort(hot)
	return hot, median, len(means)
}

// dropLight drops keys of which next to nothing is left.
func (e *exactDetector) dropLight(window int) {
	for key, list := range e.samples {
		weight := 0.0
		for _, s := range list {
			weight += math.Pow(0.5, float64(window-s.window))
		}
		if weight < minKeptWeight {
			delete(e.samples, key)
		}
	}
}

func TestReportsAreThoseOfAllSamplesAsLongAsKeysFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &clock{}
		o := Options{Sample: 1, MinSamples: rapid.IntRange(1, 6).Draw(t, "min samples"), MinKeys: rapid.IntRange(1, 4).Draw(t, "min keys"),
			Ratio: rapid.SampledFrom([]float64{1, 2, 10}).Draw(t, "ratio"), Keys: 8, Window: time.Second, Now: c.readTime}
		d, e, window := mustNew(t, o), &exactDetector{o: o, samples: map[string][]sample{}}, 0
		for range rapid.IntRange(1, 60).Draw(t, "samples") {
			key := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", ""}).Draw(t, "key")
			latency := rapid.SampledFrom([]time.Duration{0, 1, 3, 1000, 30_000, time.Second}).Draw(t, "latency")
			d.Observe(key, latency)
			e.samples[key] = append(e.samples[key], sample{latency, window})
			if rapid.IntRange(0, 19).Draw(t, "wait?") == 0 {
				n := rapid.IntRange(1, 3).Draw(t, "windows")
				c.advance(time.Duration(n) * time.Second)
				window += n
				e.dropLight(window)
			}
			r := d.Report()
			hot, median, judged := e.reportWindow(window)
			var got []string
			for _, h := range r.Hot {
				got = append(got, h.Key)
				if h.Ratio <= o.Ratio || h.Samples < float64(o.MinSamples) || h.Missed != 0 {
					t.Fatalf("%+v is reported", h)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, hot) || r.Judged != judged || math.Abs(float64(r.Median)-median) > 1+median/1e9 || r.Bound != 0 {
				t.Fatalf("got %+v, want %v of %d, median %v", r, hot, judged, median)
			}
		}
	})
}

// Whatever keys come, counts are within their errors and no frequent key is missed.
func TestFrequentKeysAreTrackedAmongAnyNumberOfOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(2, 8).Draw(t, "keys")
		d := mustNew(t, Options{Sample: 1, Keys: size, MinKeys: 1, Now: (&clock{}).readTime})
		count := map[string]float64{}
		for i := range rapid.IntRange(1, 200).Draw(t, "samples") {
			key := fmt.Sprint("unique ", i)
			if rapid.Bool().Draw(t, "frequent") {
				key = fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "key"))
			}
			d.Observe(key, time.Millisecond)
			count[key]++
		}
		r, tracked := d.Report(), map[string]bool{}
		for _, k := range d.top.Top(-1) {
			tracked[k.Key] = true
			if true := count[k.Key]; true > k.Count || true < k.Count-k.Error || k.Ops > true {
				t.Fatalf("%+v of %v", k, true)
			}
		}
		if total := r.Samples; total != d.top.Total() || r.Tracked > size || len(tracked) != r.Tracked || r.Bound > total/float64(size) {
			t.Fatalf("%+v of %v", r, count)
		}
		for key, n := range count {
			if !tracked[key] && n > r.Bound {
				t.Fatalf("%s has %v samples and is not tracked: %+v", key, n, r)
			}
		}
	})
}

func TestASlowKeyIsFoundAmongHostileOnes(t *testing.T) {
	d := mustNew(t, Options{Sample: 1, Keys: 64, Now: (&clock{}).readTime})
	for i := range 50_000 {
		d.Observe(strings.Repeat("x", 400)+fmt.Sprint(i), time.Millisecond)
		if i%20 == 0 {
			for n := range 4 {
				d.Observe(fmt.Sprint("warm", n), time.Millisecond)
			}
			d.Observe("slow", 20*time.Millisecond)
		}
	}
	r := d.Report()
	if len(r.Hot) != 1 || r.Hot[0].Key != "slow" || math.Round(r.Hot[0].Ratio) != 20 {
		t.Errorf("%+v", r)
	}
	bytes := 0
	for _, k := range d.top.Top(-1) {
		bytes += len(k.Key)
	}
	if r.Tracked > 64 || bytes > 64*MaxKeyBytes {
		t.Errorf("%d keys of %d bytes are kept", r.Tracked, bytes)
	}
}

// A key that is slow in one call of twenty is not slow on average, and one that is asked for all the time is not slow at all.
func TestReport_NamesTailsAndBusyKeys(t *testing.T) {
	d := mustNew(t, Options{Sample: 1, Keys: 64, Now: (&clock{}).readTime})
	for i := range 2000 {
		for n := range 5 {
			if i%10 == 0 {
				d.Observe(fmt.Sprint("warm", n), 2*time.Millisecond)
			}
		}
		if i%10 == 1 {
			latency := 2 * time.Millisecond
			if i%200 == 1 {
				latency = 100 * time.Millisecond
			}
			d.Observe("tail", latency)
		}
		if i%40 == 2 { // fewer samples than a p99 needs
			d.Observe("few", 2*time.Millisecond)
		}
		for range 3 {
			d.Observe("busy", time.Millisecond)
		}
	}
	d.Observe("few", time.Second)
	r := d.Report()
	if len(r.Tails) != 1 || r.Tails[0].Key != "tail" || r.Tails[0].P99 < 100*time.Millisecond || r.Tails[0].P99 > 150*time.Millisecond || r.Tails[0].Ratio < 20 {
		t.Errorf("tails: %+v", r.Tails)
	}
	if len(r.Busy) != 1 || r.Busy[0].Key != "busy" || r.Busy[0].Samples != 6000 || r.Busy[0].Ratio != 30 || r.Busy[0].Latency != time.Millisecond {
		t.Errorf("busy: %+v", r.Busy)
	}
	if len(r.Hot) != 1 || r.Hot[0].Key != "few" || r.MedianP99 < 2*time.Millisecond || r.MedianP99 > 3*time.Millisecond || r.Median != 2*time.Millisecond {
		t.Errorf("%+v", r)
	}
}

func TestLongKeysAreToldApartWhateverTheirBytes(t *testing.T) {
	for _, part := range []string{"a", "é", "\xff", "\xff\xffa", "\x00é\xc3"} {
		long := strings.Repeat(part, 1000)
		a, b := truncateKey(long+"a"), truncateKey(long+"b")
		if a == b || len(a) > MaxKeyBytes || len(b) > MaxKeyBytes || a != truncateKey(long+"a") || !utf8.ValidString(a) {
			t.Errorf("%q and %q", a, b)
		}
	}
}

func TestAWindowIsReportedOnceWhenItEnds(t *testing.T) {
	c := &clock{}
	var reports []Report
	var d *Detector
	d = mustNew(t, Options{Sample: 1, MinSamples: 2, MinKeys: 2, Window: time.Minute, Now: c.readTime, OnWindow: func(r Report) {
		d.Report() // it may ask again
		reports = append(reports, r)
	}})
	record := func() {
		for range 2 {
			d.Record("slow", time.Second)
			d.Record("a", time.Millisecond)
			d.Record("b", -time.Millisecond)
		}
	}
	record()
	c.advance(30 * time.Second)
	record()
	if len(reports) != 0 {
		t.Fatalf("%d reports before the end", len(reports))
	}
	c.advance(30 * time.Second)
	record()
	record()
	if len(reports) != 1 || len(reports[0].Hot) != 1 || reports[0].Hot[0].Samples != 4 {
		t.Fatalf("%+v", reports)
	}
	c.advance(1000 * time.Hour)
	record()
	if r := d.Report(); len(reports) != 2 || r.Samples != 6 {
		t.Errorf("after a long time there are %+v, and %d reports", r, len(reports))
	}
	d.Reset()
	if r := d.Report(); r.Samples != 0 || r.Tracked != 0 {
		t.Errorf("after Reset: %+v", r)
	}
}

func TestOneOfManyIsMeasured(t *testing.T) {
	var n uint64
	d := mustNew(t, Options{Sample: 1000, Random: func() uint64 { n++; return n * (math.MaxUint64 / 10_000) }})
	calls := 0
	get := Wrap(d, func(context.Context, string) (int, error) { calls++; return 7, errors.New("as it is") })
	for range 5000 {
		d.Time("timed", func() { calls++ })
		if v, err := get(context.Background(), "wrapped"); v != 7 || err == nil {
			t.Fatal(v, err)
		}
	}
	if r := d.Report(); r.Samples != 10 || calls != 10_000 {
		t.Errorf("%v samples of %d calls, want 10 of 10000", r.Samples, calls)
	}
	plain := mustNew(t, Options{Sample: 10})
	hits := 0
	for range 100_000 {
		if plain.Sampled() {
			hits++
		}
	}
	if hits < 8000 || hits > 12_000 {
		t.Errorf("%d of 100000 were chosen, want about a tenth", hits)
	}
}

func TestManyGoroutinesMayObserve(t *testing.T) {
	d := mustNew(t, Options{Sample: 2, Keys: 16, Window: time.Millisecond, OnWindow: func(Report) {}})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				d.Observe(fmt.Sprint(i%(20+g)), time.Duration(i))
				if i%100 == 0 {
					d.Report()
				}
			}
		})
	}
	wg.Wait()
	if r := d.Report(); r.Tracked > 16 {
		t.Errorf("%+v", r)
	}
}

func TestWhatIsNotMeasuredCostsNoMemory(t *testing.T) {
	d := mustNew(t, Options{Sample: maxSample, Random: func() uint64 { return math.MaxUint64 }})
	f := func() {}
	if n := testing.AllocsPerRun(1000, func() {
		d.Observe("key", time.Millisecond)
		d.Time("key", f)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestBadOptionsAreAllReported(t *testing.T) {
	_, err := New(Options{Sample: -1, MinSamples: -1, MinKeys: -1, Ratio: math.NaN(), Keys: 1, Window: -1})
	for _, name := range []string{"Sample", "MinSamples", "MinKeys", "Ratio", "Keys", "Window"} {
		if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), name+" is") {
			t.Errorf("%v: %s is not named", err, name)
		}
	}
	if _, err := New(Options{MinKeys: 9, Keys: 8}); !errors.Is(err, ErrOptions) {
		t.Error(err)
	}
}

func BenchmarkObserve(b *testing.B) {
	for _, sample := range []int{1, 1000} {
		b.Run(fmt.Sprintf("sample=%d", sample), func(b *testing.B) {
			d := mustNew(b, Options{Sample: sample})
			b.ReportAllocs()
			for b.Loop() {
				d.Observe("key", time.Millisecond)
			}
		})
	}
}
