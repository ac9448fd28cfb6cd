package heat

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave/hash"
)

// While a reader collects, no operation is lost and none is counted twice.
func TestMeter_CollectsWhileRecordersGoOn(t *testing.T) {
	const goroutines, each = 4, 5000
	m := must(NewMeter(Options{Every: 1, TopKeys: 64, Slots: 16, HalfLife: 1000 * time.Hour}))
	var recording sync.WaitGroup
	for g := range goroutines {
		r := m.NewRecorder()
		recording.Go(func() {
			for i := range each {
				r.Observe(&Access{Key: fmt.Append(nil, i%50), Slot: uint16(i % 16), BytesOut: 10, Service: time.Microsecond, Client: fmt.Sprint(g)})
			}
			if g == 0 {
				m.Release(r)
				m.Release(r) // does nothing
			}
		})
	}
	done := make(chan struct{})
	go func() { recording.Wait(); close(done) }()
	for at := time.Duration(0); ; at++ {
		select {
		case <-done:
			m.Collect(at)
		default:
			m.Collect(at)
			m.Top(ByOps, 3)
			m.Bytes()
			continue
		}
		break
	}
	for by, each := range map[Measure]float64{ByOps: 1, ByBytes: 10, ByService: 1000} {
		top, total := m.Top(by, -1)
		if len(top) != 50 || math.Abs(total-each*goroutines*5000) > 1e-3*total || math.Abs(top[0].Count-total/50) > 1e-3*total {
			t.Errorf("by %v: %d keys, %v in all, the first is %+v", by, len(top), total, top[0])
		}
	}
	if l := m.Load(nil, nil); math.Abs(l.Reads-goroutines*each) > 0.05*goroutines*each {
		t.Errorf("%+v of all ranges", l)
	}
	if l := m.Loads([][]byte{[]byte("2"), []byte("3")}); len(l) != 3 || l[1] != m.Load([]byte("2"), []byte("3")) || l[1].Reads < 1 {
		t.Errorf("%+v by range", l)
	}
	if s := m.Spread(); s.Evenness < 0.99 || s.Samples < goroutines*each-1 {
		t.Errorf("%+v", s)
	}
}

// What is sampled stands for all: counts, bytes and times are right on average, also those of few large operations.
func TestMeter_SampleStandsForAll(t *testing.T) {
	m := must(NewMeter(Options{Every: 64, HalfLife: 1000 * time.Hour, Seed: 7}))
	recorders := []*Recorder{m.NewRecorder(), m.NewRecorder(), m.NewRecorder()}
	exact := map[Measure]*exactCounts{}
	for by := range measures {
		exact[by] = &exactCounts{by: by, counts: map[string]float64{}}
	}
	const operations = 300_000
	for i := range operations {
		a := Access{Key: fmt.Appendf(nil, "cold %d", i%20_000), BytesOut: 100, Service: 2 * time.Microsecond}
		switch {
		case i%20 == 0:
			a.Key = []byte("hot")
		case i%3000 == 1:
			a.Key, a.BytesIn, a.Write = []byte("large"), 1<<20, true
		case i%3000 == 2:
			a.Key, a.Service = []byte("slow"), 20*time.Millisecond
		}
		recorders[i%3].Observe(&a)
		for _, e := range exact {
			e.add(&a)
		}
	}
	m.Collect(0)
	for by, key := range map[Measure]string{ByOps: "hot", ByBytes: "large", ByService: "slow"} {
		top, total := m.Top(by, 1)
		want := exact[by].counts[key]
		if top[0].Key != key || math.Abs(top[0].Count-want) > 5*top[0].Deviation+top[0].Error || math.Abs(top[0].Count-want) > 0.15*want {
			t.Errorf("by %v: %+v, want %v of %s", by, top[0], want, key)
		}
		if math.Abs(total-exact[by].total) > 0.1*exact[by].total {
			t.Errorf("by %v: %v in all, want %v", by, total, exact[by].total)
		}
	}
	top, _ := m.Top(ByService, 1)
	if top[0].P99 < 20*time.Millisecond || top[0].P99 > 30*time.Millisecond || top[0].Mean < 19*time.Millisecond {
		t.Errorf("%+v", top[0])
	}
	if got := m.Load([]byte("cold"), []byte("d")).Ops(); math.Abs(got-0.95*operations) > 0.1*operations {
		t.Errorf("%v operations on cold keys", got)
	}
}

