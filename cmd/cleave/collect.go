package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// collectOften lets the garbage be collected more often than a Go program does by itself,
// until ctx ends. Most of the heap of a server is rows, segments of the log and blocks of
// tables: large pieces without pointers that cost the collector nothing, so it need not wait
// until there is as much garbage as that. Who sets GOGC decides for himself.
func collectOften(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for percent := 100; ; {
		if metrics.Read(sample); sample[0].Value.Kind() == metrics.KindUint64 {
			if want := garbagePercent(sample[0].Value.Uint64()); want != percent {
				percent = want
				debug.SetGCPercent(percent)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

const (
	// A quarter of the heap may be garbage, but leastGarbage in any case: a small heap
	// would be looked through all the time otherwise.
	garbageShare = 25
	leastGarbage = 64 << 20
)

// garbagePercent returns how much garbage there may be beside so many bytes that are in use,
// as a share of them.
func garbagePercent(live uint64) int {
	least := leastGarbage * 100 / max(live, 1<<20)
	return int(max(garbageShare, least/5*5)) // in steps, as each change stops everybody for a moment
}
