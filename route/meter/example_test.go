package meter_test

import (
	"fmt"
	"log"
	"time"

	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/route"
	"github.com/cleavekv/cleave/route/meter"
)

// One of fifty nodes is slow. p50 and p95 of all requests do not show it; the node's own p99 does.
func Example() {
	nodes, err := route.Numbered(50)
	if err != nil {
		log.Fatal(err)
	}
	ring, err := route.NewRing(nodes, route.RingOptions{})
	if err != nil {
		log.Fatal(err)
	}
	m, err := meter.Wrap(ring) // wherever a route.Router is wanted
	if err != nil {
		log.Fatal(err)
	}
	for i := range 20_000 {
		node := m.Route(hash.XXH3String(fmt.Sprint("user:", i)))
		latency := time.Millisecond // measured, in a program; m.Do measures by itself
		if nodes[node].Name == "17" {
			latency = 300 * time.Millisecond
		}
		m.Observe(node, latency, nil)
	}
	r := m.Report()
	slow := r.Nodes[r.Slowest]
	fmt.Println("all:  p50", r.Latency.P50.Round(time.Millisecond), "p95", r.Latency.P95.Round(time.Millisecond))
	fmt.Println("node", slow.Node.Name+": p99", slow.Latency.P99.Round(100*time.Millisecond))
	fmt.Printf("the busiest node has %.1f times its share\n", r.Skew)
	// Output:
	// all:  p50 1ms p95 1ms
	// node 17: p99 300ms
	// the busiest node has 1.2 times its share
}
