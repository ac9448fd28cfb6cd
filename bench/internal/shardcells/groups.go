package shardcells

import (
	"fmt"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/workload"
)

// groups yields reads and writes of one store with more and more groups. As many
// blocks as the most groups are spread over them.
func groups(cfg Config, yield func(duel.Cell) bool) bool {
	counts := []int{1, 2, 4, 8}
	for _, d := range []cleave.Durability{cleave.Always, cleave.EverySec} {
		var tables []*table
		var failure error
		for _, n := range counts {
			t, err := openTable(cfg, cleave.Options{Groups: n, Durability: d}, cfg.Rows, valueBytes, 8, 8)
			if failure = err; err != nil {
				break
			}
			tables = append(tables, t)
		}
		more := false
		if failure != nil {
			more = yield(broken("shards/groups", failure))
		} else {
			more = groupCells(counts, tables, d, yield)
		}
		for _, t := range tables {
			t.close()
		}
		if !more {
			return false
		}
	}
	return true
}

func groupCells(counts []int, tables []*table, d cleave.Durability, yield func(duel.Cell) bool) bool {
	for _, c := range []struct {
		id      string
		clients int
		do      func(t *table, value []byte)
	}{
		{"set", 1, func(t *table, value []byte) { t.set(draw(t.rows), value) }},
		{"set", many, func(t *table, value []byte) { t.set(draw(t.rows), value) }},
		{"get", 1, func(t *table, _ []byte) { t.get(draw(t.rows)) }},
		{"update", many, func(t *table, value []byte) { t.update(draw(t.rows), draw(t.rows), value) }},
	} {
		cell := duel.Cell{
			ID:      fmt.Sprintf("shards/groups-%s-%v-x%d", c.id, d, c.clients),
			Title:   fmt.Sprintf("%s with more groups on one store, durability %v, %d clients", c.id, d, c.clients),
			Metrics: duel.Costs,
			Rounds:  21,
		}
		if c.clients > 1 {
			cell.Ops = c.clients * 16
		}
		for i, t := range tables {
			name := fmt.Sprintf("%d groups", counts[i])
			cell.Contestants = append(cell.Contestants, duel.Contestant{Name: name, Ours: i > 0, Work: func(ops int) {
				workload.Parallel(c.clients, ops, func(_, n int) {
					value := make([]byte, valueBytes)
					for range n {
						c.do(t, value)
					}
				})
			}})
		}
		if !yield(cell) {
			return false
		}
	}
	return true
}
