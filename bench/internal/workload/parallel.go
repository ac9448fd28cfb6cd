// Package workload answers one question: which operations does a window hold,
// and who does them?
//
// Everything is drawn ahead of time from fixed seeds, so that every
// contestant does the same operations and a window spends its time on them,
// not on drawing.
package workload

import "sync"

// Sink is where loops leave their results, or the compiler would drop work
// that nobody reads. One goroutine at a time writes it.
var Sink uint64

// Parallel divides ops among goroutines and returns when all are done. f gets
// the number of its worker and its share. A panic of any worker becomes the
// caller's.
func Parallel(goroutines, ops int, f func(worker, ops int)) {
	var wg sync.WaitGroup
	var once sync.Once
	var failure any
	for w := range goroutines {
		share := ops / goroutines
		if w < ops%goroutines {
			share++
		}
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					once.Do(func() { failure = p })
				}
			}()
			f(w, share)
		})
	}
	wg.Wait()
	if failure != nil {
		panic(failure)
	}
}
