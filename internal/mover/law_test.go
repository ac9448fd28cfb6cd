package mover

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/cleavekv/cleave/internal/tally"
	"github.com/cleavekv/cleave/partition"
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
		return rand.Uint64() >> 1, 50 * normal
	case testing.Short():
		return 1, normal / 10
	}
	return 1, normal
}

func TestOneGroupServesEachPositionAndNothingIsLostWhateverHappens(t *testing.T) {
	t.Parallel()
	first, n := seeds(t, 60)
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

// needed names what must have happened.
func needed() (cells []string) {
	for p := range phaseNames {
		if p != Planned && p != Marking {
			cells = append(cells, "entered "+p.String())
		}
	}
	for k := Split; k <= Undrain; k++ {
		cells = append(cells, fmt.Sprintf("%v done", k))
	}
	return append(cells, "refused", "cancelled too late", "decided with a record that was not stored", "writes that met a freeze", "writes to a wrong group", "reaped", "moves with a pause", "marks of others left", "splits for groups that were added")
}

// scene returns what to ask for, and in which phase to cancel it, so that a job
// gets into a phase.
func scene(w *world, p Phase) (r Request, cancelAt Phase) {
	s := slices.Collect(w.m.Owned(1))[0]
	r = Request{Kind: Move, Shard: s.ID, To: 3}
	switch p {
	case Thawing:
		cancelAt = Freezing
	case Abandoning, Wiping, Dismissing:
		cancelAt = Catching
	case Marking, Surveying:
		r = Request{Kind: Drain, Group: 1}
	case Stopping, Unmarking:
		r, cancelAt = Request{Kind: Drain, Group: 1}, Surveying
	case Hosting:
		r = Request{Kind: Regroup, Groups: 5, Labels: make([]partition.Labels, 1)}
	case Retiring, Removing:
		r = Request{Kind: Regroup, Groups: 3}
	}
	return r, cancelAt
}

func TestEachFaultInEachPhaseIsSurvived(t *testing.T) {
	t.Parallel()
	counts := new(tally.Counts)
	for _, p := range slices.Sorted(maps.Keys(phaseNames)) {
		if p.Final() {
			continue
		}
		for _, fault := range []string{"crashed", "lost", "late", "repeated", "overtaken", "paused", "cancelled"} {
			for seed := range uint64(2) {
				w := newWorld(t, seed, counts)
				w.aim, w.passes = &aim{phase: p, fault: fault}, false
				w.act(p)
				if !w.aim.hit {
					t.Errorf("nothing was %s while %v: the test shows nothing", fault, p)
				}
			}
		}
	}
	counts.Log(t)
}

// act plays one job with one fault, and writes.
func (w *world) act(p Phase) {
	for range 60 {
		w.write()
	}
	r, cancelAt := scene(w, p)
	w.admit(r)
	for i := 0; len(w.open) > 0 && i < 3000; i++ {
		if j := w.records[w.open[0]]; j.Phase == cancelAt {
			w.cancel(j.ID)
		}
		switch {
		case len(w.net) > 0 && !w.chance(20):
			w.deliver()
		case w.chance(70):
			w.write()
			w.read()
		default:
			w.poke()
		}
		if w.chance(3) {
			w.now++
			w.unpause()
		}
		w.check()
	}
	w.contents()
	w.heal()
}

// One driver is about to decide, from records that it has not stored. Another finds that the
// range has been frozen for too long.
func TestARangeThatIsThawedIsNotDecided(t *testing.T) {
	t.Parallel()
	w := smooth(t, 1)
	w.passes = true
	r, _ := scene(w, Deciding)
	w.admit(r)
	id := w.open[0]
	one, other := w.drivers[0], w.drivers[1]
	if _, ok := one.jobs[id]; !ok {
		one, other = other, one
	}
	for n := 0; one.jobs[id].Phase != Deciding; n++ {
		if n > 1000 || len(w.net) == 0 {
			w.fatalf("job %d is %v, and does not come to its decision", id, one.jobs[id].Phase)
		}
		w.deliver()
	}
	if j, _ := w.load(id); j.Phase != Freezing {
		w.fatalf("job %d is stored as %v: the test shows nothing", id, j.Phase)
	}
	decision := w.net
	w.net, w.now = nil, w.now+10*FreezeLimitMS
	other.poke(id)
	w.deliver()
	for range 100 {
		w.write()
	}
	answer := w.net
	for w.net = decision; len(w.net) > 0; {
		w.deliver()
	}
	w.net = answer
	w.heal()
}
