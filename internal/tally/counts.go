package tally

import (
	"maps"
	"slices"
	"sync"
	"testing"
)

// Counts are sums that a test gathers as it goes, from any goroutine. The zero
// value has none.
type Counts struct {
	mu sync.Mutex
	n  map[string]int
}

// Add adds n of what.
func (c *Counts) Add(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[what] += n
}

// Log notes all sums, as the function Add does. The test fails if it went
// through nothing of what is needed, unless it has failed already or is short:
// then chance may miss some.
func (c *Counts) Log(t testing.TB, needed ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(c.n)) {
		Add(t, what, c.n[what])
	}
	for _, what := range c.missing(needed) {
		if !t.Failed() && !testing.Short() {
			t.Errorf("no %s: the test shows nothing", what)
		}
	}
}

// Has tells whether everything that is needed happened: a test that is made of chance goes on
// until it has.
func (c *Counts) Has(needed ...string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.missing(needed)) == 0
}

// missing returns what there is nothing of.
func (c *Counts) missing(needed []string) (none []string) {
	for _, what := range needed {
		if c.n[what] == 0 {
			none = append(none, what)
		}
	}
	return none
}
