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
		{"a loop that is not used gives all to the others", Work{Busy: []time.Duration{90 * ms, 30 * ms, 40 * ms}, Own: 2, Used: 2, Clients: []int64{1, 0, 3}, Total: 4}, []ClientMove{{0, 1}, {1, 1}, {2, 1}}},
		{"a loop that is not used gets none", Work{Busy: []time.Duration{90 * ms, 0}, Used: 1, Clients: []int64{1, 1}, Total: 2}, nil},
		{"the least busy loop gets them", Work{Busy: []time.Duration{100 * ms, 60 * ms, 20 * ms}, Clients: []int64{4, 4, 2}, Total: 10}, []ClientMove{{0, 2}}},
	} {
		c.work.Period = 100 * ms
		if c.work.Used == 0 {
			c.work.Used = len(c.work.Busy)
		}
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
		w.Used = len(w.Busy)
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

// machine is a model of a server whose loops share processors with the load that asks them.
type machine struct {
	processors float64
	// load is how much of a processor the load takes for each that the loops take, at most loadThreads, and demand is
	// how much of a processor the loops may take at most because no more is asked.
	load, loadThreads, demand float64
}

// use is how the processors are used by some loops: they do as much as can be done.
func (m machine) use(loops int) Use {
	const period = 100 * time.Millisecond
	work := min(m.demand, float64(loops), m.processors/(1+m.load))
	if m.load > 0 {
		work = min(work, m.loadThreads/m.load)
	}
	idle := m.processors - work*(1+m.load)
	busy := work / float64(loops)
	if idle < 0.05 && work < m.demand {
		busy = 1 // each loop always has something to do, and waits for a processor
	}
	u := Use{Period: period, Periods: 1, Thread: time.Duration(work * float64(period)), Idle: time.Duration(idle * float64(period))}
	for range loops {
		u.Busy = append(u.Busy, time.Duration(busy*float64(period)))
	}
	return u
}

func TestLoopPlanner_UsesAsManyLoopsAsTheLoadNeeds(t *testing.T) {
	for _, c := range []struct {
		name        string
		machine     machine
		least, most int
	}{
		{"no load", machine{processors: 8}, 1, 1},
		{"half of a loop", machine{processors: 8, demand: 0.5}, 1, 1},
		{"a load elsewhere fills the machine", machine{processors: 8, demand: 100}, 8, 8},
		{"a load elsewhere of three processors", machine{processors: 8, demand: 3}, 4, 6},
		{"a load beside it that needs as much as the loops", machine{processors: 2, load: 1, loadThreads: 1, demand: 100}, 1, 1},
		{"such a load on a larger machine", machine{processors: 8, load: 1, loadThreads: 8, demand: 100}, 4, 5},
		{"a load beside it that needs little", machine{processors: 2, load: 0.1, loadThreads: 1, demand: 100}, 2, 2},
	} {
		for _, start := range []int{1, int(c.machine.processors)} {
			var p LoopPlanner
			used, changes := start, 0
			for step := range 600 {
				next := p.Step(c.machine.use(used), int(c.machine.processors))
				if step >= 300 && next != used {
					changes++
				}
				used = next
			}
			if used < c.least || used > c.most || changes > 0 {
				t.Errorf("%s, from %d loops: %d are used, want %d to %d; %d changes in 30 s of an even load", c.name, start, used, c.least, c.most, changes)
			}
		}
	}
}

// A server that was quiet begins with few loops.
func TestLoopPlanner_AfterAPause_UsesOneLess(t *testing.T) {
	var p LoopPlanner
	u := Use{Period: time.Second / 10, Periods: 20, Busy: make([]time.Duration, 2), Idle: time.Second}
	if got := p.Step(u, 2); got != 1 {
		t.Errorf("after two quiet seconds %d loops are used", got)
	}
}
