package meter

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cleavekv/cleave/hash"
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

// Wrap returns a router that answers as r does, and counts.
func Wrap(r route.Router) (*Router, error) {
	if r == nil {
		return nil, fmt.Errorf("%w: there is no router to count for", route.ErrOptions)
	}
	nodes := len(r.Nodes())
	m := &Router{bare: r, stripes: make([]stripe, min(runtime.GOMAXPROCS(0), maxStripes)), outcomes: make([]outcome, nodes)}
	for i := range m.stripes {
		m.stripes[i] = newStripe(nodes)
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
func (m *Router) Do(h hash.Stable, call func(route.Node) error) error {
	i := m.Route(h)
	if i == route.None {
		return route.ErrNoNodes
	}
	start, err := time.Now(), errPanic
	defer func() { m.Observe(i, time.Since(start), err) }()
	err = call(m.bare.Nodes()[i])
	return err
}

// errPanic is recorded of a call that did not return.
var errPanic = fmt.Errorf("meter: the call panicked")
