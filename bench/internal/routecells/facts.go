package routecells

import (
	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/workload"
)

// facts measures what a router does to its nodes: the load of the busiest one
// over its share, and the part of the keys that a joining node moves. A share
// of both is chance: with k keys a node, a perfectly fair router still has a
// busiest node some 3/sqrt(k) above its share.
func facts(r router, names []string, keys, cores int) []duel.Fact {
	joining := nodeName(len(names))
	owners := ownersOf(r, keys, cores)
	after := ownersOf(r.grown(joining), keys, cores)
	load := map[string]float64{}
	moved := 0
	for i, owner := range owners {
		load[owner]++
		if after[i] != owner {
			moved++
		}
	}
	return []duel.Fact{
		{Name: "peak/mean", Value: peak(r, names, load) / float64(keys)},
		{Name: "moved by +1", Value: float64(moved) / float64(keys)},
	}
}

// ownersOf routes the first keys on all cores.
func ownersOf(r router, keys, cores int) []string {
	owners := make([]string, keys)
	workload.Parallel(cores, keys, func(w, n int) {
		for i := range n {
			owners[i*cores+w] = r.owner(keyAt(i*cores + w))
		}
	})
	return owners
}

// peak returns the largest load divided by its node's share.
func peak(r router, names []string, load map[string]float64) float64 {
	weight := r.weight
	if weight == nil {
		weight = equally
	}
	total, most := 0.0, 0.0
	for _, name := range names {
		total += weight(name)
		most = max(most, load[name]/weight(name))
	}
	return most * total
}
