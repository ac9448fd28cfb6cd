package conn

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestPlanMoves_OfOneBusyLoop_SharesItsClients(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name string
		work Work
		want []ClientMove
	}{
		{"even loops keep theirs", Work{Busy: []time.Duration{90 * ms, 80 * ms}, Clients: []int64{1, 1}, Total: 2}, nil},
		{"a loop that is not the busiest keeps its own", Work{Busy: []time.Duration{10 * ms, 90 * ms}, Clients: []int64{1, 1}, Total: 2}, nil},
		{"half of two goes", Work{Busy: []time.Duration{100 * ms, 0}, Clients: []int64{1, 1}, Total: 2}, []ClientMove{{0, 1}}},
		{"one client that fills a loop stays", Work{Busy: []time.Duration{100 * ms, 0}, Clients: []int64{10, 0}, Total: 10}, nil},
		{"its neighbours leave it", Work{Busy: []time.Duration{100 * ms, 0}, Clients: []int64{80, 20}, Total: 100}, []ClientMove{{1, 1}}},
		{"what may not be moved counts", Work{Busy: []time.Duration{100 * ms, 0}, Clients: []int64{1}, Total: 100}, []ClientMove{{0, 1}}},
		{"the least busy loop gets them", Work{Busy: []time.Duration{100 * ms, 60 * ms, 20 * ms}, Clients: []int64{4, 4, 2}, Total: 10}, []ClientMove{{0, 2}}},
	} {
		c.work.Period = 100 * ms
		if got := PlanMoves(c.work); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Whatever the work is, no move makes the busiest loop busier, each client is moved once, and what the loops decide
// one after the other ends.
func TestPlanMoves_NeverMakesItWorse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := Work{Period: 100 * time.Millisecond}
		for range rapid.IntRange(2, 6).Draw(t, "loops") {
			w.Busy = append(w.Busy, time.Duration(rapid.IntRange(0, 100).Draw(t, "busy"))*time.Millisecond)
		}
		w.Own = rapid.IntRange(0, len(w.Busy)-1).Draw(t, "own")
		w.Clients = rapid.SliceOfN(rapid.Int64Range(0, 1000), 0, 20).Draw(t, "clients")
		for _, c := range w.Clients {
			w.Total += c
		}
		after := slices.Clone(w.Busy)
		for _, m := range PlanMoves(w) {
			time := time.Duration(float64(w.Busy[w.Own]) * float64(w.Clients[m.Client]) / float64(w.Total))
			w.Clients[m.Client] = 0 // a second move of it takes no time, and is not planned
			if time <= 0 || m.To == w.Own {
				t.Fatalf("client %d is moved to loop %d from %d for %v", m.Client, m.To, w.Own, time)
			}
			after[w.Own] -= time
			after[m.To] += time
			if slices.Max(after) > slices.Max(w.Busy) {
				t.Fatalf("loops that were busy for %v are so for %v", w.Busy, after)
			}
		}
	})
}
