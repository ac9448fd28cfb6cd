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
	// Synced is a transaction of one group at durability always, where the others
	// are at everysec.
	Synced = "one group, synced"
)

// commits yields transactions of two keys. All groups of both stores have the same
// share of the work in each contestant: what differs is how they are combined.
func commits(cfg Config, yield func(duel.Cell) bool) bool {
	open := func(d cleave.Durability) (*table, error) {
		// Four blocks in four groups, the first two of them on the first store.
		return openTable(cfg, cleave.Options{Stores: 2, Groups: 4, Durability: d}, cfg.Rows, valueBytes, 4, 4)
	}
	always, err := open(cleave.Always)
	if err != nil {
		return yield(broken("shards/commit", err))
	}
	defer always.close()
	everySec, err := open(cleave.EverySec)
	if err != nil {
		return yield(broken("shards/commit", err))
	}
	defer everySec.close()
	for _, clients := range []int{1, many} {
		if !yield(commitCell(always, nil, cleave.Always, clients)) {
			return false
		}
	}
	for _, clients := range []int{1, many} {
		if !yield(commitCell(everySec, always, cleave.EverySec, clients)) {
			return false
		}
	}
	return true
}

// commitCell compares transactions of a table with each other, and with those of one
// group of a table that is synced, if there is one.
func commitCell(t, synced *table, d cleave.Durability, clients int) duel.Cell {
	cell := duel.Cell{
		ID:      fmt.Sprintf("shards/commit-%v-x%d", d, clients),
		Title:   fmt.Sprintf("a transaction that reads and writes two rows of %d bytes, durability %v, %d clients, cleaning up included", valueBytes, d, clients),
		Metrics: duel.Costs,
		Rounds:  21,
		// The last ones are cleaned up after a moment or two, in which nobody works: with so
		// many that is a hundredth of the time.
		Ops: 1024 * min(clients, 4),
	}
	add := func(t *table, name string, ours bool, pair func(i int) (a, b int)) {
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
	same := func(i int) (int, int) { return i, i }
	add(t, OneGroup, false, same)
	add(t, OneStore, true, func(i int) (int, int) { return i, i ^ 1 })
	add(t, TwoStores, true, func(i int) (int, int) { return i, i ^ 2 })
	if synced != nil {
		add(synced, Synced, false, same)
	}
	return cell
}
