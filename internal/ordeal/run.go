package main

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"time"
)

// childVariable is set in the environment of a child.
const childVariable = "CLEAVE_ORDEAL_CHILD"

// options say what a run is like.
type options struct {
	Seed           uint64
	Stores, Groups int
	Durability     string
	// Lives is how many children are killed.
	Lives int
	// Patient and Contended are told to each.
	Patient, Contended bool
}

// run is several lives of one store.
type run struct {
	options
	self, dir string
	rng       *rand.Rand
	history   *history
	// made tells that the store was open once.
	made bool
	// jobs are those that were heard of and not of their end, overJobs those with one.
	jobs     map[uint64]job
	overJobs map[uint64]bool
	did      map[string]int
}

// phases are those of a move between stores that are stored, and so can be seen, in
// their order; those between them last as long as a kill takes to arrive.
var phases = []string{
	"planned", "preparing", "clearing", "locating", "opening", "copying", "catching up", "verifying", "freezing",
	"releasing", "publishing", "dropping", "forgetting", "done",
	"thawing", "abandoning", "wiping", "dismissing", "marking", "hosting", "surveying", "retiring",
}

// aims returns the moments of a run.
func (r *run) aims() (aims []aim) {
	targets := slices.Clone(phases)
	if r.Stores == 1 {
		targets = []string{"local planned", "local releasing", "local done", "planned", "releasing", "done"}
	}
	r.rng.Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
	for i := range r.Lives {
		a := aim{Nth: r.rng.IntN(4), Delay: r.between(10*time.Microsecond, 2*time.Millisecond)}
		switch i % 8 {
		case 0:
			a = aim{At: "random", Delay: r.between(20*time.Millisecond, 400*time.Millisecond)}
		case 2:
			a.At, a.Nth = "commit", 20+r.rng.IntN(100)
		case 4, 6:
			a.At, a.Nth, a.Delay = "answer", 20+r.rng.IntN(100), 0
		default:
			a.At = targets[i/2%len(targets)]
			if r.rng.IntN(2) == 0 {
				a.Delay = 0
			}
		}
		if i > 0 && r.rng.IntN(8) == 0 {
			a = aim{At: "start", Delay: r.between(time.Millisecond, 400*time.Millisecond)}
		}
		aims = append(aims, a)
	}
	return aims
}

// newRun makes a run in a new directory.
func newRun(self, dir string, o options) *run {
	return &run{
		options: o, self: self, dir: dir, rng: rand.New(rand.NewPCG(o.Seed, 1)), history: newHistory(),
		jobs: map[uint64]job{}, overJobs: map[uint64]bool{}, did: map[string]int{},
	}
}

// run goes through all lives and judges them.
func (r *run) run() error {
	lives := append(r.aims(), aim{}) // the last one ends by itself
	for i, a := range lives {
		c := config{
			Dir: r.dir, Stores: r.Stores, Durability: r.Durability, Seed: r.rng.Uint64(), Life: i,
			Last: a.At == "", Patient: r.Patient, Contended: r.Contended,
		}
		if !r.made {
			c.Groups = r.Groups // later there may be more, or fewer
		}
		c.Pending, c.Answered = r.history.again()
		if err := r.life(c, a); err != nil {
			return errors.Join(fmt.Errorf("life %d of %d, to be killed at %+v: %w", i, len(lives), a, err), errors.Join(r.history.wrong...))
		}
		if len(r.history.wrong) > 0 {
			return fmt.Errorf("life %d of %d: %w", i, len(lives), errors.Join(r.history.wrong...))
		}
	}
	for id, j := range r.jobs {
		if j.Phase != "retiring" && j.Phase != "surveying" {
			r.history.wrong = append(r.history.wrong, fmt.Errorf("nobody heard of the end of %s %d: it is %s", j.Kind, id, j.Phase))
		}
	}
	keys := slices.Collect(maps.Keys(r.history.rows))
	err := r.life(config{Dir: r.dir, Stores: r.Stores, Inspect: true, Keys: keys}, aim{})
	return errors.Join(err, r.history.judge())
}

// ordeal makes a run in a directory of its own, and returns what it did.
func ordeal(self string, o options) (map[string]int, error) {
	dir, err := os.MkdirTemp("", "ordeal")
	if err != nil {
		return nil, err
	}
	r := newRun(self, dir, o)
	if err := r.run(); err != nil {
		return r.did, fmt.Errorf("%w\nthe store is in %s", err, dir)
	}
	return r.did, os.RemoveAll(dir)
}
