package route

import (
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
	spread spread
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
	err := check(nodes, true)
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
		spread: newSpread(nodes),
	}, nil
}

// With returns a router that has node as well, with a table of the same size.
func (r *Maglev) With(node Node) (*Maglev, error) {
	return NewMaglev(withNode(r.nodes, node), MaglevOptions{Entries: len(r.table)})
}

// Without returns a router that lacks the node of that name, with a table of
// the same size.
func (r *Maglev) Without(name string) (*Maglev, error) {
	nodes, err := without(r.nodes, name)
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
	return r.spread.rehash(dst, h, n, r.Route)
}

// intervals implements partitioned.
func (r *Maglev) intervals() int { return len(r.table) }

// interval implements partitioned.
func (r *Maglev) interval(i int) (first uint64, owner int) {
	return cut(uint64(i), uint64(len(r.table))), int(r.table[i])
}
