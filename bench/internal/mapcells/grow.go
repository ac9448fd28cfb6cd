package mapcells

import (
	"fmt"

	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/workload"
)

// insert returns the cell that fills tables from empty, on all cores.
func (s *shape[K, V]) insert(cfg Config) duel.Cell {
	cell := duel.Cell{
		ID:      fmt.Sprintf("map/%s/insert", s.id),
		Title:   fmt.Sprintf("%s, insert from empty to %d entries, %d goroutines", s.title, cfg.Entries, cfg.Cores),
		Metrics: duel.Costs,
		Ops:     cfg.Entries,
	}
	keys := make([]K, cfg.Entries)
	for i := range keys {
		keys[i] = s.key(uint32(i))
	}
	for _, m := range s.makers {
		var t table[K, V]
		c := m.contestant()
		c.Prepare = func() { t = m.make() }
		c.Work = func(ops int) {
			workload.Parallel(cfg.Cores, ops, func(w, n int) {
				for i := range n {
					t.Store(keys[i*cfg.Cores+w], s.values[i%len(s.values)])
				}
			})
			// The table is garbage from here on, or the next contestant's
			// collections would mark it.
			t = nil
		}
		cell.Contestants = append(cell.Contestants, c)
	}
	return cell
}

// visit returns the cell that ranges over all entries, alone.
func (s *shape[K, V]) visit(cfg Config, all tables[K, V]) duel.Cell {
	cell := duel.Cell{
		ID:      fmt.Sprintf("map/%s/range", s.id),
		Title:   fmt.Sprintf("%s, Range over %d entries, per entry, 1 goroutine", s.title, cfg.Entries),
		Metrics: duel.Costs,
		Ops:     cfg.Entries,
	}
	for i := range s.makers {
		c := s.contestant(i, all)
		c.Work = func(ops int) {
			seen := 0
			all()[i].Range(func(K, V) bool { seen++; return true })
			if seen != ops {
				panic(fmt.Sprintf("visited %d of %d entries", seen, ops))
			}
		}
		cell.Contestants = append(cell.Contestants, c)
	}
	return cell
}

// churn returns the cell in which each operation deletes the oldest entry of
// its worker and inserts a new one, so that the size stays. It leaves other
// entries behind: it must be the last to use the tables.
func churn(s *shape[uint64, uint64], cfg Config, all tables[uint64, uint64]) duel.Cell {
	cell := duel.Cell{
		ID:      fmt.Sprintf("map/%s/churn", s.id),
		Title:   fmt.Sprintf("%s, delete the oldest entry and insert a new one, %d goroutines", s.title, cfg.Cores),
		Metrics: duel.Costs,
	}
	for i := range s.makers {
		// Worker w owns the entries that are w modulo the number of workers.
		oldest := make([]int, cfg.Cores)
		entries := cfg.Entries / cfg.Cores * cfg.Cores
		c := s.contestant(i, all)
		c.Work = func(ops int) {
			workload.Parallel(cfg.Cores, ops, func(w, n int) {
				at, t := oldest[w], all()[i]
				for range n {
					t.Delete(s.key(uint32(at*cfg.Cores + w)))
					t.Store(s.key(uint32(at*cfg.Cores+w+entries)), 1)
					at++
				}
				oldest[w] = at
			})
		}
		cell.Contestants = append(cell.Contestants, c)
	}
	return cell
}
