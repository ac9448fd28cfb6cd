package mapcells

import (
	"fmt"

	"github.com/alphadose/haxmap"
	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/lockmap"
	"github.com/cleavekv/cleave/bench/internal/workload"
	"github.com/cleavekv/cleave/shardmap"
	cmap "github.com/orcaman/concurrent-map/v2"
	"github.com/puzpuzpuz/xsync/v4"
)

// adder counts: it adds 1 to the value of a key in one atomic step, as each
// map does that best. Those without such a step retry a compare-and-swap.
type adder func(k uint64)

// adders returns one for each kind of table that has a way.
func adders(makers []maker[uint64, uint64], all []table[uint64, uint64]) []adder {
	out := make([]adder, len(makers))
	for i := range makers {
		switch t := all[i].(type) {
		case *shardmap.Map[uint64, uint64]:
			out[i] = func(k uint64) {
				t.Compute(k, func(old uint64, _ bool) (uint64, shardmap.Op) { return old + 1, shardmap.Update })
			}
		case *xsync.Map[uint64, uint64]:
			out[i] = func(k uint64) {
				t.Compute(k, func(old uint64, _ bool) (uint64, xsync.ComputeOp) { return old + 1, xsync.UpdateOp })
			}
		case *lockmap.Sharded[uint64, uint64]:
			out[i] = func(k uint64) { t.Do(k, func(m map[uint64]uint64) { m[k]++ }) }
		case *lockmap.Map[uint64, uint64]:
			out[i] = func(k uint64) { t.Do(func(m map[uint64]uint64) { m[k]++ }) }
		case concurrentMap[uint64, uint64]:
			out[i] = func(k uint64) { upsert(t.ConcurrentMap, k) }
		case *syncMap[uint64, uint64]:
			out[i] = func(k uint64) {
				for v, _ := t.m.Load(k); !t.m.CompareAndSwap(k, v, v.(uint64)+1); v, _ = t.m.Load(k) {
				}
			}
		case haxUint64[uint64]:
			out[i] = func(k uint64) { swapUntilAdded(t.Map, k) }
		default:
			panic(fmt.Sprintf("no adder for %s", makers[i].name))
		}
	}
	return out
}

func upsert(m cmap.ConcurrentMap[uint64, uint64], k uint64) {
	m.Upsert(k, 1, func(exists bool, old, one uint64) uint64 {
		if !exists {
			return one
		}
		return old + one
	})
}

func swapUntilAdded(m *haxmap.Map[uint64, uint64], k uint64) {
	for {
		if v, _ := m.Get(k); m.CompareAndSwap(k, v, v+1) {
			return
		}
	}
}

// compute returns the cell that counts events of hot and cold keys.
func compute(s *shape[uint64, uint64], cfg Config, all tables[uint64, uint64]) duel.Cell {
	cell := duel.Cell{
		ID:      fmt.Sprintf("map/%s/compute", s.id),
		Title:   fmt.Sprintf("%s, add 1 atomically, zipf keys, %d goroutines", s.title, cfg.Cores),
		Metrics: duel.Costs,
	}
	steps := workload.Stream(workload.Zipf, cfg.Entries, cfg.StreamLength, 100, 1, s.key)
	for i := range s.makers {
		c := s.contestant(i, all)
		c.Work = func(ops int) {
			add := adders(s.makers, all())[i]
			workload.Parallel(cfg.Cores, ops, func(w, n int) {
				from := w * len(steps) / cfg.Cores
				for j := range n {
					add(steps[(from+j)&(len(steps)-1)].Key)
				}
			})
		}
		cell.Contestants = append(cell.Contestants, c)
	}
	return cell
}
