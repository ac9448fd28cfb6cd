package main

import (
	"testing"
	"time"
)

func TestTwoWhoHaveALeaseAtOnceAreFound(t *testing.T) {
	t0 := time.UnixMilli(0)
	had := func(key string, asked, told, ms int) lease {
		at := func(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }
		return lease{Key: key, For: time.Duration(ms) * time.Millisecond, Asked: at(asked), Told: at(told), Won: true}
	}
	for name, c := range map[string]struct {
		all  []lease
		want int
	}{
		"one after the other":          {[]lease{had("a", 11, 12, 10), had("a", 0, 1, 10)}, 0},
		"two keys":                     {[]lease{had("a", 0, 1, 10), had("b", 0, 1, 10)}, 0},
		"both":                         {[]lease{had("a", 5, 6, 10), had("a", 0, 1, 10)}, 1},
		"one within the other":         {[]lease{had("a", 5, 6, 3), had("a", 0, 1, 30), had("a", 20, 21, 5)}, 2},
		"one was told when it is over": {[]lease{had("a", 0, 50, 10), had("a", 20, 21, 60)}, 0},
	} {
		if wrong := checkLeases(c.all); len(wrong) != c.want {
			t.Errorf("%s: found %v, want %d", name, wrong, c.want)
		}
	}
}
