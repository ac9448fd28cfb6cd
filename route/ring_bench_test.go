package route

import (
	"fmt"
	"testing"

	"github.com/cleavekv/cleave/hash"
)

func benchNodes(n int) []Node {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i].Name = fmt.Sprintf("node-%d", i)
	}
	return nodes
}

// benchRoute measures a lookup with the hash of a 16-byte key.
func benchRoute(b *testing.B, r Router) {
	keys := make([][16]byte, 1<<16)
	for i := range keys {
		copy(keys[i][:], fmt.Sprintf("key-%012d", i*7919))
	}
	b.ReportAllocs()
	i, sink := 0, 0
	for b.Loop() {
		i++
		sink += r.Route(hash.XXH3(keys[i&(1<<16-1)][:]))
	}
	if sink < 0 {
		b.Fatal("no owner")
	}
}

func BenchmarkRoute(b *testing.B) {
	for _, n := range []int{8, 64, 1024, 10000} {
		r, err := NewRing(benchNodes(n), RingOptions{})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("impl=ring/nodes=%d", n), func(b *testing.B) { benchRoute(b, r) })
		v, err := NewRendezvous(benchNodes(n))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("impl=rendezvous/nodes=%d", n), func(b *testing.B) { benchRoute(b, v) })
		weighted := benchNodes(n)
		for i := range weighted {
			weighted[i].Weight = 1 + float64(i%4)
		}
		w, err := NewRendezvous(weighted)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("impl=weighted-rendezvous/nodes=%d", n), func(b *testing.B) { benchRoute(b, w) })
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, n := range []int{8, 1024, 10000} {
		nodes := benchNodes(n)
		b.Run(fmt.Sprintf("impl=ring/nodes=%d", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := NewRing(nodes, RingOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
