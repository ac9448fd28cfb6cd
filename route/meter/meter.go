// Package meter counts what a router sends to each node, and how that went: requests, errors and
// latencies, node by node.
//
//	m, err := meter.Wrap(ring) // any route.Router
//	if err != nil { … }
//	err = m.Do(hash.XXH3String(key), func(node route.Node) error { return call(ctx, node, key) })
//	…
//	r := m.Report()
//
// It is for what an aggregate hides. If one of a hundred nodes is a hundred times slower than
// the others, p50 and p95 of all requests are as ever; [Report.Slowest] has the node. If one gets
// three times its share, the sum of requests says nothing; [Report.Skew] does.
//
// A router that is made by [WrapWith] also hands a sample of its calls to a heat.Meter, which says
// which keys are hot, on which side of which key the load is, and how even slots are:
//
//	m, err := meter.WrapWith(ring, meter.Options{Heat: heatMeter})
//	err = m.DoAccess(&heat.Access{Key: key, Write: true}, func(node route.Node) error { … })
//
// A lookup through a [Router] costs some nanoseconds more than a bare one: it counts in memory
// that belongs to the processor at hand. `go test -bench . ./route/meter` has the price. A
// report adds up what has been counted since Wrap and stops no counting meanwhile, so it is of
// about one moment. After a change of topology wrap the new router.
package meter

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/route"
)

// Router is a router that counts. It answers as the one that it wraps. Its methods may be called
// by any goroutine.
type Router struct {
	bare route.Router
	// stripes hold the counts of lookups, one for each processor if there are not too many.
	stripes []stripe
	// local hands a processor the stripe that it had last.
	local sync.Pool
	// outcomes are counted once for each call, which takes far longer than a lookup: by node.
	outcomes []outcome
	// heat is handed a sample of the calls of DoAccess, nil if none is wanted.
	heat *heat.SharedRecorder
}

// maxStripes bounds the memory of a router of many nodes on a machine of many processors.
const maxStripes = 64

// stripe is what one processor has counted. A stripe is made of whole cache lines, so that no
// two processors write to one line.
type stripe struct {
	requests []atomic.Uint64 // by node
	_        [64]byte
}

// lineBytes is two cache lines of 64 bytes, which processors fetch in pairs.
const lineBytes = 128

func newStripe(nodes int) stripe {
	const perLine = lineBytes / int(unsafe.Sizeof(atomic.Uint64{}))
	return stripe{requests: make([]atomic.Uint64, (nodes+perLine-1)/perLine*perLine)[:nodes]}
}

// outcome is what became of the calls of a node.
type outcome struct {
	errors    atomic.Uint64
	latencies histogram
}

// Options configure a [Router]. The zero value works.
type Options struct {
	// Heat, if set, is handed a sample of the calls of [Router.DoAccess]. The program
	// calls its Collect.
	Heat *heat.Meter
}

// Wrap returns a router that answers as r does, and counts.
func Wrap(r route.Router) (*Router, error) { return WrapWith(r, Options{}) }

// WrapWith is Wrap with options.
func WrapWith(r route.Router, o Options) (*Router, error) {
	if r == nil {
		return nil, fmt.Errorf("%w: there is no router to count for", route.ErrOptions)
	}
	nodes := len(r.Nodes())
	m := &Router{bare: r, stripes: make([]stripe, min(runtime.GOMAXPROCS(0), maxStripes)), outcomes: make([]outcome, nodes)}
	for i := range m.stripes {
		m.stripes[i] = newStripe(nodes)
	}
	if o.Heat != nil {
		var err error
		if m.heat, err = o.Heat.NewSharedRecorder(min(runtime.GOMAXPROCS(0), heatRecorders), rand.Uint64); err != nil {
			return nil, err
		}
	}
	var next atomic.Uint64
	// The pool may forget at any time: then a stripe may be that of two processors, and is only
	// slower.
	m.local.New = func() any { return &m.stripes[next.Add(1)%uint64(len(m.stripes))] }
	return m, nil
}

// Unwrap returns the router that does not count.
func (m *Router) Unwrap() route.Router { return m.bare }

// Nodes implements [route.Router].
func (m *Router) Nodes() []route.Node { return m.bare.Nodes() }

// Route implements [route.Router], and counts a request for the node.
func (m *Router) Route(h hash.Stable) int {
	i := m.bare.Route(h)
	if i != route.None {
		s := m.local.Get().(*stripe)
		s.requests[i].Add(1)
		m.local.Put(s)
	}
	return i
}

// RouteN implements [route.Router], and counts a request for each of the nodes.
func (m *Router) RouteN(dst []int, h hash.Stable, n int) []int {
	before := len(dst)
	dst = m.bare.RouteN(dst, h, n)
	if len(dst) > before {
		s := m.local.Get().(*stripe)
		for _, i := range dst[before:] {
			s.requests[i].Add(1)
		}
		m.local.Put(s)
	}
	return dst
}

// Observe records what became of a request to the node of an index: how long it took, and
// whether it failed. Its latency counts either way. It panics if there is no such node.
func (m *Router) Observe(node int, latency time.Duration, err error) {
	o := &m.outcomes[node]
	o.latencies.add(latency)
	if err != nil {
		o.errors.Add(1)
	}
}

// Do routes a hash, calls the node that owns it, and records what became of the call, also if
// it panics. Of an empty router it is route.ErrNoNodes.
func (m *Router) Do(h hash.Stable, call func(route.Node) error) error { return m.do(h, nil, call) }

