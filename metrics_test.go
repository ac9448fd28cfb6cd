package cleave

import (
	"context"
	"testing"
)

func TestMetricsTellOfTheQueue(t *testing.T) {
	db := openIdle(t)
	before := db.Metrics().Stores[0]
	const sets = 1000
	for i := range sets {
		must(t, db.Default().Set(ctx, numberKey(i), nil))
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for range 3 {
		checkRefused(t, "Set", db.Default().Set(ended, []byte("a"), nil), context.Canceled)
	}
	after := db.Metrics().Stores[0]
	if got := after.Commands - before.Commands; got < sets {
		t.Errorf("%d commands, at least %d were executed", got, sets)
	}
	if got := after.Batches - before.Batches; got < sets {
		t.Errorf("%d batches, but nobody waited for another", got)
	}
	if got := after.Refused - before.Refused; got != 3 {
		t.Errorf("%d refused, want 3", got)
	}
	// A sample in 64 or so is timed.
	if n := after.Service.Count() - before.Service.Count(); n < sets/128 || after.Service.Mean() <= 0 {
		t.Errorf("%d batches were timed, %v each", n, after.Service.Mean())
	}
	release := blockGroup(t, db.node.StoreHosts()[0].GroupHosts()[0])
	done := make(chan error, 64)
	for i := range cap(done) {
		go func() { done <- db.Default().Set(ctx, numberKey(i), nil) }()
	}
	waitQueued(t, db, cap(done))
	if got := db.Metrics().Stores[0].QueueDepth; got != cap(done) {
		t.Errorf("%d wait, want %d", got, cap(done))
	}
	release()
	for range cap(done) {
		must(t, <-done)
	}
	if h := db.Metrics().Stores[0].QueueWait; h.Count() == 0 || h.Quantile(1) <= 0 {
		t.Errorf("%d waits were timed, up to %v", h.Count(), h.Quantile(1))
	}
}
