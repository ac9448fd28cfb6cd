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
// A lookup through a [Router] costs some nanoseconds more than a bare one: it counts in memory
// that belongs to the processor at hand. `go test -bench . ./route/meter` has the price. A
// report adds up what has been counted since Wrap and stops no counting meanwhile, so it is of
// about one moment. After a change of topology wrap the new router.
package meter
