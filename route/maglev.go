package route

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/cleavekv/cleave/hash"
)

// Maglev is the lookup table of Google's load balancer (Eisenbud and others,
// 2016). Every node prefers the entries of one table in an order of its own;
// the nodes take turns, each with its best entry that is still free, until the
// table is full.
//
// Moves: adding or removing a node moves the keys that must move and some
// others, from one old node to another: at the default size below 3 % of all
// keys, with 1000 entries a node below 1 %, measured at twelve sizes from 2 to
// 1000 nodes. Any node can be removed; the order of the nodes does not matter.
//
// Weights: a node's turns come in proportion to its weight, so it has at most
// one entry more than its share. It has at least one, however small its weight.
//
// Memory: 2 bytes an entry, 100 to 200 entries a node by default. Speed: one
// multiplication and one memory access; as fast as [Mask] while the table fits
// the cache. A change builds the whole table anew. Like an [Interval], it reads
// the upper bits of a hash.
//
// The zero value is an empty router.
type Maglev struct {
	table  []uint16 // the node of every entry
	nodes  []Node
	spread zoneSpread
}

// MaglevOptions tunes a [Maglev]. The zero value works.
type MaglevOptions struct {
	// Entries is the size of the table. Tables of different sizes agree on
	// hardly any key, so With and Without keep it. Default: the least prime
	// above the least power of two that gives every node 100 entries, so that
	// loads differ by 1 % at most and lists of similar length agree. A prime,
	// at least the number of nodes, at most 2^30.
	Entries int
}

const (
	// maxEntries is the last prime below 2^30, so that there is always a
	// prime to propose.
	maxEntries = 1<<30 - 35
	// maxMaglevNodes lets an entry be 2 bytes.
	maxMaglevNodes = 1 << 16
)

var _ Router = (*Maglev)(nil)

// NewMaglev returns a router over nodes, of which there are at most 65,536.
func NewMaglev(nodes []Node, opts MaglevOptions) (*Maglev, error) {
	err := checkNodes(nodes, true)
	if len(nodes) > maxMaglevNodes {
		return nil, errors.Join(err, fmt.Errorf("%w: %d, want at most %d", ErrNodeCount, len(nodes), maxMaglevNodes))
	}
	entries := opts.Entries
	if entries == 0 {
		entries = defaultEntries(len(nodes))
	}
	switch {
	case entries < len(nodes) || entries > maxEntries:
		err = errors.Join(err, fmt.Errorf("%w: Entries is %d, want at least the %d nodes and at most %d", ErrOptions, entries, len(nodes), maxEntries))
	case !isPrime(entries):
		err = errors.Join(err, fmt.Errorf("%w: Entries is %d, want a prime such as %d", ErrOptions, entries, primeFrom(entries)))
	}
	if err != nil {
		return nil, err
	}
	hs, err := hashNames(nodes, 0)
	if err != nil {
		return nil, err
	}
	return &Maglev{
		table:  fillTable(nodes, hs, entries),
		nodes:  slices.Clone(nodes),
		spread: newZoneSpread(nodes),
	}, nil
}

// With returns a router that has node as well, with a table of the same size.
func (r *Maglev) With(node Node) (*Maglev, error) {
	return NewMaglev(withNode(r.nodes, node), MaglevOptions{Entries: len(r.table)})
}

// Without returns a router that lacks the node of that name, with a table of
// the same size.
func (r *Maglev) Without(name string) (*Maglev, error) {
	nodes, err := withoutNodes(r.nodes, name)
	if err != nil {
		return nil, err
	}
	return NewMaglev(nodes, MaglevOptions{Entries: len(r.table)})
}

// Nodes implements [Router].
func (r *Maglev) Nodes() []Node { return r.nodes }

// Entries returns the size of the table. A Maglev made from the same nodes with
// this option is its equal.
func (r *Maglev) Entries() int { return len(r.table) }

// Route implements [Router].
func (r *Maglev) Route(h hash.Stable) int {
	// The comparison is the bounds check of the access and, for an empty
	// table, the test for it.
	if i, _ := bits.Mul64(h.Uint64(), uint64(len(r.table))); i < uint64(len(r.table)) {
		return int(r.table[i])
	}
	return None
}

