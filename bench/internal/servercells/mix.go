package servercells

import (
	"fmt"
	"math/rand/v2"
	"sync"
)

// mix is what a client does how often, in percent: workloads A to F of YCSB, with values
// of 64 bytes instead of ten fields.
type mix struct {
	name                                string
	reads, updates, inserts, scans, rmw int
	latest                              bool // newer keys are read more often
	what                                string
}

var mixes = []mix{
	{name: "a", reads: 50, updates: 50, what: "half reads, half updates"},
	{name: "b", reads: 95, updates: 5, what: "95 % reads, 5 % updates"},
	{name: "c", reads: 100, what: "reads alone"},
	{name: "d", reads: 95, inserts: 5, latest: true, what: "95 % reads of what is new, 5 % inserts"},
	{name: "e", scans: 95, inserts: 5, what: "95 % scans of up to 100 rows, 5 % inserts, one at a time"},
	{name: "f", reads: 50, rmw: 50, what: "half reads, half reads followed by a write of the same key"},
}

// scanRows is how many rows a scan has at most.
const scanRows = 100

// keysOf chooses keys.
type keysOf struct {
	zipf   *zipf
	census *census
}

// census knows the keys that there are. Inserts of all clients come one after the other, and
// are read once they and all before them were answered, as YCSB has it: what is on its way is
// not there yet.
type census struct {
	mu      sync.Mutex
	given   int // numbers that were given out
	there   int // how many keys there are
	waiting map[int]bool
}

func newCensus(n int) *census { return &census{given: n, there: n, waiting: map[int]bool{}} }

// next gives out the number of a key that is to be inserted.
func (c *census) next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.given++
	return c.given - 1
}

// inserted notes that keys are there.
func (c *census) inserted(keys []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range keys {
		c.waiting[k] = true
	}
	for c.waiting[c.there] {
		delete(c.waiting, c.there)
		c.there++
	}
}

func (c *census) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.there
}

// key appends the name of the k-th key. The hot ones are spread over all.
func (keysOf) key(dst []byte, k int) []byte {
	return fmt.Appendf(dst, "user%016x", uint64(k)*0x9E3779B97F4A7C15)
}

// choose draws a key that is there.
func (s keysOf) choose(r *rand.Rand, latest bool) int {
	k := s.zipf.next(r)
	if latest {
		k = max(0, s.census.count()-1-k)
	}
	return k
}

// ask appends the requests of one operation, and returns how many they are. What it inserts
// is appended to inserts.
func (m *mix) ask(w *wire, r *rand.Rand, s keysOf, room *[]byte, inserts *[]int) (answers int) {
	dice := r.IntN(100)
	if dice < m.inserts {
		k := s.census.next()
		*inserts = append(*inserts, k)
		*room = s.key((*room)[:0], k)
		w.out = w.write(w.out, *room)
		return 1
	}
	*room = s.key((*room)[:0], s.choose(r, m.latest))
	dice -= m.inserts
	switch {
	case dice < m.updates:
		w.out = w.write(w.out, *room)
		return 1
	case dice < m.updates+m.rmw:
		w.out = w.write(w.read(w.out, *room), *room)
		return 2
	}
	w.out = w.read(w.out, *room)
	return 1
}
