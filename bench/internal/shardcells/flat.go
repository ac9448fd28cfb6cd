package shardcells

import (
	"fmt"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/bench/internal/duel"
)

// Shards is the name of a contestant with so many shards.
func Shards(n int) string { return fmt.Sprintf("%d shards", n) }

const (
	scanRows = 10
	getRows  = 8
	// flatBlocks lie in four groups on two stores.
	flatBlocks = 10
)

// operation is something whose cost should not depend on the number of shards.
type operation struct {
	id, title string
	do        func(t *table, value []byte)
	// ops is how many are measured at once, if not as many as fill the time. What two stores
	// have to clean up takes some milliseconds, however little it is.
	ops int
}

var operations = []operation{
	{"get", "get a row", func(t *table, _ []byte) { t.get(draw(t.rows)) }, 0},
	{"set", "set a row", func(t *table, value []byte) { t.set(draw(t.rows), value) }, 0},
	{"update", "a transaction that reads and writes two rows of one group", func(t *table, value []byte) { t.apart(0, value) }, 0},
	{"update-apart", "a transaction that reads and writes two rows on two stores", func(t *table, value []byte) { t.apart(2, value) }, 1024},
	{"scan", fmt.Sprintf("scan %d rows from a random one on", scanRows), func(t *table, _ []byte) { t.scan(draw(t.rows-scanRows), scanRows) }, 0},
	{"get-many", fmt.Sprintf("get %d random rows as of one moment", getRows), func(t *table, _ []byte) { t.getMany(getRows) }, 0},
}

// Flat returns the IDs of cells with the same work at several numbers of shards.
func Flat() (ids []string) {
	for _, o := range operations {
		ids = append(ids, "shards/"+o.id)
	}
	return ids
}

// flat yields each operation at each number of shards. Nobody waits for a disk but
// who must, or that would be all there is to see.
func flat(cfg Config, yield func(duel.Cell) bool) bool {
	var tables []*table
	defer func() {
		for _, t := range tables {
			t.close()
		}
	}()
	for _, n := range cfg.Shards {
		t, err := openTable(cfg, cleave.Options{Stores: 2, Groups: 4, Durability: cleave.Never}, cfg.Rows, valueBytes, flatBlocks, n)
		if err != nil {
			return yield(broken("shards/flat", fmt.Errorf("%d shards: %w", n, err)))
		}
		tables = append(tables, t)
	}
	value := make([]byte, valueBytes)
	for _, o := range operations {
		cell := duel.Cell{
			ID:      "shards/" + o.id,
			Title:   fmt.Sprintf("%s, of %d rows, durability no, 1 client", o.title, cfg.Rows),
			Metrics: duel.Costs,
			Rounds:  21,
			Ops:     o.ops,
		}
		for i, t := range tables {
			cell.Contestants = append(cell.Contestants, duel.Contestant{Name: Shards(cfg.Shards[i]), Ours: i > 0, Work: func(ops int) {
				for range ops {
					o.do(t, value)
				}
				t.settle()
			}})
		}
		if !yield(cell) {
			return false
		}
	}
	return true
}
