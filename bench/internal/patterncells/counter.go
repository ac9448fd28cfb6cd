package patterncells

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/workload"
	"github.com/cleavekv/cleave/counter"
)

// counterClients is how many add at a time.
const counterClients = 64

// counterWay is a way to count, on a store of its own.
type counterWay struct {
	name  string
	split bool
	// parts fixes their number; 0 lets the counter decide.
	parts   int
	options cleave.Options
}

var counterWays = []counterWay{
	{"one key", false, 0, cleave.Options{}},
	{"8 parts, one group", true, 8, cleave.Options{}},
	{"8 parts, 4 groups", true, 8, cleave.Options{Groups: 4}},
	{"8 parts, 2 stores", true, 8, cleave.Options{Stores: 2}},
	{"as it decides, 4 groups", true, 0, cleave.Options{Groups: 4}},
	{"as it decides, 2 stores", true, 0, cleave.Options{Stores: 2}},
}

// counterCells compare a split counter with one hot key.
func counterCells(cfg Config, yield func(duel.Cell) bool) bool {
	for _, d := range []cleave.Durability{cleave.Always, cleave.EverySec} {
		if !counterCell(cfg, d, yield) {
			return false
		}
	}
	return true
}

func counterCell(cfg Config, d cleave.Durability, yield func(duel.Cell) bool) bool {
	cell := duel.Cell{
		ID:      fmt.Sprintf("patterns/counter-add-%v-x%d", d, counterClients),
		Title:   fmt.Sprintf("an add to one counter, durability %v, %d clients", d, counterClients),
		Metrics: duel.Costs,
		Rounds:  11,
		Ops:     counterClients * cfg.Adds,
	}
	sums := duel.Cell{
		ID:     fmt.Sprintf("patterns/counter-sum-%v", d),
		Title:  "the exact sum of that counter, while nobody adds",
		Rounds: 5,
		Ops:    4 * cfg.Adds,
	}
	for _, way := range counterWays {
		way.options.Durability = d
		t, err := openTally(cfg, way)
		if err != nil {
			cell.Contestants = []duel.Contestant{{Name: way.name, Ours: true, Work: func(int) { panic(err) }}}
			return yield(cell)
		}
		defer t.close()
		cell.Contestants = append(cell.Contestants, duel.Contestant{Name: way.name, Ours: way.split, Work: func(ops int) {
			workload.Parallel(counterClients, ops, func(_, n int) {
				for range n {
					if err := t.add(); err != nil {
						panic(err)
					}
				}
			})
		}})
		sums.Contestants = append(sums.Contestants, duel.Contestant{Name: way.name, Ours: way.split, Work: func(ops int) {
			for range ops {
				if err := t.sum(); err != nil {
					panic(err)
				}
			}
		}})
	}
	return yield(cell) && (d != cleave.EverySec || yield(sums))
}

// tally is a counter on a store.
type tally struct {
	dir      string
	db       *cleave.DB
	counters *counter.Counters
	add, sum func() error
}

func openTally(cfg Config, way counterWay) (t *tally, err error) {
	ctx := context.Background()
	t = &tally{}
	if t.dir, err = os.MkdirTemp(cfg.Dir, "counter"); err != nil {
		return nil, err
	}
	if t.db, err = cleave.Open(t.dir, way.options); err != nil {
		return nil, errors.Join(err, os.RemoveAll(t.dir))
	}
	ks, key := t.db.Default(), []byte("n")
	o := counter.Options{}
	if way.parts != 0 {
		o.Max = way.parts
		o.Window = 1 << 40 // it stays as it is
	}
	if t.counters, err = counter.Open(t.db, ks, o); err != nil {
		return nil, errors.Join(err, t.db.Close(), os.RemoveAll(t.dir))
	}
	t.add = func() error { return t.counters.Add(ctx, "n", 1) }
	t.sum = func() error { _, err := t.counters.Sum(ctx, "n"); return err }
	switch {
	case !way.split:
		t.add = func() error { _, err := ks.Add(ctx, key, 1); return err }
		t.sum = func() error { _, err := ks.Get(ctx, key); return err }
		err = t.add()
	case way.parts != 0:
		err = t.counters.Resize(ctx, "n", way.parts)
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *tally) close() {
	_ = t.counters.Close()
	_ = t.db.Close()
	_ = os.RemoveAll(t.dir)
}
