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
			nodes := newNodes(n)
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

// benchRoute measures a lookup with the hash of a 16-byte key. There are so
// many keys that no branch predictor learns them.
func benchRoute(b *testing.B, r Router) {
	const keys = 1 << 16
	text := make([][16]byte, keys)
	for i := range text {
		copy(text[i][:], fmt.Sprintf("key-%012d", i*7919))
	}
	b.ReportAllocs()
	i, sink := 0, 0
	for b.Loop() {
		i++
		sink += r.Route(hash.XXH3(text[i%keys][:]))
	}
	if sink < 0 {
		b.Fatal("no owner")
	}
}

// BenchmarkRoute measures the routers with weights, with equal and unequal
// ones.
func BenchmarkRoute(b *testing.B) {
	for _, k := range []Kind{
		{Name: "ring", New: asConstructorWith(NewRing, RingOptions{})},
		{Name: "bounded-ring", New: asConstructorWith(NewBoundedRing, BoundedRingOptions{Partitions: 1 << 18})},
		{Name: "rendezvous", New: asConstructor(NewRendezvous)},
	} {
		for _, weights := range [][]float64{{1}, {1, 2, 3, 4}} {
			for _, n := range []int{8, 64, 1024, 10000} {
				nodes := newNodes(n)
				for i := range nodes {
					nodes[i].Weight = weights[i%len(weights)]
				}
				r := must(k.New(nodes))
				b.Run(fmt.Sprintf("impl=%s/nodes=%d/weights=%d", k.Name, n, len(weights)), func(b *testing.B) { benchRoute(b, r) })
			}
		}
	}
}
