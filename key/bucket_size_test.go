package key

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSizeBucketOnKnownLoads(t *testing.T) {
	day := 24 * time.Hour
	for _, c := range []struct {
		name   string
		load   Load
		bucket Bucket
		bytes  float64
		fanOut int
		fit    Fit
		salts  int
	}{
		{"1 Hz telemetry", Load{RecordsPerSecond: 1, RecordBytes: 120, LookBack: 7 * day}, Day, 10.368e6, 8, FitGood, 1},
		{"ticks", Load{RecordsPerSecond: 500, RecordBytes: 64, LookBack: day}, Hour, 115.2e6, 25, FitGood, 1},
		{"audit log", Load{RecordsPerSecond: 1. / 60, RecordBytes: 1000, LookBack: 90 * day}, Month, 44.64e6, 5, FitGood, 1},
		{"firehose", Load{RecordsPerSecond: 1e4, RecordBytes: 200, LookBack: time.Hour}, Hour, 7.2e9, 2, FitTooBig, 32},
		{"flood", Load{RecordsPerSecond: 1e9, RecordBytes: 1e4}, Hour, 3.6e16, 1, FitTooBig, 0},
		{"just as many salts as there are", Load{RecordsPerSecond: MaxSalts, RecordBytes: 1, TargetBytes: 3600}, Hour, 3600 * MaxSalts, 1, FitTooBig, MaxSalts},
		{"thermostat", Load{RecordsPerSecond: 1. / 3600, RecordBytes: 100}, Month, 74400, 1, FitSmall, 1},
		{"own target", Load{RecordsPerSecond: 1, RecordBytes: 100, TargetBytes: 360_000}, Hour, 360e3, 1, FitGood, 1},
	} {
		a, err := SizeBucket(c.load)
		if err != nil {
			t.Fatal(err)
		}
		if a.Bucket != c.bucket || math.Abs(a.Bytes/c.bytes-1) > 1e-9 || a.FanOut != c.fanOut || a.Fit != c.fit || a.Salts != c.salts {
			t.Errorf("%s: got %+v", c.name, a)
		}
		if a.Reason == "" {
			t.Errorf("%s: no reason", c.name)
		}
	}
}

func TestSizeBucketTakesTheLongestThatFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Load{
			RecordsPerSecond: math.Exp(rapid.Float64Range(-15, 15).Draw(t, "lnRate")),
			RecordBytes:      rapid.Float64Range(1, 1e5).Draw(t, "bytes"),
			LookBack:         time.Duration(rapid.Int64Range(0, int64(1000*24*time.Hour)).Draw(t, "lookBack")),
		}
		a, err := SizeBucket(l)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range a.Choices {
			longer := longestSeconds(c.Bucket) > longestSeconds(a.Bucket)
			if longer && c.Bytes <= DefaultPartitionBytes {
				t.Fatalf("advised %v though %v fits", a.Bucket, c.Bucket)
			}
		}
		if fits := a.Bytes <= DefaultPartitionBytes; fits == (a.Fit == FitTooBig) {
			t.Fatalf("%v bytes are called %v", a.Bytes, a.Fit)
		}
		if a.Salts > 0 && a.Bytes/float64(a.Salts) > DefaultPartitionBytes {
			t.Fatalf("%d salts leave %v bytes each", a.Salts, a.Bytes/float64(a.Salts))
		}
	})
}

// countTouched is the fan-out of one concrete closed window.
func countTouched(b Bucket, from, to time.Time) int {
	x, _ := b.Of(from)
	y, _ := b.Of(to)
	return int(y.Index()-x.Index()) + 1
}

// mostTouched tries the worst windows: those that begin at the last instant of
// a bucket, in the stretch from 1896 to 1904 that has no leap day.
func mostTouched(b Bucket, window time.Duration, enough int) (most int) {
	s, _ := b.Of(time.Date(1896, 3, 1, 0, 0, 0, 0, time.UTC))
	for ; s.Start().Year() < 1898 && most < enough; s = s.Next() {
		from := s.End().Add(-1)
		most = max(most, countTouched(b, from, from.Add(window)))
	}
	return most
}

func TestFanOutIsTheLeastUpperBound(t *testing.T) {
	day := 24 * time.Hour
	for days := range 400 {
		for _, extra := range []time.Duration{0, 1} {
			window := time.Duration(days)*day + extra
			for _, b := range []Bucket{Day, Month} {
				bound := fanOut(b, window)
				if most := mostTouched(b, window, bound+1); most != bound {
					t.Fatalf("a window of %v touches up to %d %vs, bound says %d", window, most, b, bound)
				}
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		// Up to six years: the bound is exact there.
		window := time.Duration(rapid.Int64Range(1, int64(6*365*day)).Draw(t, "window"))
		b := rapid.SampledFrom([]Bucket{Hour, Day, Month}).Draw(t, "bucket")
		bound := fanOut(b, window)
		if most := mostTouched(b, window, bound+1); most != bound {
			t.Fatalf("a window of %v touches up to %d %vs, bound says %d", window, most, b, bound)
		}
	})
}

func TestTheLongestLookBackHasAFanOut(t *testing.T) {
	// 292 years: a month more does not fit a Duration.
	for _, window := range []time.Duration{math.MaxInt64, 106_740 * 24 * time.Hour} {
		a, err := SizeBucket(Load{RecordsPerSecond: 1, RecordBytes: 1, LookBack: window})
		if months := a.Choices[2].FanOut; err != nil || months < 292*12 || months > 293*12+1 {
			t.Errorf("%v touches %d months, %v", window, months, err)
		}
	}
}

func TestSizeBucketReportsAllProblemsAtOnce(t *testing.T) {
	_, err := SizeBucket(Load{RecordsPerSecond: math.NaN(), RecordBytes: -1, TargetBytes: -1, LookBack: -1})
	var all interface{ Unwrap() []error }
	if !errors.Is(err, ErrBucket) || !errors.As(err, &all) || len(all.Unwrap()) != 4 {
		t.Errorf("got %v, want four problems", err)
	}
	for _, l := range []Load{{}, {RecordsPerSecond: 1}, {RecordBytes: 1}, {RecordsPerSecond: math.Inf(1), RecordBytes: 1}} {
		if _, err := SizeBucket(l); !errors.Is(err, ErrBucket) {
			t.Errorf("%+v: got %v", l, err)
		}
	}
}

func TestByteText(t *testing.T) {
	for n, want := range map[float64]string{0: "0 B", 999: "999 B", 999.7: "1 KB", 10.368e6: "10.4 MB", 250e6: "250 MB", 3e21: "3e+03 EB"} {
		if got := byteText(n); got != want {
			t.Errorf("%v prints as %q, want %q", n, got, want)
		}
	}
}