// RouteN implements [Router]: further nodes own the hashes derived from h.
func (r *Maglev) RouteN(dst []int, h hash.Stable, n int) []int {
	return r.spread.appendRehashed(dst, h, n, r.Route)
}

// intervalCount implements partitioned.
func (r *Maglev) intervalCount() int { return len(r.table) }

// intervalAt implements partitioned.
func (r *Maglev) intervalAt(i int) (first uint64, owner int) {
	return intervalStart(uint64(i), uint64(len(r.table))), int(r.table[i])
}

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
	node            int
	nextEntry, skip uint32
	// weight is relative to the largest. turns counts those taken.
	weight     float64
	turnsTaken int
}

// nextDue is when, in rounds, the next turn comes. All first turns come at once:
// thus every node gets an entry.
func (c *chooser) nextDue() float64 { return float64(c.turnsTaken) / c.weight }

// newChoosers returns the nodes in the order in which they take turns that
// come at the same time: by name, so that the order of nodes does not matter.
func newChoosers(nodes []Node, hs []hash.Stable, entries int) []chooser {
	heaviest := 0.0
	for _, n := range nodes {
		heaviest = max(heaviest, n.weightOrDefault())
	}
	cs := make([]chooser, len(nodes))
	for i, n := range nodes {
		at, _ := bits.Mul64(hs[i].Derive(0).Uint64(), uint64(entries))
		skip, _ := bits.Mul64(hs[i].Derive(1).Uint64(), uint64(entries-1))
		cs[i] = chooser{node: i, nextEntry: uint32(at), skip: uint32(skip) + 1, weight: n.weightOrDefault() / heaviest}
	}
	slices.SortFunc(cs, func(a, b chooser) int { return cmp.Compare(nodes[a.node].Name, nodes[b.node].Name) })
	return cs
}

// fillTable lets the nodes choose until every entry has one.
func fillTable(nodes []Node, hs []hash.Stable, entries int) []uint16 {
	t := tableFiller{table: make([]uint16, entries), taken: make([]uint64, entries/64+1)}
	cs := newChoosers(nodes, hs, entries)
	if slices.ContainsFunc(cs, func(c chooser) bool { return c.weight != 1 }) {
		t.fillByDue(cs)
	} else {
		t.fillInRounds(cs)
	}
	return t.table
}

// tableFiller is a table that is being filled.
type tableFiller struct {
	table []uint16
	// taken has a bit for every entry. Most looks at the table ask just this,
	// and a table's bits fit a cache that the table does not.
	taken       []uint64
	filledCount int
}

// fillInRounds gives every node one turn a round: fillByDue for equal weights, faster.
func (t *tableFiller) fillInRounds(cs []chooser) {
	for {
		for i := range cs {
			if t.filledCount == len(t.table) {
				return
			}
			t.takeBestEntry(&cs[i])
		}
	}
}

// fillByDue keeps the choosers in a heap by the time of their next turn. Rounds in
// which only some may choose would take as long as the weights are apart.
func (t *tableFiller) fillByDue(cs []chooser) {
	order := make([]scheduledTurn, len(cs))
	for i := range cs {
		order[i] = scheduledTurn{due: 0, chooser: i} // equal times in order are a heap
	}
	for t.filledCount < len(t.table) {
		c := &cs[order[0].chooser]
		t.takeBestEntry(c)
		order[0].due = c.nextDue()
		siftDown(order)
	}
}

// takeBestEntry takes the best free entry for c.
func (t *tableFiller) takeBestEntry(c *chooser) {
	size := uint32(len(t.table))
	at := c.nextEntry
	for t.taken[at/64]>>(at%64)&1 != 0 {
		if at += c.skip; at >= size {
			at -= size
		}
	}
	t.taken[at/64] |= 1 << (at % 64)
	t.table[at] = uint16(c.node)
	t.filledCount++
	c.turnsTaken++
	if at += c.skip; at >= size {
		at -= size
	}
	c.nextEntry = at
}

// A turn is when a chooser is due.
type scheduledTurn struct {
	due     float64
	chooser int
}

func (a scheduledTurn) comesBefore(b scheduledTurn) bool {
	return a.due < b.due || a.due == b.due && a.chooser < b.chooser
}

// siftDown restores the heap after its first turn was put off.
func siftDown(heap []scheduledTurn) {
	for i := 0; ; {
		first := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(heap); child++ {
			if heap[child].comesBefore(heap[first]) {
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
