package shardcells

import (
	"fmt"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/workload"
)

// The contestants of transactions, by how far their keys are apart.
const (
	OneGroup  = "one group"
	OneStore  = "one store"
	TwoStores = "two stores"
)

// commits yields transactions of two keys. All groups of both stores have the same
// share of the work in each contestant: what differs is how they are combined.
func commits(cfg Config, yield func(duel.Cell) bool) bool {
	for _, d := range []cleave.Durability{cleave.Always, cleave.EverySec} {
		// Four blocks in four groups, the first two of them on the first store.
		t, err := openTable(cfg, cleave.Options{Stores: 2, Groups: 4, Durability: d}, cfg.Rows, valueBytes, 4, 4)
		if err != nil {
			return yield(broken("shards/commit", err))
		}
		for _, clients := range []int{1, many} {
			if !yield(commitCell(t, d, clients)) {
				t.close()
				return false
			}
		}
		t.close()
	}
	return true
}

func commitCell(t *table, d cleave.Durability, clients int) duel.Cell {
	cell := duel.Cell{
		ID:      fmt.Sprintf("shards/commit-%v-x%d", d, clients),
		Title:   fmt.Sprintf("a transaction that reads and writes two rows of %d bytes, durability %v, %d clients, cleaning up included", valueBytes, d, clients),
		Metrics: duel.Costs,
		Rounds:  21,
		Ops:     256, // what is left of the last ones is then a small part
	}
	if clients > 1 {
		cell.Ops = clients * 16
	}
	add := func(name string, ours bool, pair func(i int) (a, b int)) {
		cell.Contestants = append(cell.Contestants, duel.Contestant{Name: name, Ours: ours, Work: func(ops int) {
			workload.Parallel(clients, ops, func(_, n int) {
				value := make([]byte, valueBytes)
				for range n {
					a, b := pair(draw(4))
					t.update(t.in(a), t.in(b), value)
				}
			})
			t.settle()
		}})
	}
	add(OneGroup, false, func(i int) (int, int) { return i, i })
	add(OneStore, true, func(i int) (int, int) { return i, i ^ 1 })
	add(TwoStores, true, func(i int) (int, int) { return i, i ^ 2 })
	return cell
}
