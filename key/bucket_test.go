package key

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func parseTime(t testing.TB, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// anyBucket draws the named buckets often, since their borders are special.
func anyBucket() *rapid.Generator[Bucket] {
	return rapid.OneOf(
		rapid.SampledFrom([]Bucket{Minute, Hour, Day, Month, 1, 15 * 60, 7 * Day, maxWidth}),
		rapid.Custom(func(t *rapid.T) Bucket { return Bucket(rapid.Int64Range(1, int64(maxWidth)).Draw(t, "width")) }),
	)
}

func anyTime() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		sec := rapid.OneOf(
			rapid.Int64Range(minUnix, maxUnix),
			rapid.Int64Range(-200*int64(Day), 200*int64(Day)),
			rapid.SampledFrom([]int64{minUnix, maxUnix, -1, 0}),
		).Draw(t, "sec")
		nsec := rapid.SampledFrom([]int64{0, 1, 999_999_999}).Draw(t, "nsec")
		return time.Unix(sec, nsec)
	})
}

func TestSpansOfCalendarBuckets(t *testing.T) {
	for _, c := range []struct {
		bucket           Bucket
		time, start, end string
		text             string
	}{
		{Minute, "2026-03-01T14:59:59.999999999Z", "2026-03-01T14:59:00Z", "2026-03-01T15:00:00Z", "2026-03-01T14:59:00"},
		{Hour, "2026-03-01T14:59:59.999999999Z", "2026-03-01T14:00:00Z", "2026-03-01T15:00:00Z", "2026-03-01T14"},
		{Hour, "2025-12-31T23:30:00Z", "2025-12-31T23:00:00Z", "2026-01-01T00:00:00Z", "2025-12-31T23"},
		{Day, "2024-02-28T23:59:59Z", "2024-02-28T00:00:00Z", "2024-02-29T00:00:00Z", "2024-02-28"},
		{Day, "2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z", "2024-02-29"},
		{Day, "2026-03-29T01:30:00+02:00", "2026-03-28T00:00:00Z", "2026-03-29T00:00:00Z", "2026-03-28"},
		{Month, "2024-02-29T12:00:00Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z", "2024-02"},
		{Month, "2100-02-28T12:00:00Z", "2100-02-01T00:00:00Z", "2100-03-01T00:00:00Z", "2100-02"},
		{Month, "2025-12-31T23:59:59Z", "2025-12-01T00:00:00Z", "2026-01-01T00:00:00Z", "2025-12"},
		{Month, "1969-12-31T23:59:59Z", "1969-12-01T00:00:00Z", "1970-01-01T00:00:00Z", "1969-12"},
		{15 * 60, "2026-03-01T14:44:59Z", "2026-03-01T14:30:00Z", "2026-03-01T14:45:00Z", "2026-03-01T14:30:00"},
		{7 * Day, "2026-03-01T00:00:00Z", "2026-02-26T00:00:00Z", "2026-03-05T00:00:00Z", "2026-02-26"},
	} {
		s, err := c.bucket.Of(parseTime(t, c.time))
		if err != nil {
			t.Fatal(err)
		}
		if !s.Start().Equal(parseTime(t, c.start)) || !s.End().Equal(parseTime(t, c.end)) || s.String() != c.text {
			t.Errorf("%v of %s is %v, from %v to %v; want %s to %s", c.bucket, c.time, s, s.Start(), s.End(), c.start, c.end)
		}
	}
}

func TestSpansTileTimeWithoutGapOrOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, when := anyBucket().Draw(t, "bucket"), anyTime().Draw(t, "time")
		s, err := b.Of(when)
		if err != nil {
			t.Fatal(err)
		}
		if !s.Contains(when) || !s.Contains(s.Start()) || s.Contains(s.End()) || s.Contains(s.Start().Add(-1)) {
			t.Fatalf("%v %v covers [%v, %v), asked for %v", b, s, s.Start(), s.End(), when)
		}
		if !s.Next().Start().Equal(s.End()) || !s.Prev().End().Equal(s.Start()) {
			t.Fatalf("%v: a gap beside %v", b, s)
		}
		if s.Next().Prev() != s || s.Next().Index() != s.Index()+1 {
			t.Fatalf("%v: next and prev of %v do not undo each other", b, s)
		}
	})
}

func TestIndexAndTextSortAsTimeDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := anyBucket().Draw(t, "bucket")
		x, y := anyTime().Draw(t, "x"), anyTime().Draw(t, "y")
		sx, _ := b.Of(x)
		sy, _ := b.Of(y)
		want := sx.Start().Compare(sy.Start())
		if x.Before(y) && want > 0 {
			t.Fatalf("%v starts after %v", sx, sy)
		}
		if got := strings.Compare(sx.String(), sy.String()); got != want {
			t.Fatalf("text of %v and %v compares %d, times %d", sx, sy, got, want)
		}
		kx, ky := AppendInt(nil, sx.Index()), AppendInt(nil, sy.Index())
		if got := bytes.Compare(kx, ky); got != want {
			t.Fatalf("keys of %v and %v compare %d, times %d", sx, sy, got, want)
		}
	})
}

func TestSpansAndBucketsReadBackWhatTheyPrint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := anyBucket().Draw(t, "bucket")
		if got, err := ParseBucket(b.String()); err != nil || got != b {
			t.Fatalf("bucket %v reads back as %v, %v", b, got, err)
		}
		s, _ := b.Of(anyTime().Draw(t, "time"))
		if got, err := b.Parse(s.String()); err != nil || got != s {
			t.Fatalf("span %v of %v reads back as %v, %v", s, b, got, err)
		}
		if got, err := b.At(s.Index()); err != nil || got != s {
			t.Fatalf("index %d of %v reads back as %v, %v", s.Index(), b, got, err)
		}
	})
}

func TestBucketNames(t *testing.T) {
	for text, want := range map[string]Bucket{
		"hour": Hour, "day": Day, "month": Month, "1h": Hour, "24h": Day, "15m": 900, "90m": 5400, "1m30s": 90, "168h": 7 * Day,
	} {
		got, err := ParseBucket(text)
		if err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	if got := Bucket(5400).String(); got != "1h30m" {
		t.Errorf("90 minutes print as %q", got)
	}
	if got := Bucket(0).String(); got != "Bucket(0)" {
		t.Errorf("the zero bucket prints as %q", got)
	}
}

func TestBadBucketsAreRefused(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	fails := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrBucket) {
			t.Errorf("%s: got %v, want ErrBucket", what, err)
		}
	}
	for _, d := range []time.Duration{0, -time.Hour, time.Millisecond, 1500 * time.Millisecond, 367 * 24 * time.Hour, math.MaxInt64, math.MinInt64} {
		_, err := Every(d)
		fails(d.String(), err)
	}
	for _, s := range []string{"", "0", "0s", "week", "Hour", "-1h", "1ms", "15", "9999999h"} {
		_, err := ParseBucket(s)
		fails(s, err)
	}
	for _, b := range []Bucket{0, -2, maxWidth + 1, math.MinInt64, math.MaxInt64} {
		fails(b.String(), b.Validate())
		_, err := b.Of(now)
		fails("Of", err)
		_, err = b.At(0)
		fails("At", err)
		_, err = b.Parse("2026-01-01")
		fails("Parse", err)
	}
	for _, s := range []string{"", "2026", "2026-13", "2026-1", "2026-01-01", "0000-12", "10000-01"} {
		_, err := Month.Parse(s)
		fails(s, err)
	}
	_, err := Bucket(7 * Day).Parse("2026-02-27")
	fails("a day inside a week", err)
	for _, when := range []time.Time{time.Unix(minUnix, 0).Add(-1), time.Unix(maxUnix+1, 0), time.Unix(math.MaxInt64, 0)} {
		_, err := Day.Of(when)
		fails(when.String(), err)
	}
	for _, i := range []int64{math.MinInt64, math.MaxInt64, 1 << 40} {
		_, err := Month.At(i)
		fails("index", err)
	}
}

func TestSpansAreMapKeys(t *testing.T) {
	a, _ := Day.Of(time.Unix(0, 0))
	b, _ := Day.Of(time.Unix(3600, 0).In(time.FixedZone("x", 3600)))
	if m := map[Span]bool{a: true}; !m[b] {
		t.Error("two times of one day gave different spans")
	}
	if !slices.Equal([]Span{a.Prev()}, []Span{b.Prev()}) || a.Bucket() != Day {
		t.Error("neighbours differ")
	}
	var zero Span
	if !zero.Start().Equal(zero.End()) {
		t.Error("the zero span is not empty")
	}
}

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
