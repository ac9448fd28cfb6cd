package conn

import (
	"slices"
	"time"
)

// DefaultWorkPeriod is how long loops measure their work before one of them gives clients to another.
const DefaultWorkPeriod = 100 * time.Millisecond

// minWorkGap is the part of a period by which the busiest loop is ahead of the least busy one before a client is
// moved: measures of one period differ by less, and a move costs both loops some microseconds.
const minWorkGap = 4

// readWork is what a read of a socket and the write of its answers take, in bytes of requests and answers: of GETs
// of small values a round trip of one takes about as much as these bytes in a pipeline of 64.
const readWork = 512

// Work is what the loops of a server had to do in one period.
type Work struct {
	Period time.Duration
	// Busy is how long each loop was not waiting, and Own the index of the loop that asks.
	Busy []time.Duration
	Own  int
	// Used is how many of the loops, the first ones, may have clients.
	Used int
	// Clients is the work of each client that the loop may move, and Total that of all its clients, in a
	// unit of their own.
	Clients []int64
	Total   int64
}

// ClientMove moves a client, by its index, to a loop.
type ClientMove struct{ Client, To int }

// PlanMoves decides which clients a loop gives to others. One that is not to be used gives all. Of the others the
// busiest one gives some, unless the gap between it and the least busy one is small. Each such move makes the busier of
// two loops less busy, so a single client that keeps a loop busy stays where it is.
func PlanMoves(w Work) (moves []ClientMove) {
	busy := append([]time.Duration(nil), w.Busy[:w.Used]...)
	// timeOf is what a client takes of the loop's time.
	timeOf := func(client int) time.Duration {
		return time.Duration(float64(w.Busy[w.Own]) * float64(w.Clients[client]) / float64(max(1, w.Total)))
	}
	if w.Own >= w.Used {
		for i := range w.Clients {
			least := leastBusy(busy)
			busy[least] += max(timeOf(i), 1) // so that idle ones are spread as well
			moves = append(moves, ClientMove{i, least})
		}
		return moves
	}
	moved := make([]bool, len(w.Clients))
	for range w.Clients {
		least := leastBusy(busy)
		gap := busy[w.Own] - busy[least]
		if slices.Max(busy) > busy[w.Own] || gap <= w.Period/minWorkGap {
			return moves
		}
		best, bestTime := -1, time.Duration(0)
		for i := range w.Clients {
			// Nearest to half the gap is best.
			t := timeOf(i)
			if !moved[i] && t > 0 && t < gap*3/4 && (best < 0 || (gap/2-t).Abs() < (gap/2-bestTime).Abs()) {
				best, bestTime = i, t
			}
		}
		if best < 0 {
			return moves
		}
		moved[best] = true
		busy[w.Own] -= bestTime
		busy[least] += bestTime
		moves = append(moves, ClientMove{best, least})
	}
	return moves
}

// leastBusy is the index of the loop with the least to do.
func leastBusy(busy []time.Duration) int {
	return slices.Index(busy, slices.Min(busy))
}

// Use is how the processors of the machine were used in one period.
type Use struct {
	Period time.Duration
	// Periods is how many have passed: more than one if the loops have slept.
	Periods int
	// Busy is how long each loop that is used was not waiting, and Thread how long all these were on a processor.
	Busy   []time.Duration
	Thread time.Duration
	// Idle is how long processors had nothing to do that this process may use, in sum.
	Idle time.Duration
}

// A [LoopPlanner] finds how many loops have clients: as few as carry the load. More than that would share the work
// of a round, and so make rounds smaller, without being faster; the more so if the load itself needs the processors,
// as one on the same machine does.
type LoopPlanner struct{ more, fewer int }

// periodsToGrow and periodsToShrink are how many periods in a row must ask for another loop, or for one less.
const periodsToGrow, periodsToShrink = 5, 10

// Step returns how many loops are to be used, of at most all.
func (p *LoopPlanner) Step(u Use, all int) (used int) {
	used = len(u.Busy)
	var sum time.Duration
	for _, b := range u.Busy {
		sum += b
	}
	fits := sum < time.Duration(used-1)*u.Period*6/10
	crowded := u.Idle < u.Period/10 && u.Thread < time.Duration(used)*u.Period-u.Period/2
	p.more, p.fewer = p.more+1, p.fewer+u.Periods
	if used == all || slices.Max(u.Busy) < u.Period*3/4 || u.Idle < u.Period/2 {
		p.more = 0
	}
	if used == 1 || !fits && !crowded {
		p.fewer = 0
	}
	switch {
	case p.more == periodsToGrow:
		*p = LoopPlanner{}
		return used + 1
	case p.fewer >= periodsToShrink:
		*p = LoopPlanner{}
		return used - 1
	}
	return used
}
