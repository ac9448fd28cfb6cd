package route

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/cleavekv/cleave/hash"
)

// defaultEntries returns the default table size for n nodes.
func defaultEntries(n int) int {
	return primeFrom(1 << bits.Len(uint(100*max(n, 1)-1)))
}

// primeFrom returns the least prime from n on.
func primeFrom(n int) int {
	for !isPrime(n) {
		n++
	}
	return n
}

// isPrime divides by all candidates: table sizes have small roots.
func isPrime(n int) bool {
	for d := 2; d*d <= n; d++ {
		if n%d == 0 {
			return false
		}
	}
	return n >= 2
}

// A chooser is a node that takes turns. Its order of preference is at,
// at+skip, at+2*skip and so on, modulo the size of the table: all entries,
// because that is a prime.
type chooser struct {
	node     int
	at, skip uint32
	// weight is relative to the largest. turns counts those taken.
	weight float64
	turns  int
}

// due is when, in rounds, the next turn comes. All first turns come at once:
// thus every node gets an entry.
func (c *chooser) due() float64 { return float64(c.turns) / c.weight }

// newChoosers returns the nodes in the order in which they take turns that
// come at the same time: by name, so that the order of nodes does not matter.
func newChoosers(nodes []Node, hs []hash.Stable, entries int) []chooser {
	heaviest := 0.0
	for _, n := range nodes {
		heaviest = max(heaviest, n.weight())
	}
	cs := make([]chooser, len(nodes))
	for i, n := range nodes {
		at, _ := bits.Mul64(hs[i].Derive(0).Uint64(), uint64(entries))
		skip, _ := bits.Mul64(hs[i].Derive(1).Uint64(), uint64(entries-1))
		cs[i] = chooser{node: i, at: uint32(at), skip: uint32(skip) + 1, weight: n.weight() / heaviest}
	}
	slices.SortFunc(cs, func(a, b chooser) int { return cmp.Compare(nodes[a.node].Name, nodes[b.node].Name) })
	return cs
}

// fillTable lets the nodes choose until every entry has one.
func fillTable(nodes []Node, hs []hash.Stable, entries int) []uint16 {
	t := filling{table: make([]uint16, entries), taken: make([]uint64, entries/64+1)}
	cs := newChoosers(nodes, hs, entries)
	if slices.ContainsFunc(cs, func(c chooser) bool { return c.weight != 1 }) {
		t.byDue(cs)
	} else {
		t.inRounds(cs)
	}
	return t.table
}

// filling is a table that is being filled.
type filling struct {
	table []uint16
	// taken has a bit for every entry. Most looks at the table ask just this,
	// and a table's bits fit a cache that the table does not.
	taken []uint64
	full  int
}

// inRounds gives everybody one turn a round: byDue for equal weights, faster.
func (t *filling) inRounds(cs []chooser) {
	for {
		for i := range cs {
			if t.full == len(t.table) {
				return
			}
			t.choose(&cs[i])
		}
	}
}

// byDue keeps the choosers in a heap by the time of their next turn. Rounds in
// which only some may choose would take as long as the weights are apart.
func (t *filling) byDue(cs []chooser) {
	order := make([]turn, len(cs))
	for i := range cs {
		order[i] = turn{due: 0, chooser: i} // equal times in order are a heap
	}
	for t.full < len(t.table) {
		c := &cs[order[0].chooser]
		t.choose(c)
		order[0].due = c.due()
		sink(order)
	}
}

// choose takes the best free entry for c.
func (t *filling) choose(c *chooser) {
	size := uint32(len(t.table))
	at := c.at
	for t.taken[at/64]>>(at%64)&1 != 0 {
		if at += c.skip; at >= size {
			at -= size
		}
	}
	t.taken[at/64] |= 1 << (at % 64)
	t.table[at] = uint16(c.node)
	t.full++
	c.turns++
	if at += c.skip; at >= size {
		at -= size
	}
	c.at = at
}

// A turn is when a chooser is due.
type turn struct {
	due     float64
	chooser int
}

func (a turn) before(b turn) bool {
	return a.due < b.due || a.due == b.due && a.chooser < b.chooser
}

// sink restores the heap after its first turn was put off.
func sink(heap []turn) {
	for i := 0; ; {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(heap); child++ {
			if heap[child].before(heap[first]) {
				first = child
			}
		}
		if first == i {
			return
		}
		heap[i], heap[first] = heap[first], heap[i]
		i = first
	}
}
