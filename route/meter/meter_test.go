package meter

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/route"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newNodes(n int) []route.Node {
	nodes := make([]route.Node, n)
	for i := range nodes {
		nodes[i].Name = fmt.Sprint("node-", i)
	}
	return nodes
}

func TestRouter_AnswersAsTheBareOneOfEachKind(t *testing.T) {
	for _, k := range route.Kinds() {
		bare := must(k.New(newNodes(8)))
		m := must(Wrap(bare))
		want := make([]uint64, 8)
		for h := range route.Sample(2000) {
			i := m.Route(h)
			if i != bare.Route(h) {
				t.Fatalf("%s: %v is with %d, want %d", k.Name, h, i, bare.Route(h))
			}
			want[i]++
			got := m.RouteN([]int{7, 7}, h, 3)
			if !slices.Equal(got, bare.RouteN([]int{7, 7}, h, 3)) {
				t.Fatalf("%s: RouteN of %v is %v", k.Name, h, got)
			}
			for _, i := range got[2:] {
				want[i]++
			}
		}
		r := m.Report()
		for i, n := range r.Nodes {
			if n.Requests != want[i] || n.Node.Name != bare.Nodes()[i].Name {
				t.Errorf("%s: %+v, want %d requests", k.Name, n, want[i])
			}
		}
		if r.Requests != 8000 {
			t.Errorf("%s: %d requests in all", k.Name, r.Requests)
		}
	}
}

func TestRouter_CountsEachCallOfManyGoroutinesOnce(t *testing.T) {
	m := must(Wrap(must(route.NewRendezvous(newNodes(5)))))
	const goroutines, each = 8, 2000
	failure := errors.New("failed")
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				err := m.Do(hash.XXH3String(fmt.Sprint(g, i)), func(route.Node) error {
					if i%10 == 0 {
						return failure
					}
					return nil
				})
				if (i%10 == 0) != errors.Is(err, failure) {
					t.Errorf("call %d: %v", i, err)
				}
				if i%100 == 0 {
					m.Report()
				}
			}
		})
	}
	wg.Wait()
	r := m.Report()
	sum := uint64(0)
	for _, n := range r.Nodes {
		sum += n.Requests
		if n.Latency.Calls != n.Requests {
			t.Errorf("%+v", n)
		}
	}
	if sum != goroutines*each || r.Requests != sum || r.Latency.Calls != sum || r.Errors != sum/10 {
		t.Errorf("%d requests, %+v", sum, r)
	}
}

// A node that is slow and gets one request in a hundred is not in p50 and p95 of all.
func TestReport_ShowsWhatTheAggregateHides(t *testing.T) {
	m := must(Wrap(must(route.NewModulo(newNodes(100)))))
	for i := range 100 {
		latency := time.Millisecond
		if i == 42 {
			latency = 200 * time.Millisecond
		}
		for range 20 {
			m.Route(hash.Restore(uint64(i)))
			m.Observe(i, latency, nil)
		}
	}
	for range 40 {
		m.Route(hash.Restore(7)) // three times its share
	}
	r := m.Report()
	slow := r.Nodes[42]
	if r.Latency.P95 > 2*time.Millisecond || r.Slowest != 42 || slow.Latency.P99 < 200*time.Millisecond || slow.Latency.P50 > 225*time.Millisecond {
		t.Errorf("of all %+v; the slowest is %d, %+v", r.Latency, r.Slowest, slow)
	}
	if want := 60.0 / 20.4; r.Busiest != 7 || math.Abs(r.Skew-want) > 1e-9 || r.Nodes[7].Load != r.Skew {
		t.Errorf("the skew is %v of %d, want %v of 7", r.Skew, r.Busiest, want)
	}
}

func TestReport_LoadIsByWeight(t *testing.T) {
	m := must(Wrap(must(route.NewRendezvous([]route.Node{{Name: "a"}, {Name: "b", Weight: 3}}))))
	count := map[int]int{}
	for h := range route.Sample(20_000) {
		count[m.Route(h)]++
	}
	r := m.Report()
	if count[1] < 2*count[0] || math.Abs(r.Nodes[0].Load-1) > 0.1 || math.Abs(r.Nodes[1].Load-1) > 0.1 {
		t.Errorf("%v: %+v", count, r)
	}
}

func TestRouter_WithoutNodesOrRequests(t *testing.T) {
	if _, err := Wrap(nil); !errors.Is(err, route.ErrOptions) {
		t.Errorf("of no router: %v", err)
	}
	m := must(Wrap(new(route.Ring)))
	if err := m.Do(hash.Restore(1), func(route.Node) error { return nil }); !errors.Is(err, route.ErrNoNodes) {
		t.Errorf("of an empty router: %v", err)
	}
	if i, all := m.Route(hash.Restore(1)), m.RouteN(nil, hash.Restore(1), 3); i != route.None || len(all) != 0 {
		t.Errorf("an empty router names %d and %v", i, all)
	}
	for _, r := range []Report{m.Report(), must(Wrap(must(route.NewModulo(newNodes(2))))).Report()} {
		if r.Skew != 0 || r.Busiest != route.None || r.Slowest != route.None || r.Latency != (Latency{}) {
			t.Errorf("without requests: %+v", r)
		}
	}
}

