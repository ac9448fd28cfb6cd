package heat

import (
	"errors"
	"maps"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func isNear(a, b float64) bool { return math.Abs(a-b) <= 1e-9*(1+math.Abs(a)+math.Abs(b)) }

// Each interval of constant rate weighs the integral of 2^(-age/h) over it.
func TestShardRates_AreTheIntegralOverTheWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		halfLives := []time.Duration{time.Second, 10 * time.Second, time.Hour}
		rates := must(NewShardRates[string](halfLives...))
		type interval struct {
			from, to time.Duration
			reads    uint64
		}
		var all []interval
		at, total := time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "start")), uint64(5)
		record := func() {
			rates.Record(at, maps.All(map[string]Counts{"s": {Reads: total, Service: time.Duration(total) * time.Millisecond}}))
		}
		record()
		for range rapid.IntRange(1, 20).Draw(t, "intervals") {
			d := time.Duration(rapid.Int64Range(1e6, 1e11).Draw(t, "length"))
			n := rapid.Uint64Range(0, 1e6).Draw(t, "reads")
			all = append(all, interval{at, at + d, n})
			at, total = at+d, total+n
			record()
		}
		for i, h := range halfLives {
			sum, weights := 0.0, 0.0
			for _, v := range all {
				w := math.Exp2(-float64(at-v.to)/float64(h)) - math.Exp2(-float64(at-v.from)/float64(h))
				sum += w * float64(v.reads) / (v.to - v.from).Seconds()
				weights += w
			}
			got := rates.Of("s")[i]
			if want := sum / weights; math.Abs(got.Reads-want) > 1e-6*(1+want) || math.Abs(got.Service-want/1e3) > 1e-6*(1+want) {
				t.Fatalf("half-life %v: %+v, want %v reads", h, got, want)
			}
		}
	})
}

func TestShardRates_ShardsComeAndGo(t *testing.T) {
	rates := must(NewShardRates[int](time.Second, time.Minute))
	record := func(second int, counts map[int]Counts) {
		rates.Record(time.Duration(second)*time.Second, maps.All(counts))
	}
	record(10, map[int]Counts{1: {Writes: 1000}})
	if rates.Of(1) != nil || rates.Of(2) != nil {
		t.Fatal("there are rates of one moment")
	}
	record(12, map[int]Counts{1: {Writes: 1200}, 2: {Writes: 10, Errors: 4}})
	if one, two := rates.Of(1), rates.Of(2); !isNear(one[0].Ops(), 100) || !isNear(one[1].Ops(), 100) || !isNear(two[1].Writes, 5) || !isNear(two[0].Errors, 2) {
		t.Fatalf("%+v and %+v", one, two)
	}
	record(12, map[int]Counts{1: {Writes: 9000}}) // no time has passed
	if rates.Len() != 2 {
		t.Fatalf("%d shards", rates.Len())
	}
	record(13, map[int]Counts{1: {Writes: 7}}) // counted anew, as after a restart
	if r := rates.Of(1)[0]; rates.Of(2) != nil || rates.Len() != 1 || !isNear(r.Writes, 100+(7-100)*(0.5/(1-1.0/8))) {
		t.Fatalf("%+v, %d shards", r, rates.Len())
	}
	for id, r := range rates.All(1) {
		if id != 1 || r != rates.Of(1)[1] {
			t.Errorf("%d: %+v", id, r)
		}
	}
}

func TestShardRates_ShortWindowForgetsFirst(t *testing.T) {
	rates := must(NewShardRates[int](time.Second, time.Minute))
	counts := Counts{}
	for second := range 120 {
		if second <= 60 {
			counts.Reads += 100
		}
		rates.Record(time.Duration(second)*time.Second, maps.All(map[int]Counts{0: counts}))
	}
	if r := rates.Of(0); r[0].Reads > 1e-9 || r[1].Reads < 20 || r[1].Reads > 50 {
		t.Errorf("a minute after the last read: %+v", r)
	}
}

func TestNewShardRates_BadOptions(t *testing.T) {
	for _, halfLives := range [][]time.Duration{nil, {0}, {time.Second, -1}, make([]time.Duration, 9)} {
		if _, err := NewShardRates[int](halfLives...); !errors.Is(err, ErrOptions) {
			t.Errorf("%v: %v", halfLives, err)
		}
	}
}

func BenchmarkShardRates(b *testing.B) {
	rates := must(NewShardRates[int](10*time.Second, time.Minute, 10*time.Minute))
	counts := map[int]Counts{}
	for i := range 1000 {
		counts[i] = Counts{Reads: uint64(i)}
	}
	at := time.Duration(0)
	b.ReportAllocs()
	for b.Loop() {
		at += time.Second
		rates.Record(at, maps.All(counts))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/shard")
}
