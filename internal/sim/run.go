package sim

import (
	"fmt"
	"runtime/debug"

	"github.com/cleavekv/cleave/internal/check"
)

// Run plays a world to its end and says what became of it. The same Config gives
// the same Result.
func Run(cfg Config) (r Result) {
	w := newWorld(cfg)
	w.history.counts, w.history.leases, w.history.came = map[string][]check.Count{}, map[string]*leases{}, map[int]int{}
	w.history.queue = queueHistory{map[string]*queueMessage{}, map[string][]*queueMessage{}}
	defer func() {
		if x := recover(); x != nil {
			f, ok := x.(failure)
			if !ok {
				f.err = fmt.Errorf("panic: %v\n%s", x, debug.Stack())
			}
			r.Err = f.err
		}
		w.end()
		r.Hash, r.Events, r.Counts, r.Cells, r.Tries = w.trace.Sum64(), w.events, w.counts, w.cells, w.tries
	}()
	w.setUp()
	w.inspect()
	w.arrange()
	w.play(1<<62, w.finished)
	w.heal()
	w.rest()
	return r
}

// finished tells whether the load is over.
func (w *world) finished() bool {
	if w.cfg.Events > 0 && w.events >= w.cfg.Events {
		return true
	}
	for _, c := range w.clients {
		if c.left > 0 {
			return false
		}
	}
	return true
}

// end closes what is open.
func (w *world) end() {
	for _, d := range w.disks {
		if d.store != nil {
			w.turnedAway(d.store)
			_ = d.store.Close()
			d.store = nil
		}
	}
}
