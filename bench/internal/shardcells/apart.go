package shardcells

import (
	"fmt"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/workload"
)

const (
	// rowsOfMany is how many rows a transaction of participants has, and how many stores there are for them.
	rowsOfMany = 4
	// hotRows is how many rows contending transactions share, and hotShards over how many shards at most.
	hotRows   = 16
	hotShards = 16
)

// participants yields transactions of four rows that lie in one store, in two and in more: what each participant adds. With
// one client the time is the latency.
func participants(cfg Config, yield func(duel.Cell) bool) bool {
	for _, d := range []cleave.Durability{cleave.Always, cleave.EverySec} {
		t, err := openTable(cfg, cleave.Options{Stores: rowsOfMany, Groups: rowsOfMany, Durability: d}, cfg.Rows, valueBytes, rowsOfMany, rowsOfMany)
		if err != nil {
			return yield(broken("shards/participants", err))
		}
		cell := duel.Cell{
			ID:      fmt.Sprintf("shards/participants-%v-x1", d),
			Title:   fmt.Sprintf("a transaction that reads and writes %d rows of %d bytes in one store or several, durability %v, 1 client, cleaning up included", rowsOfMany, valueBytes, d),
			Metrics: duel.Costs,
			Rounds:  21,
			Ops:     256,
		}
		for n := 1; n <= rowsOfMany; n++ {
			name := fmt.Sprintf("%d stores", n)
			cell.Contestants = append(cell.Contestants, duel.Contestant{Name: name, Ours: n > 1, Work: func(ops int) {
				value, rows := make([]byte, valueBytes), make([]int, rowsOfMany)
				for range ops {
					for i := range rows {
						rows[i] = t.in(i % n)
					}
					t.updateRows(rows, value)
				}
				t.settle()
			}})
		}
		more := yield(cell)
		t.close()
		if !more {
			return false
		}
	}
	return true
}

// contention yields transactions of many clients on two of the same few rows, which lie in one shard, or in more, of the
// groups of a store.
func contention(cfg Config, yield func(duel.Cell) bool) bool {
	t, err := openTable(cfg, cleave.Options{Groups: 4, Durability: cleave.EverySec}, cfg.Rows, valueBytes, 4, hotShards)
	if err != nil {
		return yield(broken("shards/contention", err))
	}
	defer t.close()
	cell := duel.Cell{
		ID:      fmt.Sprintf("shards/contention-x%d", many),
		Title:   fmt.Sprintf("a transaction that reads and writes two of %d rows that %d clients share, in one shard or several, of 4 groups of a store, durability everysec", hotRows, many),
		Metrics: duel.Costs,
		Rounds:  11,
		Ops:     many * 4, // some of them wait for all others
	}
	for _, n := range []int{1, 4, hotShards} {
		work := func(ops int) {
			workload.Parallel(many, ops, func(_, ops int) {
				value := make([]byte, valueBytes)
				for range ops {
					a := draw(hotRows)
					t.update(t.hotRow(a, n), t.hotRow((a+1+draw(hotRows-1))%hotRows, n), value)
				}
			})
		}
		cell.Contestants = append(cell.Contestants, duel.Contestant{
			Name: Shards(n), Ours: n > 1, Work: work,
			Facts: func() []duel.Fact {
				before := t.db.Metrics().Transactions.Retries
				work(cell.Ops)
				return []duel.Fact{{Name: "tried again", Value: float64(t.db.Metrics().Transactions.Retries-before) / float64(cell.Ops)}}
			},
		})
	}
	return yield(cell)
}

// hotRow returns one of the rows that clients share where these lie in so many shards.
func (t *table) hotRow(i, shards int) int {
	return edge(i%shards*(hotShards/shards), hotShards, t.rows) + i/shards
}
