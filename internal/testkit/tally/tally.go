// Package tally answers one question: how much did the tests try?
//
// A test that searches at random says how many crashes, histories or operations
// it went through, and make test prints the sums: a harness that tries nothing
// would pass too.
package tally

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// FileVariable is the environment variable that names the file to which counts are
// added.
const FileVariable = "CLEAVE_TALLY"

// Add notes that the test went through n of what: "crashes", say.
func Add(t testing.TB, what string, n int) {
	t.Helper()
	t.Logf("%8d %s", n, what)
	name := os.Getenv(FileVariable)
	if name == "" {
		return
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Errorf("note how much was tried: %v", err)
		return
	}
	defer f.Close()
	// One write, so that lines of several processes do not mix.
	if _, err := f.WriteString(fmt.Sprintf("%s\t%s\t%d\n", t.Name(), what, n)); err != nil {
		t.Errorf("note how much was tried: %v", err)
	}
}

// Counts are sums that a test gathers as it goes, from any goroutine. The zero
// value has none.
type Counts struct {
	mu   sync.Mutex
	sums map[string]int
}

// Add adds n of what.
func (c *Counts) Add(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sums == nil {
		c.sums = map[string]int{}
	}
	c.sums[what] += n
}

// Log notes all sums, as the function Add does. The test fails if it went
// through nothing of what is needed, unless it has failed already or is short:
// then chance may miss some.
func (c *Counts) Log(t testing.TB, needed ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(c.sums)) {
		Add(t, what, c.sums[what])
	}
	for _, what := range c.listMissing(needed) {
		if !t.Failed() && !testing.Short() {
			t.Errorf("no %s: the test shows nothing", what)
		}
	}
}

// Has reports whether everything that is needed happened: a test that is made of chance goes on
// until it has.
func (c *Counts) Has(needed ...string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.listMissing(needed)) == 0
}

// listMissing returns what there is nothing of.
func (c *Counts) listMissing(needed []string) (none []string) {
	for _, what := range needed {
		if c.sums[what] == 0 {
			none = append(none, what)
		}
	}
	return none
}

// Size returns how much a test tries: the first in full, and the second in the short form of the tests.
func Size(full, short int) int {
	if testing.Short() {
		return short
	}
	return full
}

// Rounds returns how many rounds a random test plays: n, soak times as many in a soak, and a quarter in the
// short form of the tests, but at least one.
func Rounds(n, soak int) int {
	if os.Getenv("CLEAVE_SOAK") != "" {
		return soak * n
	}
	if testing.Short() {
		return max(n/4, 1)
	}
	return n
}

// SeedVariable is the environment variable with the seed of a random test, to run it
// again.
const SeedVariable = "CLEAVE_SEED"

// Seed returns the seed of a random test of a folder. If the test fails, it says how to use
// it again.
func Seed(t testing.TB, folder string) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv(SeedVariable); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("%s is %q: use a number", SeedVariable, s)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("run again with: %s=%d go test -race -run '^%s$' %s", SeedVariable, seed, t.Name(), folder)
		}
	})
	return seed
}

// SeedRange returns how many worlds a test plays, and the first of their seeds: that of CLEAVE_SEED
// alone, if it is set. They are the same every time, but for a soak, which plays so many times as many.
func SeedRange(t testing.TB, normal, soak int) (first uint64, n int) {
	t.Helper()
	switch {
	case os.Getenv(SeedVariable) != "":
		return Seed(t, "."), 1
	case os.Getenv("CLEAVE_SOAK") != "":
		return rand.Uint64() >> 1, soak * normal
	case testing.Short():
		return 1, normal / 10
	}
	return 1, normal
}
