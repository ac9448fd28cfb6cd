package patterncells

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/workload"
	"github.com/cleavekv/cleave/key"
)

// How large the indexed keyspaces are, and how many clients write at a time.
const (
	indexRows    = 2000
	indexGroups  = 50 // rows of each are found together
	indexClients = 16
)

// indexWay is a way to keep rows, on a store of its own.
type indexWay struct {
	name    string
	indexed bool
	mode    cleave.IndexMode
	stores  int
}

var indexWays = []indexWay{
	{"no index", false, 0, 1},
	{"transactional, one store", true, cleave.Transactional, 1},
	{"transactional, 2 stores", true, cleave.Transactional, 2},
	{"asynchronous, one store", true, cleave.Asynchronous, 1},
}

// indexCells compare writes with and without an index, and a lookup with a scan.
func indexCells(cfg Config, yield func(duel.Cell) bool) bool {
	for _, d := range []cleave.Durability{cleave.Always, cleave.EverySec} {
		if !indexCell(cfg, d, yield) {
			return false
		}
	}
	return true
}

func indexCell(cfg Config, d cleave.Durability, yield func(duel.Cell) bool) bool {
	cell := duel.Cell{
		ID:      fmt.Sprintf("patterns/index-hset-%v-x%d", d, indexClients),
		Title:   fmt.Sprintf("an HSet that changes an indexed field, durability %v, %d clients", d, indexClients),
		Metrics: duel.Costs, Rounds: 7, Ops: indexClients * cfg.Adds,
	}
	find := duel.Cell{
		ID:     "patterns/index-lookup",
		Title:  fmt.Sprintf("finding %d rows of %d by a field", indexRows/indexGroups, indexRows),
		Rounds: 5, Ops: cfg.Adds,
	}
	for _, way := range indexWays {
		t, err := openIndexed(cfg, way, d)
		if err != nil {
			cell.Contestants = []duel.Contestant{{Name: way.name, Ours: true, Work: func(int) { panic(err) }}}
			return yield(cell)
		}
		defer t.close()
		cell.Contestants = append(cell.Contestants, duel.Contestant{Name: way.name, Ours: way.indexed, Work: func(ops int) {
			workload.Parallel(indexClients, ops, func(_, n int) {
				for range n {
					if err := t.write(); err != nil {
						panic(err)
					}
				}
			})
		}})
		find.Contestants = append(find.Contestants, duel.Contestant{Name: way.name, Ours: way.indexed, Work: func(ops int) {
			for range ops {
				if n, err := t.find(); err != nil || n == 0 {
					panic(fmt.Sprintf("%d rows found: %v", n, err))
				}
			}
		}})
	}
	return yield(cell) && (d != cleave.EverySec || yield(find))
}

// indexed is a keyspace with rows and perhaps an index.
type indexed struct {
	dir    string
	db     *cleave.DB
	rows   *cleave.Keyspace
	index  *cleave.Index
	serial atomic.Int64
}

func openIndexed(cfg Config, way indexWay, d cleave.Durability) (t *indexed, err error) {
	ctx := context.Background()
	t = new(indexed)
	if t.dir, err = os.MkdirTemp(cfg.Dir, "index"); err != nil {
		return nil, err
	}
	if t.db, err = cleave.Open(t.dir, cleave.Options{Durability: d, Stores: way.stores}); err != nil {
		return nil, errors.Join(err, os.RemoveAll(t.dir))
	}
	t.rows = t.db.Default()
	var b cleave.Batch
	for i := range indexRows {
		b.HSet(t.rows, fmt.Appendf(nil, "row %d", i), cleave.Field{Name: []byte("team"), Value: team(i)})
	}
	if err = t.db.Write(ctx, &b); err == nil && way.indexed {
		t.index, err = t.db.OpenIndex(ctx, cleave.IndexOptions{Name: "team", Keyspace: t.rows, Columns: "team", Mode: way.mode})
		if err == nil {
			err = t.index.Wait(ctx)
		}
	}
	if err != nil {
		t.close()
	}
	return t, err
}

func team(i int) []byte { return fmt.Appendf(nil, "team %d", i%indexGroups) }

// write moves a row to another team.
func (t *indexed) write() error {
	n := int(t.serial.Add(1))
	_, err := t.rows.HSet(context.Background(), fmt.Appendf(nil, "row %d", n*7919%indexRows), cleave.Field{Name: []byte("team"), Value: team(n)})
	return err
}

// find finds the rows of a team, by the index or by looking at all.
func (t *indexed) find() (n int, err error) {
	ctx, wanted := context.Background(), team(int(t.serial.Add(1)))
	if t.index != nil {
		page, err := t.index.ScanPage(ctx, cleave.IndexScanOptions{Prefix: key.Tuple{string(wanted)}})
		return len(page.Items), err
	}
	for item, err := range t.rows.Scan(ctx, cleave.ScanOptions{KeysOnly: true}) {
		if err != nil {
			return n, err
		}
		value, err := t.rows.HGet(ctx, item.Key, []byte("team"))
		if err != nil {
			return n, err
		}
		if string(value) == string(wanted) {
			n++
		}
	}
	return n, nil
}

func (t *indexed) close() { _ = errors.Join(t.db.Close(), os.RemoveAll(t.dir)) }