func TestMeter_OldOperationsCountLess(t *testing.T) {
	m := must(NewMeter(Options{Every: 1, HalfLife: 10 * time.Second, Slots: 2}))
	r := m.NewRecorder()
	for second := range 101 {
		if second > 0 && second <= 60 {
			for range 100 {
				r.Observe(&Access{Key: []byte("k")})
			}
		}
		m.Collect(time.Duration(second) * time.Second)
		top, _ := m.Top(ByOps, 1)
		switch rate := func() float64 { return top[0].Count / m.Window().Seconds() }; {
		case second > 0 && second <= 60 && math.Abs(rate()-100) > 4: // the last interval weighs as if it were over
			t.Fatalf("%v a second after %d seconds of 100", rate(), second)
		case second == 100 && math.Abs(rate()-100.0/16) > 1:
			t.Fatalf("%v a second four half-lives later", rate())
		}
	}
	m.Collect(time.Second) // the clock was set back
	m.Collect(1e6 * time.Hour)
	if top, total := m.Top(ByOps, 1); len(top) != 0 || total > 1e-9 {
		t.Errorf("%+v of %v are left", top, total)
	}
}

func TestMeter_DrawsAHeatMap(t *testing.T) {
	heatMap := must(NewMap(MapOptions{Layers: shortLayers}))
	m := must(NewMeter(Options{Every: 1, Map: heatMap}))
	a, b := m.NewRecorder(), m.NewRecorder()
	for second := range 10 {
		for i := range 50 {
			a.Observe(&Access{Key: fmt.Append(nil, i)})
			b.Observe(&Access{Key: fmt.Append(nil, i), Write: true})
		}
		m.Collect(time.Duration(second+1) * time.Second)
	}
	for _, metric := range []Metric{MetricReads, MetricWrites} {
		v := must(heatMap.View(ViewOptions{Metric: metric}))
		if len(v.Columns) != 9 { // the tenth is not over
			t.Fatalf("%d columns", len(v.Columns))
		}
		for i := range v.Columns {
			if got := sumColumn(v, i); math.Abs(got-50) > 7 {
				t.Errorf("metric %d, second %d: %v", metric, i, got)
			}
		}
	}
}

func TestMeter_SummariesOfProcessesAreMerged(t *testing.T) {
	var all *Summary
	for process := range uint64(3) {
		m := must(NewMeter(Options{Every: 1, Seed: process << 32, Slots: 4}))
		r := m.NewRecorder()
		for range 100 {
			r.Observe(&Access{Key: []byte("k"), Slot: uint16(process)})
		}
		m.Collect(0)
		s := must(DecodeSummary(must(m.Summary().AppendBinary(nil))))
		if all == nil {
			all = s
		} else if err := all.Merge(s); err != nil {
			t.Fatal(err)
		}
	}
	if k := all.TopKeys(ByOps).Top(-1); len(k) != 1 || k[0].Count != 300 || all.Ranges().Total().Reads != 300 || all.Ranges().Load(nil, nil).Reads != 300 || all.Slots().Spread().Samples != 300 {
		t.Errorf("%+v", k)
	}
	for _, slots := range []int{0, 8} {
		if err := all.Merge(must(NewMeter(Options{Slots: slots})).Summary()); !errors.Is(err, ErrOptions) {
			t.Errorf("%d slots: %v", slots, err)
		}
	}
}

func TestMeter_TopIn_IsOfTheRange(t *testing.T) {
	m := must(NewMeter(Options{Every: 1}))
	r := m.NewRecorder()
	for i := range 100 {
		for range i + 1 {
			r.Observe(&Access{Key: fmt.Appendf(nil, "%02d", i)})
		}
	}
	m.Collect(0)
	if top := m.TopIn(ByOps, []byte("20"), []byte("30"), 2); len(top) != 2 || top[0].Key != "29" || top[1].Key != "28" {
		t.Errorf("%+v", top)
	}
	if top := m.TopIn(ByOps, []byte("97"), nil, -1); len(top) != 3 || top[0].Key != "99" || top[0].Count != 100 {
		t.Errorf("%+v", top)
	}
}

