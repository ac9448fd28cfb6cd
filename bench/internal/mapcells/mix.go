package mapcells

import (
	"fmt"
	"sync"

	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/workload"
)

// shape is a type of key and value with its tables.
type shape[K comparable, V any] struct {
	id, title string
	makers    []maker[K, V]
	key       func(i uint32) K
	// values is small enough to stay in the cache: a write costs the table's
	// miss, not the source's.
	values [64]V
}

// mixes are the shares of writes that are compared.
var mixes = []struct {
	id, title    string
	writePercent int
}{
	{"reads", "100 % reads", 0},
	{"95-5", "95 % reads, 5 % writes", 5},
	{"50-50", "50 % reads, 50 % writes", 50},
	{"writes", "100 % writes to existing keys", 100},
}

// load says who draws what.
type load struct {
	distribution workload.Distribution
	// perCore is the number of goroutines for each core.
	perCore int
}

func (l load) id() string { return fmt.Sprintf("%s-x%d", l.distribution, l.perCore) }

// tables gives one table of each kind, filled on first use: a run that skips
// their cells does not pay for them.
type tables[K comparable, V any] func() []table[K, V]

// filled returns tables with all entries in them.
func (s *shape[K, V]) filled(entries int) tables[K, V] {
	return sync.OnceValue(func() []table[K, V] {
		all := make([]table[K, V], len(s.makers))
		for i, m := range s.makers {
			all[i] = m.make()
			for e := range entries {
				all[i].Store(s.key(uint32(e)), s.values[e%len(s.values)])
			}
		}
		return all
	})
}

// contestant starts the contestant that works on the i-th of the tables,
// which are filled before its first window.
func (s *shape[K, V]) contestant(i int, all tables[K, V]) duel.Contestant {
	c := s.makers[i].contestant()
	c.Prepare = func() { all() }
	return c
}

// mixed yields the cells of one load. A cell's stream is drawn when the cell
// is due and is garbage after it.
func (s *shape[K, V]) mixed(cfg Config, all tables[K, V], l load, yield func(duel.Cell) bool) bool {
	goroutines := l.perCore * cfg.Cores
	for _, mix := range mixes {
		steps := workload.Stream(l.distribution, cfg.Entries, cfg.StreamLength, mix.writePercent, 1, s.key)
		cell := duel.Cell{
			ID:      fmt.Sprintf("map/%s/%s/%s", s.id, l.id(), mix.id),
			Title:   fmt.Sprintf("%s, %s, %s keys, %d goroutines", s.title, mix.title, l.distribution, goroutines),
			Metrics: duel.Costs,
		}
		for i := range s.makers {
			c := s.contestant(i, all)
			c.Work = func(ops int) {
				workload.Parallel(goroutines, ops, func(w, n int) {
					play(all()[i], steps, w*len(steps)/goroutines, n, &s.values)
				})
			}
			cell.Contestants = append(cell.Contestants, c)
		}
		if !yield(cell) {
			return false
		}
	}
	return true
}

// play does n steps of the stream, beginning at from and wrapping around. A
// key that is not found is a broken table: the contestant is out.
func play[K comparable, V any](t table[K, V], steps []workload.Step[K], from, n int, values *[64]V) {
	for i := range n {
		s := &steps[(from+i)&(len(steps)-1)]
		if s.Write {
			t.Store(s.Key, values[i%len(values)])
		} else if _, ok := t.Load(s.Key); !ok {
			panic(fmt.Sprintf("lost key %v", s.Key))
		}
	}
}
