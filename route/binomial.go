package route

import (
	"math/bits"
	"slices"

	"github.com/cleavekv/cleave/hash"
)

// Binomial is BinomialHash by Coluzzi, Brocco, Antonucci and Leidi (2024):
// consistent hashing in constant time, without memory. The nodes are the
// first n places of a binary tree; a key draws places in the smallest tree
// that holds them all, and falls back to the next smaller tree, which is full.
//
// Moves: growing from n to n+1 nodes moves about 1/(n+1) of all keys, all to
// the new node.
//
// Removal: the last node only; its keys spread over the others. The order of
// the nodes matters and their names do not. Weights: none. Memory: none beside
// the nodes.
//
// Speed: one draw, and with probability below 1/2 some more: it does not grow
// with n. A key draws at most 17 times; the nodes of the last level so miss
// at most 2^-17 of their share. The paper leaves the hash function of the draws
// open; this is ours, so places agree between versions of this package and not
// with other implementations.
//
// The zero value is an empty router.
type Binomial struct {
	n      uint64
	mask   uint64 // the places of the smallest tree that holds n nodes, less one
	nodes  []Node
	spread spread
}

// maxRedraws bounds the further draws. The paper's tests use 4; the mean
// number of draws stays below 2 however many are allowed, so the evenness of
// 16 is free.
const maxRedraws = 16

var _ Router = (*Binomial)(nil)

// NewBinomial returns a router over nodes in that order.
func NewBinomial(nodes []Node) (*Binomial, error) {
	if err := check(nodes, false); err != nil {
		return nil, err
	}
	n := uint64(len(nodes))
	return &Binomial{
		n:      n,
		mask:   1<<bits.Len64(n-1) - 1,
		nodes:  slices.Clone(nodes),
		spread: newSpread(nodes),
	}, nil
}

// With returns a router with node behind the others.
func (r *Binomial) With(node Node) (*Binomial, error) { return NewBinomial(withNode(r.nodes, node)) }

// Without returns a router that lacks the node of that name, which must be
// the last one.
func (r *Binomial) Without(name string) (*Binomial, error) {
	nodes, err := withoutLast(r.nodes, name)
	if err != nil {
		return nil, err
	}
	return NewBinomial(nodes)
}

// Nodes implements [Router].
func (r *Binomial) Nodes() []Node { return r.nodes }

// Route implements [Router].
func (r *Binomial) Route(h hash.Stable) int {
	x := h.Uint64()
	if at := withinLevel(x&r.mask, x); at < r.n {
		return int(at)
	}
	return r.redraw(x)
}

// redraw finds the owner of a key whose first draw is past the last node.
// Whoever draws a place of the smaller tree stops there and then: those are
// the draws that made every place of the last level as likely as the others.
func (r *Binomial) redraw(x uint64) int {
	if r.n == 0 {
		return None
	}
	smaller := r.mask >> 1
	for i, y := 0, x; i < maxRedraws; i++ {
		y = remix(y, redrawSalt)
		at := y & r.mask
		if at <= smaller {
			break
		}
		if at < r.n {
			return int(at)
		}
	}
	return int(withinLevel(x&smaller, x))
}

// withinLevel moves a key from a place of the tree to a random one in the same
// level: 0, 1, 2-3, 4-7 and so on. Without it all keys of a removed place would
// fall to one place of the smaller tree. Levels draw independently.
func withinLevel(at, x uint64) uint64 {
	level := bits.Len64(at)
	end := uint64(1) << (level & 63)
	return end>>1 | remix(x, uint64(level))&((end-1)>>1)
}

// redrawSalt is no level and, for an [Anchor], no bucket.
const redrawSalt = 1 << 40

// remix draws a fresh hash from x, one for each salt: the two halves of one
// long product folded together. Its input is a good hash already, so it need
// not mix, only be independent; that takes a third of the time of a hash
// function. Placement depends on it: it must never change.
func remix(x, salt uint64) uint64 {
	hi, lo := bits.Mul64(x^salt*0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	return hi ^ lo
}

// RouteN implements [Router]: further nodes own the hashes derived from h.
func (r *Binomial) RouteN(dst []int, h hash.Stable, n int) []int {
	return r.spread.rehash(dst, h, n, r.Route)
}