// A summary that is decoded is one that could have been written, and merging it breaks nothing.
func FuzzDecodeSummary(f *testing.F) {
	for _, slots := range []int{0, 4} {
		m := must(NewMeter(Options{Every: 1, TopKeys: 4, Ranges: 16, Slots: slots}))
		r := m.NewRecorder()
		for i := range 30 {
			r.Observe(&Access{Key: fmt.Append(nil, i%7), Slot: uint16(i % 3), Write: i%2 == 0, BytesIn: i, Service: time.Duration(i), Command: "GET"})
		}
		m.Collect(0)
		f.Add(must(m.Summary().AppendBinary(nil)))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeSummary(b)
		if err != nil {
			if !errors.Is(err, ErrEncoding) {
				t.Fatal(err)
			}
			return
		}
		again := must(DecodeSummary(must(s.AppendBinary(nil))))
		if s.Ranges().Load(nil, nil) != again.Ranges().Load(nil, nil) || s.Ranges().Total() != again.Ranges().Total() || s.Ranges().Len() != again.Ranges().Len() {
			t.Fatalf("%+v became %+v", s.Ranges(), again.Ranges())
		}
		if s.Slots() != nil && s.Slots().Spread() != again.Slots().Spread() {
			t.Fatalf("%+v became %+v", s.Slots().Spread(), again.Slots().Spread())
		}
		if err := again.Merge(s); err != nil {
			t.Fatal(err)
		}
		again.Scale(0.5)
		again.Add(&Access{Key: []byte("k"), Service: 1}, 1)
		if l := again.Ranges().Load(nil, nil); !(l.Ops() >= 0) || math.IsInf(l.BytesIn, 0) || again.Ranges().Len() > again.Ranges().capacity {
			t.Fatalf("%+v of %d", l, again.Ranges().Len())
		}
		if _, err := again.Ranges().Split(SplitOptions{MinSamples: 1}); err != nil && !errors.Is(err, ErrUnsplittable) {
			t.Fatal(err)
		}
	})
}

func TestMeter_MemoryIsBounded(t *testing.T) {
	m := must(NewMeter(Options{Every: 1, TopKeys: 64, Ranges: 64}))
	r := m.NewRecorder()
	key := make([]byte, MaxKeyBytes)
	limit := 0
	for second := range 30 {
		for i := range 2000 {
			copy(key, fmt.Append(nil, second, i))
			r.Observe(&Access{Key: key, Service: 1, BytesIn: 1, Client: string(key)})
		}
		m.Collect(time.Duration(second) * time.Second)
		if second == 5 {
			limit = m.Bytes()
		}
	}
	if m.Bytes() > limit*3/2 || m.Bytes() > 3*64*4*(MaxKeyBytes+800) {
		t.Errorf("%d bytes, after 5 seconds there were %d", m.Bytes(), limit)
	}
}

func TestSharedRecorder_SampleStandsForAll(t *testing.T) {
	m := must(NewMeter(Options{Every: 50, HalfLife: 1000 * time.Hour, Slots: 1000}))
	s := must(m.NewSharedRecorder(3, rand.Uint64))
	const goroutines, each = 4, 50_000
	var recording sync.WaitGroup
	for range goroutines {
		recording.Go(func() {
			for i := range each {
				a := Access{Key: fmt.Append(nil, i%1000), BytesOut: 100}
				if i%1000 == 0 {
					a.BytesOut = 1 << 20
				}
				a.Slot = s.SlotOf(hash.XXH3(a.Key))
				if weight := s.Sampled(Cost(a.BytesOut, 0)); weight > 0 {
					s.Record(&a, weight)
				}
			}
		})
	}
	recording.Wait()
	s.Release(m)
	if _, ops := m.Top(ByOps, 0); math.Abs(ops-goroutines*each) > 0.1*goroutines*each {
		t.Errorf("%v operations, want %d", ops, goroutines*each)
	}
	top, bytes := m.Top(ByBytes, 1)
	if want := float64(goroutines * each * (100*0.999 + 1<<20*0.001)); math.Abs(bytes-want) > 0.1*want || top[0].Key != "0" {
		t.Errorf("%v bytes, want %v; most are of %s", bytes, want, top[0].Key)
	}
	if spread := m.Spread(); spread.Evenness < 0.9 || spread.Evenness > 0.97 { // 1000 keys on 1000 slots
		t.Errorf("%+v", spread)
	}
	all := must(must(NewMeter(Options{Every: 1})).NewSharedRecorder(1, func() uint64 { return math.MaxUint64 }))
	if all.Sampled(1) != 1 || all.Sampled(1e6) != 1 || all.SlotOf(hash.XXH3String("k")) != 0 {
		t.Error("one of all is left out")
	}
	for n, random := range map[int]func() uint64{0: rand.Uint64, 65: rand.Uint64, 1: nil} {
		if _, err := m.NewSharedRecorder(n, random); !errors.Is(err, ErrOptions) {
			t.Errorf("%d: %v", n, err)
		}
	}
}

