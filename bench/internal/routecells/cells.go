package routecells

import (
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/route"
)

// Config is the size of the comparison.
type Config struct {
	// Nodes are the sizes of topology to compare at.
	Nodes []int
	// KeysPerNode is how many keys the facts are measured with.
	KeysPerNode int
	// Cores is GOMAXPROCS.
	Cores int
}

// linearFactsMost is the largest number of nodes at which routers that look
// at every node are asked for facts: above, it would take minutes.
const linearFactsMost = 1024

// Cells yields a cell of lookups for each number of nodes, and building.
func Cells(cfg Config) iter.Seq[duel.Cell] {
	return func(yield func(duel.Cell) bool) {
		for _, n := range cfg.Nodes {
			if !yield(lookups(cfg, n)) {
				return
			}
		}
		yield(building())
	}
}

func lookups(cfg Config, n int) duel.Cell {
	cell := duel.Cell{
		ID: fmt.Sprintf("route/%d", n),
		Title: fmt.Sprintf("hash a 16-byte key and find its node among %d; peak/mean and the moved share of keys (least possible %.4f) measured with %d keys a node",
			n, 1/float64(n+1), cfg.KeysPerNode),
	}
	names := nodeNames(n)
	for _, k := range kinds() {
		if k.most != 0 && n > k.most {
			continue
		}
		// Built before its first window: a run that skips the cell skips this.
		built := sync.OnceValue(func() router { return k.build(names) })
		c := duel.Contestant{
			Name: k.name, Family: k.family, Ours: k.ours,
			Prepare: func() { built() },
			Work:    func(ops int) { built().lookups(ops) },
		}
		if !k.linear || n <= linearFactsMost {
			c.Facts = func() []duel.Fact { return facts(built(), names, n*cfg.KeysPerNode, cfg.Cores) }
		}
		cell.Contestants = append(cell.Contestants, c)
	}
	return cell
}

// kinds returns ours and then the peers.
func kinds() []kind {
	mine := ours()
	for i := range mine {
		mine[i].ours = true
	}
	return slices.Concat(mine, ringPeers(), otherPeers())
}

// building is the cell of the target for topology changes: a change makes a
// new ring, and nobody should notice.
func building() duel.Cell {
	const nodes = 1024
	names := nodeNames(nodes)
	ourNodes := make([]route.Node, nodes)
	for i, name := range names {
		ourNodes[i].Name = name
	}
	return duel.Cell{
		ID:    "route/build",
		Title: fmt.Sprintf("build a ring of %d nodes with %d virtual nodes each", nodes, virtualNodes),
		Contestants: []duel.Contestant{
			{Name: "ring", Ours: true, Work: func(ops int) {
				for range ops {
					if _, err := ring(ourNodes); err != nil {
						panic(err)
					}
				}
			}},
			{Name: "groupcache (150)", Work: func(ops int) {
				for range ops {
					groupcache(names)
				}
			}},
		},
	}
}
