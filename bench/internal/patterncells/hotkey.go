package patterncells

import (
	"time"

	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/workload"
	"github.com/cleavekv/cleave/hotkey"
)

// hotkeyCells yields what the detector of hot keys adds to each call of a client.
func hotkeyCells(_ Config, yield func(duel.Cell) bool) bool {
	detector := func(sample int) *hotkey.Detector {
		d, err := hotkey.New(hotkey.Options{Sample: sample})
		if err != nil {
			panic(err)
		}
		return d
	}
	keys := make([]string, 1024)
	for i := range keys {
		keys[i] = device(i) + string(rune('a'+i%26))
	}
	usual, all := detector(0), detector(1)
	call := func() {}
	cell := duel.Cell{
		ID:      "patterns/hotkey-overhead",
		Title:   "what watching for hot keys adds to a call, two goroutines",
		Metrics: duel.Costs,
		Rounds:  11,
	}
	add := func(name string, ours bool, each func(key string)) {
		cell.Contestants = append(cell.Contestants, duel.Contestant{Name: name, Ours: ours, Work: func(ops int) {
			workload.Parallel(2, ops, func(_, n int) {
				for i := range n {
					each(keys[i%len(keys)])
				}
			})
		}})
	}
	add("two looks at the clock", false, func(string) { start := time.Now(); call(); took := time.Since(start); _ = took })
	add("1 of 1000, Time", true, func(key string) { usual.Time(key, call) })
	add("1 of 1000, Observe", true, func(key string) { usual.Observe(key, time.Millisecond) })
	add("all, Time", true, func(key string) { all.Time(key, call) })
	return yield(cell)
}
