package mover

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/cleavekv/cleave/internal/tally"
)

// seeds returns how many worlds to play, and the first of their seeds: that of
// CLEAVE_SEED alone, if it is set.
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
		return 1, 1000 * normal
	case testing.Short():
		return 1, normal / 10
	}
	return 1, normal
}

func TestOneGroupServesEachPositionAndNothingIsLostWhateverHappens(t *testing.T) {
	first, n := seeds(t, 300)
	counts := new(tally.Counts)
	for seed := first; seed < first+uint64(n); seed++ {
		w := newWorld(t, seed, counts)
		for range 10 {
			w.play(200)
			w.contents()
		}
		w.heal()
	}
	counts.Add("worlds", n)
	if n > 1 {
		counts.Log(t, needed()...)
	}
}

// needed names each fault in each phase, and what else must have happened.
func needed() (cells []string) {
	for p := range phaseNames {
		if p.Final() {
			continue
		}
		cells = append(cells, "entered "+p.String())
		for _, fault := range []string{"crashed", "lost", "late", "repeated", "overtaken", "paused"} {
			cells = append(cells, fmt.Sprintf("%s while %v", fault, p))
		}
		if !p.decided() && !p.undoing() && p != Removing && p != Stopping && p != Unmarking {
			cells = append(cells, fmt.Sprintf("cancelled while %v", p))
		}
	}
	for k := Split; k <= Regroup; k++ {
		cells = append(cells, fmt.Sprintf("%v done", k))
	}
	return append(cells, "refused", "cancelled too late", "writes that met a freeze", "writes to a wrong group", "reaped", "moves with a pause")
}
