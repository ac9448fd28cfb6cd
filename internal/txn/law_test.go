package txn

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/cleavekv/cleave/internal/tally"
)

// seeds returns how many worlds to play, and the first of their seeds: that of
// CLEAVE_SEED alone, if it is set. The same every time, but for CLEAVE_SOAK.
func seeds(t *testing.T, normal int) (first uint64, n int) {
	if s := os.Getenv("CLEAVE_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("CLEAVE_SEED=%s: %v", s, err)
		}
		return seed, 1
	}
	switch {
	case os.Getenv("CLEAVE_SOAK") != "":
		return rand.Uint64() >> 1, 100 * normal
	case testing.Short():
		return 1, normal / 10
	}
	return 1, normal
}

func TestWhatIsDecidedHappensEverywhereAndNothingElseDoes(t *testing.T) {
	first, n := seeds(t, 400)
	counts := new(tally.Counts)
	for seed := first; seed < first+uint64(n); seed++ {
		w := newWorld(t, seed, counts)
		w.play(600)
		w.heal()
	}
	counts.Add("worlds", n)
	if n > 1 {
		counts.Log(t, "commits", "aborts", "aborts without a record", "conflicts", "met locks", "too late", "wrong shards", "duplicates", "losses",
			"refused batches", "batches of several", "restarts", "moves", "locks that moved", "splits", "merges", "clock jumps", "inquiries",
			"resumed decisions", "reads through intents", "plain writes that meet locks", "shards that share a part", "crashed while preparing",
			"crashed while deciding", "crashed while undoing", "crashed while resolving", "crashed while collecting")
	}
}
