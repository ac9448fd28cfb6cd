package route

import (
	"fmt"
	"testing"

	"github.com/cleavekv/cleave/hash"
)

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
		{Name: "ring", New: creatorWith(NewRing, RingOptions{})},
		{Name: "bounded-ring", New: creatorWith(NewBoundedRing, BoundedRingOptions{Partitions: 1 << 18})},
		{Name: "rendezvous", New: creator(NewRendezvous)},
	} {
		for _, weights := range [][]float64{{1}, {1, 2, 3, 4}} {
			for _, n := range []int{8, 64, 1024, 10000} {
				nodes := numbered(n)
				for i := range nodes {
					nodes[i].Weight = weights[i%len(weights)]
				}
				r := must(k.New(nodes))
				b.Run(fmt.Sprintf("impl=%s/nodes=%d/weights=%d", k.Name, n, len(weights)), func(b *testing.B) { benchRoute(b, r) })
			}
		}
	}
}
