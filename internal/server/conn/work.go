package conn

import "time"

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
	// Clients is the work of each client that the loop may move, and Total that of all its clients, in a
	// unit of their own.
	Clients []int64
	Total   int64
}

// ClientMove moves a client, by its index, to a loop.
type ClientMove struct{ Client, To int }

// PlanMoves decides which clients the busiest loop gives to others: none if another loop asks, or if the gap between
// the busiest and the least busy one is small. Each move makes the busier of two loops less busy, so a single client
// that keeps a loop busy stays where it is.
func PlanMoves(w Work) (moves []ClientMove) {
	busy := append([]time.Duration(nil), w.Busy...)
	moved := make([]bool, len(w.Clients))
	for range w.Clients {
		most, least := 0, 0
		for i := range busy {
			if busy[i] > busy[most] {
				most = i
			}
			if busy[i] < busy[least] {
				least = i
			}
		}
		gap := busy[most] - busy[least]
		if most != w.Own || gap <= w.Period/minWorkGap || w.Total == 0 {
			return moves
		}
		best, bestTime := -1, time.Duration(0)
		for i, work := range w.Clients {
			// What the client takes of the loop's time: nearest to half the gap is best.
			t := time.Duration(float64(w.Busy[w.Own]) * float64(work) / float64(w.Total))
			if !moved[i] && t > 0 && t < gap*3/4 && (best < 0 || (gap/2-t).Abs() < (gap/2-bestTime).Abs()) {
				best, bestTime = i, t
			}
		}
		if best < 0 {
			return moves
		}
		moved[best] = true
		busy[most] -= bestTime
		busy[least] += bestTime
		moves = append(moves, ClientMove{best, least})
	}
	return moves
}
