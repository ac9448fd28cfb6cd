package meter

import (
	"time"

	"github.com/cleavekv/cleave/route"
)

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
