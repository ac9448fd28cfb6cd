package route

import (
	"fmt"
	"testing"

	"github.com/cleavekv/cleave/hash"
)

// benchKinds runs a benchmark for every kind and every number of nodes that
// the kind can have.
func benchKinds(b *testing.B, counts []int, run func(b *testing.B, k Kind, nodes []Node, r Router)) {
	for _, k := range Kinds() {
		for _, n := range counts {
			nodes := numbered(n)
			if r, err := k.New(nodes); err == nil {
				b.Run(fmt.Sprintf("impl=%s/nodes=%d", k.Name, n), func(b *testing.B) { run(b, k, nodes, r) })
			}
		}
	}
}

// BenchmarkKinds measures a lookup, the hash of a 16-byte key included.
func BenchmarkKinds(b *testing.B) {
	benchKinds(b, []int{8, 64, 1024, 10000}, func(b *testing.B, _ Kind, _ []Node, r Router) { benchRoute(b, r) })
}

// BenchmarkKindsRouteN measures a lookup of three replicas.
func BenchmarkKindsRouteN(b *testing.B) {
	benchKinds(b, []int{8, 64, 1024}, func(b *testing.B, _ Kind, _ []Node, r Router) {
		b.ReportAllocs()
		var dst []int
		for i := uint64(0); b.Loop(); i++ {
			dst = r.RouteN(dst[:0], hash.Uint64(i), 3)
		}
	})
}

// BenchmarkKindsNew measures making a router.
func BenchmarkKindsNew(b *testing.B) {
	benchKinds(b, []int{8, 1024, 10000}, func(b *testing.B, k Kind, nodes []Node, _ Router) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := k.New(nodes); err != nil {
				b.Fatal(err)
			}
		}
	})
}