// DoAccess is Do for the XXH3 hash of a key. It fills in the service time, and the slot by the hash;
// call may fill in the rest. The access must not be used by another goroutine meanwhile.
func (m *Router) DoAccess(a *heat.Access, call func(route.Node) error) error {
	if m.heat == nil {
		return m.do(hash.XXH3(a.Key), nil, call)
	}
	return m.do(hash.XXH3(a.Key), a, call)
}

// do calls the node of a hash. An access is for the meter of heat, nil for none.
func (m *Router) do(h hash.Stable, a *heat.Access, call func(route.Node) error) error {
	i := m.Route(h)
	if i == route.None {
		return route.ErrNoNodes
	}
	start, err := time.Now(), errPanic
	defer func() {
		took := time.Since(start)
		m.Observe(i, took, err)
		if a != nil {
			m.recordAccess(a, h, took)
		}
	}()
	err = call(m.bare.Nodes()[i])
	return err
}

func (m *Router) recordAccess(a *heat.Access, h hash.Stable, took time.Duration) {
	a.Service = took
	if weight := m.heat.Sampled(heat.Cost(a.BytesIn+a.BytesOut, took)); weight > 0 {
		a.Slot = m.heat.SlotOf(h)
		m.heat.Record(a, weight)
	}
}

// heatRecorders bounds the memory of samples: calls take so long that few of them are recorded at once.
const heatRecorders = 4

// errPanic is recorded of a call that did not return.
var errPanic = fmt.Errorf("meter: the call panicked")

// histogram counts latencies in bins whose width is an eighth of a power of two, so that a
// quantile is at most an eighth too high. Latencies from 2^40 ns, 18 minutes, on share one.
type histogram struct{ bins [binCount]atomic.Uint64 }

const (
	binBits    = 3 // bins for each power of two: 1<<binBits
	maxLatency = 1<<40 - 1
	binCount   = (40-binBits)<<binBits + 1<<binBits
)

// binOf returns the bin of a latency. A negative one, of a clock that was set back, counts as 0.
func binOf(d time.Duration) int {
	n := uint64(min(max(d, 0), maxLatency))
	shift := max(bits.Len64(n)-1-binBits, 0)
	return shift<<binBits + int(n>>shift)
}

// computeUpperBound returns the longest latency of a bin.
func computeUpperBound(bin int) time.Duration {
	shift := max(bin>>binBits-1, 0)
	return time.Duration((bin-shift<<binBits+1)<<shift - 1)
}

func (h *histogram) add(d time.Duration) { h.bins[binOf(d)].Add(1) }

// counts is a histogram that does not change.
type counts [binCount]uint64

// addTo adds what has been counted to a sum.
func (h *histogram) addTo(sum *counts) {
	for i := range h.bins {
		sum[i] += h.bins[i].Load()
	}
}

func (c *counts) total() (n uint64) {
	for _, k := range c {
		n += k
	}
	return n
}

// quantile returns what a share of all latencies are not above, 0 if there are none.
func (c *counts) quantile(share float64) time.Duration {
	total := c.total()
	rank := max(uint64(share*float64(total)+0.999999), 1) // the smallest that reaches the share
	seen := uint64(0)
	for bin, n := range c {
		if seen += n; n > 0 && seen >= min(rank, total) {
			return computeUpperBound(bin)
		}
	}
	return 0
}

// Latency is what latencies were. A quantile is at most an eighth too high.
type Latency struct {
	// Calls is how many were observed.
	Calls         uint64
	P50, P95, P99 time.Duration
}

// NodeReport is what a node got, and what it made of it.
type NodeReport struct {
	Node route.Node
	// Requests is how often a lookup named the node, Errors how many calls of it failed.
	Requests, Errors uint64
	Latency          Latency
	// Load is the node's requests by its weight, in parts of the mean of all: 1 is its share.
	Load float64
}

// Report is what has been counted since Wrap.
type Report struct {
	// Nodes are in the order of the router's.
	Nodes            []NodeReport
	Requests, Errors uint64
	// Latency is that of all calls together, which hides a node that gets few of them.
	Latency Latency
	// Skew is the Load of the node with the most, which is Busiest: max by mean. 0 without
	// requests.
	Skew    float64
	Busiest int
	// Slowest is the node with the highest p99; None, as Busiest, if there is none.
	Slowest int
}

// Report adds up what has been counted.
func (m *Router) Report() Report {
	nodes := m.bare.Nodes()
	r := Report{Nodes: make([]NodeReport, len(nodes)), Busiest: route.None, Slowest: route.None}
	var all counts
	weights := 0.0
	for i, node := range nodes {
		n := &r.Nodes[i]
		n.Node = node
		for s := range m.stripes {
			n.Requests += m.stripes[s].requests[i].Load()
		}
		n.Errors = m.outcomes[i].errors.Load()
		var own counts
		m.outcomes[i].latencies.addTo(&own)
		n.Latency = own.latency()
		for bin, k := range own {
			all[bin] += k
		}
		r.Requests += n.Requests
		r.Errors += n.Errors
		weights += weightOf(node)
	}
	r.Latency = all.latency()
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if r.Requests > 0 {
			n.Load = float64(n.Requests) / float64(r.Requests) * weights / weightOf(n.Node)
		}
		if n.Load > r.Skew {
			r.Skew, r.Busiest = n.Load, i
		}
		if n.Latency.Calls > 0 && (r.Slowest == route.None || n.Latency.P99 > r.Nodes[r.Slowest].Latency.P99) {
			r.Slowest = i
		}
	}
	return r
}

func (c *counts) latency() Latency {
	return Latency{Calls: c.total(), P50: c.quantile(0.5), P95: c.quantile(0.95), P99: c.quantile(0.99)}
}

// weightOf returns the share of a node, whose zero is 1.
func weightOf(n route.Node) float64 {
	if n.Weight == 0 {
		return 1
	}
	return n.Weight
}