func TestRouter_ACallThatPanicsIsAnError(t *testing.T) {
	m := must(Wrap(must(route.NewModulo(newNodes(1)))))
	func() {
		defer func() { _ = recover() }()
		_ = m.Do(hash.Restore(1), func(route.Node) error { panic("boom") })
	}()
	if r := m.Report(); r.Errors != 1 || r.Latency.Calls != 1 {
		t.Errorf("%+v", r)
	}
}

func TestRouter_DoAccess_NamesTheHotKey(t *testing.T) {
	hot := must(heat.NewMeter(heat.Options{Every: 1, Slots: 64}))
	m := must(WrapWith(must(route.NewRendezvous(newNodes(3))), Options{Heat: hot}))
	bare := must(Wrap(m.Unwrap()))
	failure := errors.New("failed")
	for i := range 1000 {
		a := heat.Access{Key: fmt.Append(nil, "key", i), Write: i%3 == 0, Command: "GET"}
		if i%2 == 0 {
			a.Key = []byte("hot")
		}
		call := func(n route.Node) error {
			if owner, _ := route.Owner(bare, hash.XXH3(a.Key)); n.Name != owner.Name {
				t.Fatalf("%s is asked for %s", n.Name, a.Key)
			}
			a.BytesOut = 100
			return failure
		}
		if err := m.DoAccess(&a, call); !errors.Is(err, failure) {
			t.Fatal(err)
		}
		if err := bare.DoAccess(&a, call); !errors.Is(err, failure) { // without a meter of heat
			t.Fatal(err)
		}
	}
	func() {
		defer func() { _ = recover() }()
		_ = m.DoAccess(&heat.Access{Key: []byte("hot")}, func(route.Node) error { panic("boom") })
	}()
	hot.Collect(time.Second)
	top, total := hot.Top(heat.ByOps, 1)
	if top[0].Key != "hot" || top[0].Count != 501 || total != 1001 || top[0].Writes != 167 || top[0].ServiceNS <= 0 {
		t.Errorf("%+v of %v", top[0], total)
	}
	if _, bytes := hot.Top(heat.ByBytes, 1); bytes != 100_000 {
		t.Errorf("%v bytes", bytes)
	}
	if s := hot.Spread(); s.TopShare < 0.5 || s.TopSlot == 0 && s.TopShare == 1 {
		t.Errorf("%+v", s)
	}
	if r := m.Report(); r.Requests != 1001 || r.Latency.Calls != 1001 || r.Errors != 1001 {
		t.Errorf("%+v", r)
	}
}

func BenchmarkDoAccess(b *testing.B) {
	bare := must(route.NewRendezvous(newNodes(3)))
	for name, m := range map[string]*Router{"none": must(Wrap(bare)), "sampled": must(WrapWith(bare, Options{Heat: must(heat.NewMeter(heat.Options{}))}))} {
		b.Run("heat="+name, func(b *testing.B) {
			a := heat.Access{Key: []byte("user:1"), BytesOut: 100}
			call := func(route.Node) error { return nil }
			b.ReportAllocs()
			for b.Loop() {
				if err := m.DoAccess(&a, call); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestHistogram_AQuantileIsAtMostAnEighthTooHigh(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Int64Range(-5, maxLatency), 1, 50).Draw(t, "latencies")
		var h histogram
		for _, d := range list {
			h.add(time.Duration(d))
		}
		var c counts
		h.addTo(&c)
		slices.Sort(list)
		for _, share := range []float64{0.01, 0.5, 0.95, 0.99, 1} {
			want := max(list[max(int(math.Ceil(share*float64(len(list))-1e-6)), 1)-1], 0)
			got := int64(c.quantile(share))
			if got < want || got > want+want/8 {
				t.Fatalf("the quantile %v of %v is %d, want %d", share, list, got, want)
			}
		}
	})
	var h histogram
	h.add(math.MaxInt64)
	if h.bins[binCount-1].Load() != 1 {
		t.Error("the longest latency is not in the last bin")
	}
}

func BenchmarkRoute(b *testing.B) {
	for _, k := range route.Kinds() {
		if k.Name != "ring" && k.Name != "jump" && k.Name != "rendezvous" {
			continue
		}
		bare := must(k.New(newNodes(64)))
		for name, r := range map[string]route.Router{"bare": bare, "meter": must(Wrap(bare))} {
			b.Run(fmt.Sprintf("impl=%s/router=%s", k.Name, name), func(b *testing.B) {
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for i := uint64(0); pb.Next(); i++ {
						r.Route(hash.Uint64(i))
					}
				})
			})
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	m := must(Wrap(must(route.NewModulo(newNodes(64)))))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			m.Observe(i%64, time.Duration(i%1000)*time.Microsecond, nil)
		}
	})
}
