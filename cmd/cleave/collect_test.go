package main

import "testing"

func TestGarbageIsAShareOfTheHeapAndNotTooLittle(t *testing.T) {
	for live, want := range map[uint64]int{0: 6400, 1 << 20: 6400, 64 << 20: 100, 100 << 20: 60, 256 << 20: 25, 8 << 30: 25} {
		if got := garbagePercent(live); got != want {
			t.Errorf("%d MiB in use: %d %%, want %d", live>>20, got, want)
		}
	}
}
