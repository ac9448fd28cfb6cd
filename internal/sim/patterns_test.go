package sim

import (
	"os"
	"testing"

	"github.com/cleavekv/cleave/internal/tally"
)

// patterned makes a world whose clients use a pattern on the store: with all faults and
// jobs, or undisturbed and in each other's way.
func patterned(load string, seed uint64) Config {
	c := shape(seed)
	if seed%4 == 1 {
		c = contended(seed)
	}
	c.Load, c.Ops = load, 40
	if load == "rounds" && seed%4 != 1 {
		c.Stores, c.Groups, c.Jobs = 1, 4, true // most moves are within a store
	}
	return c
}

// playPattern plays worlds of a pattern.
func playPattern(t *testing.T, load string, want ...string) {
	first, one := seedOf(t)
	counts := new(tally.Counts)
	worlds := uint64(4)
	switch {
	case one:
		worlds = 1
	case os.Getenv("CLEAVE_PLANT") != "":
		worlds = 80
	case os.Getenv("CLEAVE_SOAK") == "1":
		worlds = 100
	case testing.Short():
		worlds = 2
	default:
		plainly(t)
	}
	for seed := first; seed < first+worlds && !t.Failed(); seed++ {
		play(t, patterned(load, seed), counts)
	}
	if one {
		want = nil
	}
	counts.Log(t, want...)
}

// Sums of a split counter are exact while it grows, shrinks and moves, whatever happens.
func TestSplitCountersAreExactWhateverHappens(t *testing.T) {
	playPattern(t, "counter", "resizes of a split counter", "adds to a part that was closed")
}

// What is put into a queue comes until it is acknowledged, in the order of its key, while
// the number of shards changes and they move, whatever happens.
func TestQueuesKeepWhatTheyPromiseWhateverHappens(t *testing.T) {
	playPattern(t, "queue", "messages published", "messages delivered", "messages acknowledged", "resizes of a queue", "buckets drained")
}

// What a transaction has scanned stays so until it has happened, also if a part of it moves
// in between: who has come before it and seen nothing of it is seen by it.
func TestTransactionsSeeWhoHasComeWhateverHappens(t *testing.T) {
	playPattern(t, "rounds", "rounds", "visitors", "parts of several shards")
}