func BenchmarkSharedRecorder(b *testing.B) {
	s := must(must(NewMeter(Options{})).NewSharedRecorder(2, rand.Uint64))
	a := Access{Key: []byte("user:1"), Command: "GET", Client: "web", BytesOut: 100}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if weight := s.Sampled(Cost(100, 0)); weight > 0 {
				s.Record(&a, weight)
			}
		}
	})
}

func TestRecorder_WhatIsNotSampledTakesNoMemory(t *testing.T) {
	r := must(NewMeter(Options{})).NewRecorder()
	a := Access{Key: []byte("k"), Command: "GET", Client: "web"}
	r.Observe(&a)
	if n := testing.AllocsPerRun(10_000, func() { r.Observe(&a) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestNewMeter_BadOptions(t *testing.T) {
	for _, o := range []Options{{Every: -1}, {Every: 1 << 30}, {TopKeys: 1}, {Ranges: 1}, {Slots: 1}, {Slots: -1}, {HalfLife: -1}} {
		if _, err := NewMeter(o); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func BenchmarkRecorder(b *testing.B) {
	all := newTraffic(1, 1<<12) // of 300 KiB: it does not measure the memory of the traffic
	for i := range all {
		all[i].Command, all[i].Client, all[i].Slot, all[i].BytesOut = "GET", "web", uint16(i%16384), 100
	}
	for _, every := range []int{1, 64, 128, 1024, maxEvery} {
		b.Run(fmt.Sprintf("every=%d", every), func(b *testing.B) {
			r := must(NewMeter(Options{Every: every, Slots: 16384})).NewRecorder()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if a := &all[i&(len(all)-1)]; r.Sampled(Cost(a.BytesIn+a.BytesOut, 0)) {
					r.Record(a)
				}
			}
		})
	}
}

func BenchmarkMeter_Collect(b *testing.B) {
	all := newTraffic(1, 1<<16)
	m := must(NewMeter(Options{Every: 1, Slots: 16384}))
	r := m.NewRecorder()
	for at := 0; b.Loop(); at++ {
		b.StopTimer()
		for i := range 1000 { // a second of 128,000 operations
			r.Observe(&all[(at*1000+i)%len(all)])
		}
		b.StartTimer()
		m.Collect(time.Duration(at) * time.Second)
	}
}

// A recorder that is asked to sample more than it should samples rarer, and finely again when there is less; counts stay right
// all the time.
func TestRecorder_BusierThanItMaySample_SamplesRarerAndCountsRight(t *testing.T) {
	const every, most = 8, 200
	for _, shared := range []bool{false, true} {
		m := must(NewMeter(Options{Every: every, MaxSamples: most, HalfLife: 1000 * time.Hour, Seed: 3}))
		own := m.NewRecorder()
		random := rand.New(rand.NewPCG(5, 6))
		many := must(m.NewSharedRecorder(1, random.Uint64))
		samples, at := 0, time.Duration(0)
		interval := func(operations int) (taken int) {
			before := samples
			for i := range operations {
				a := &Access{Key: []byte("hot"), Write: true}
				if i%4 == 0 {
					a.Key = fmt.Appendf(nil, "cold%d", i)
				}
				if shared {
					if w := many.Sampled(Cost(0, 0)); w > 0 {
						samples++
						many.Record(a, w)
					}
				} else if own.Sampled(Cost(0, 0)) {
					samples++
					own.Record(a)
				}
			}
			at += time.Second
			m.Collect(at)
			return samples - before
		}
		operations := 0
		for i := range 20 {
			taken := interval(100_000)
			if operations += 100_000; i > 1 && taken > 2*most {
				t.Errorf("shared %t: interval %d has %d samples, want %d", shared, i, taken, most)
			}
		}
		top, _ := m.Top(ByOps, 1)
		hot := top[0]
		if want := 0.75 * float64(operations); math.Abs(hot.Count-want) > 5*hot.Deviation+hot.Error {
			t.Errorf("shared %t: %.0f operations are counted of %.0f, with a deviation of %.0f", shared, hot.Count, want, hot.Deviation)
		}
		for range 12 {
			interval(1000)
		}
		if taken := interval(1000); taken < 1000/every/2 {
			t.Errorf("shared %t: of 1000 operations %d are sampled when there are few", shared, taken)
		}
	}
}
