package main

import "testing"

func TestCollectionIsDueWhenAQuarterOfTheRoomIsUsed(t *testing.T) {
	for _, c := range []struct {
		why              string
		heap, live, next uint64
		want             bool
	}{
		{"nothing allocated since", 100, 100, 200, false},
		{"just a quarter", 125, 100, 200, false},
		{"more than a quarter", 126, 100, 200, true},
		{"less than was live: tables were dropped", 50, 100, 200, false},
		{"the runtime collected a smaller heap meanwhile", 60, 100, 90, true},
		{"first call", 10, 0, 4, true},
	} {
		if got := due(c.heap, c.live, c.next); got != c.want {
			t.Errorf("%s: due(%d, %d, %d) = %v", c.why, c.heap, c.live, c.next, got)
		}
	}
}
