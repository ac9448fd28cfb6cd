package group

import (
	"testing"

	"pgregory.net/rapid"
)

func TestTheClockNeverGoesBackAndNeverPassesItsCeiling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wall := int64(0)
		c := &clock{wall: func() int64 { return wall }}
		last, ceiling := int64(0), int64(0)
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				wall += rapid.Int64Range(-100, 200).Draw(t, "jump")
			case 1:
				ceiling = max(ceiling, wall+rapid.Int64Range(0, 100).Draw(t, "reserve"))
				c.raise(ceiling)
			case 2: // a restart knows the ceiling and nothing else
				c = &clock{wall: c.wall}
				c.startAt(ceiling)
			}
			now := c.now()
			if now < last || now > ceiling {
				t.Fatalf("clock says %d after %d with ceiling %d", now, last, ceiling)
			}
			last = now
		}
	})
}
