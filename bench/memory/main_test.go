package main

import (
	"testing"
	"time"
)

func TestWaitStable_ReturnsWhatIsLeftWhenItShrinksNoMore(t *testing.T) {
	for name, c := range map[string]struct {
		shrinks, want int // for so many seconds; MiB at the end
	}{
		"at once":     {0, 1000},
		"later":       {20, 980},
		"for so long": {1000, 1000 - maxSeconds},
	} {
		seconds := 0
		got := waitStable(func() int { return (1000 - min(seconds, c.shrinks)) * (stableBytes + 1) }, func(time.Duration) { seconds++ })
		if got>>20 != c.want {
			t.Errorf("%s: %d MiB, want %d", name, got>>20, c.want)
		}
	}
}
