package group

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/partition"
)

func TestWritersOfASlowRangeWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group
		ctx := context.Background()
		waits := func(at string) time.Duration {
			begun := time.Now()
			if err := g.throttle.waitAt(ctx, partition.Position(at)); err != nil {
				t.Fatal(err)
			}
			return time.Since(begun)
		}
		check := func(when string, want map[string]time.Duration) {
			t.Helper()
			for at, d := range want {
				if got := waits(at); got != d {
					t.Errorf("%s: a write at %q waits for %v, want %v", when, at, got, d)
				}
			}
		}
		span := func(s, e string) partition.Span { return partition.Span{Start: []byte(s), End: []byte(e)} }
		check("at first", map[string]time.Duration{"b": 0})
		g.ThrottleWrites(span("b", "d"), time.Second)
		g.ThrottleWrites(span("d", "e"), time.Minute)
		check("two ranges", map[string]time.Duration{"": 0, "a": 0, "b": time.Second, "c": time.Second, "d": time.Minute, "e": 0})
		g.ThrottleWrites(span("b", "d"), 2*time.Second)
		check("slower", map[string]time.Duration{"b": 2 * time.Second, "d": time.Minute})
		late, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if err := g.throttle.waitAt(late, partition.Position("d")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who cannot wait is told %v", err)
		}
		g.ThrottleWrites(span("d", "e"), 0)
		check("one again", map[string]time.Duration{"c": 2 * time.Second, "d": 0})
		g.ThrottleWrites(span("b", "d"), 0)
		check("at the end", map[string]time.Duration{"c": 0})
		if g.throttle.spans.Load() != nil {
			t.Error("there is a list of nothing")
		}
	})
}

// Reads are not held up, also those that take their turn because something is locked.
func TestReadersOfASlowRangeDoNotWait(t *testing.T) {
	g := openOwner(t, newMemoryDisk(true), 1, servingRange("a", "", 1))
	mustDo(t, g, newSet("k", "1"))
	g.ThrottleWrites(partition.Span{Start: positionOf("a")}, time.Hour)
	g.published.lockCount.Add(1)
	if _, err := g.EvalReadOnly(context.Background(), positionOf("k"), &command.Get{Key: positionOf("k")}); err != nil {
		t.Fatal(err)
	}
}
