package heat

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestSkewOf_Figures(t *testing.T) {
	for _, test := range []struct {
		name string
		of   []float64
		want Skew
	}{
		{"nothing", nil, Skew{Top: -1}},
		{"idle", []float64{0, 0}, Skew{Top: -1}},
		{"even", []float64{5, 5, 5, 5}, Skew{MaxByMean: 1, MaxByMedian: 1, TopShare: 0.25}},
		{"one burns", []float64{1, 1, 16, 1, 1}, Skew{MaxByMean: 4, MaxByMedian: 16, TopShare: 0.8, Top: 2, Variation: 1.5}},
		{"one alone", []float64{0, 0, 9}, Skew{MaxByMean: 3, MaxByMedian: math.Inf(1), TopShare: 1, Top: 2, Variation: math.Sqrt2}},
	} {
		if got := SkewOf(test.of); got.Top != test.want.Top || !isNear(got.MaxByMean, test.want.MaxByMean) || got.MaxByMedian != test.want.MaxByMedian || !isNear(got.TopShare, test.want.TopShare) || !isNear(got.Variation, test.want.Variation) {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

func TestFanout_Shares(t *testing.T) {
	var f, o Fanout
	if cross, scatter := f.Shares(); cross != 0 || scatter != 0 {
		t.Errorf("of no requests %v and %v", cross, scatter)
	}
	f.Record(1, 1)
	f.Record(1, 8)
	f.Record(0, 8)
	f.Record(3, 8)
	o.Record(3, 8)
	o.Record(4, 8)
	o.Record(8, 8)
	o.Record(2, 2)
	f.Merge(o)
	if cross, scatter := f.Shares(); cross != 0.25 || scatter != 0.375 {
		t.Errorf("%+v: %v and %v", f, cross, scatter)
	}
}

// With few samples too, the entropy is that of the distribution and not that of the sample.
func TestSpread_IsThatOfTheDistribution(t *testing.T) {
	const slots = 1024
	for _, used := range []int{1, 2, 512, 1024} {
		for _, samples := range []int{2000, 100_000} {
			r := rand.New(rand.NewPCG(uint64(used), uint64(samples)))
			a, b := must(NewSlotCounts(slots)), must(NewSlotCounts(slots))
			for range samples / 2 {
				a.Add(uint16(r.IntN(used)), 3)
				b.Add(uint16(r.IntN(used)), 3)
			}
			a.Merge(b)
			a.Scale(0.999)
			s := a.Spread()
			if want := math.Log2(float64(used)); math.Abs(s.Entropy-want) > 0.1 || math.Abs(s.Evenness-want/10) > 0.01 || s.Max != 10 {
				t.Errorf("%d slots, %d samples: %+v, want %v bits", used, samples, s, want)
			}
			if used == 1 && (s.TopShare < 0.999999 || s.TopSlot != 0) {
				t.Errorf("%+v", s)
			}
		}
	}
	s := must(NewSlotCounts(slots))
	s.Add(2000, 1) // there is no such slot
	if got := s.Spread(); got.Evenness != 0 || got.Samples != 0 || got.Entropy != 0 {
		t.Errorf("of nothing: %+v", got)
	}
	s.Add(7, 1)
	if s.Reset(); s.Spread().Samples != 0 || s.Bytes() != 4*slots {
		t.Errorf("after Reset: %+v", s.Spread())
	}
}

func TestAlarm_RaisedOnceByADropAndClearedOnce(t *testing.T) {
	type window struct {
		evenness, samples float64
		want              AlarmChange
	}
	for name, windows := range map[string][]window{
		"a drop":                  {{0.95, 5000, AlarmSame}, {0.94, 5000, AlarmSame}, {0.8, 5000, AlarmRaised}, {0.8, 5000, AlarmSame}, {0.88, 5000, AlarmSame}, {0.93, 5000, AlarmCleared}, {0.9, 5000, AlarmSame}},
		"few samples":             {{0.95, 5000, AlarmSame}, {0.2, 999, AlarmSame}, {0.2, 1000, AlarmRaised}},
		"uneven from the start":   {{0.4, 5000, AlarmRaised}, {0.45, 5000, AlarmSame}, {0.6, 5000, AlarmCleared}},
		"uneven, but usually so":  {{0.7, 5000, AlarmSame}, {0.65, 5000, AlarmSame}, {0.62, 5000, AlarmSame}},
		"a slow decline to worse": {{0.7, 5000, AlarmSame}, {0.66, 5000, AlarmSame}, {0.57, 5000, AlarmRaised}},
	} {
		a := must(NewAlarm(AlarmOptions{}))
		for i, w := range windows {
			if got := a.Step(Spread{Evenness: w.evenness, Samples: w.samples}, time.Minute); got != w.want {
				t.Errorf("%s: window %d of evenness %v is %v, want %v (usual is %v)", name, i, w.evenness, got, w.want, a.Usual())
			}
		}
	}
}

func TestAlarm_WhatLastsBecomesUsual(t *testing.T) {
	a := must(NewAlarm(AlarmOptions{HalfLife: 10 * time.Minute}))
	for range 60 {
		a.Step(Spread{Evenness: 0.95, Samples: 1e4}, time.Minute)
	}
	if a.Step(Spread{Evenness: 0.7, Samples: 1e4}, time.Minute) != AlarmRaised || !a.On() {
		t.Fatal("not raised")
	}
	for range 20 {
		if a.Step(Spread{Evenness: 0.7, Samples: 1e4}, time.Minute) != AlarmSame {
			t.Fatal("cleared after some minutes")
		}
	}
	for range 24 * 60 {
		a.Step(Spread{Evenness: 0.7, Samples: 1e4}, time.Minute)
	}
	if a.On() || math.Abs(a.Usual()-0.7) > 0.05 {
		t.Errorf("after a day it is on: %t, usual is %v", a.On(), a.Usual())
	}
}

func TestEntropy_BadOptions(t *testing.T) {
	for _, o := range []AlarmOptions{{Drop: 2}, {Floor: -1}, {MinSamples: 0.5}, {HalfLife: -1}, {Drop: math.NaN()}} {
		if _, err := NewAlarm(o); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := NewSlotCounts(1); !errors.Is(err, ErrOptions) {
		t.Error(err)
	}
}

func BenchmarkSpread(b *testing.B) {
	s := must(NewSlotCounts(16384))
	r := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		s.Add(uint16(r.IntN(16384)), 1)
	}
	for b.Loop() {
		s.Spread()
	}
}
