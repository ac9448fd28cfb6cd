package admin

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// asked counts requests by path, method and status. Paths are those of the table and not
// what was asked for, so that there are only so many.
type asked struct {
	mu     sync.Mutex
	counts map[askedOf]*askedCount
	panics uint64
}

type askedOf struct {
	path, method string
	status       int
}

type askedCount struct {
	n    uint64
	took time.Duration
}

// methods are those that are counted apart.
var methods = []string{"GET", "HEAD", "POST"}

func (c *asked) count(method, pattern string, status int, took time.Duration) {
	if !slices.Contains(methods, method) {
		method = "other"
	}
	_, path, ok := strings.Cut(pattern, " ")
	if !ok {
		path = pattern
	}
	if path == "" || path == "/" {
		path = "none"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[askedOf]*askedCount{}
	}
	of := askedOf{path, method, status}
	if c.counts[of] == nil {
		c.counts[of] = &askedCount{}
	}
	c.counts[of].n++
	c.counts[of].took += took
}

func (c *asked) panicked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.panics++
}

// each calls f with what was counted, in order.
func (c *asked) each(f func(of askedOf, n uint64, took time.Duration)) (panics uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []askedOf
	for of := range c.counts {
		all = append(all, of)
	}
	slices.SortFunc(all, func(x, y askedOf) int {
		return cmp.Or(cmp.Compare(x.path, y.path), cmp.Compare(x.method, y.method), cmp.Compare(x.status, y.status))
	})
	for _, of := range all {
		f(of, c.counts[of].n, c.counts[of].took)
	}
	return c.panics
}
