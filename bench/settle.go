package main

import "runtime"

// collector clears the heap between windows, so that nobody pays for somebody
// else's garbage.
type collector struct {
	// live is the heap after the last collection here.
	live uint64
}

// settle collects if it is due. To collect before every window would be
// simpler and take most of a run's time: the big tables of all contestants
// are marked each time.
func (c *collector) settle() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if !due(m.HeapAlloc, c.live, m.NextGC) {
		return
	}
	runtime.GC()
	runtime.ReadMemStats(&m)
	c.live = m.HeapAlloc
}

// due says whether garbage has used up a quarter of the room that a heap of
// live bytes has until the runtime would collect by itself, at next bytes.
// Below that, a window starts with most of the room, like all others.
func due(heap, live, next uint64) bool {
	return next <= live || heap > live+(next-live)/4
}
