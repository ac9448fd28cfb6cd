package route

import (
	"math/bits"
	"slices"

	"github.com/cleavekv/cleave/hash"
)

// zoneSpread turns a router's order of candidates into the answer of RouteN:
// first the best node of every zone, then the remaining nodes, both in the
// order in which the router prefers them. That whole order does not depend on
// n, so RouteN of n is a prefix of RouteN of n+1.
type zoneSpread struct {
	nodeCount int
	zoneCount int
	// zone numbers the zone of each node. It is nil if every node is its own
	// zone, which is then numbered like the node.
	zone []int32
}

func newZoneSpread(nodes []Node) zoneSpread {
	s := zoneSpread{nodeCount: len(nodes), zone: make([]int32, len(nodes))}
	number := make(map[string]int32)
	for i, n := range nodes {
		z, known := number[n.Zone]
		if !known || n.Zone == "" {
			z = int32(s.zoneCount)
			s.zoneCount++
			number[n.Zone] = z
		}
		s.zone[i] = z
	}
	if s.zoneCount == s.nodeCount {
		s.zone = nil
	}
	return s
}

func (s *zoneSpread) findZone(node int) int {
	if s.zone == nil {
		return node
	}
	return int(s.zone[node])
}

// appendDistinct appends min(n, nodes) distinct nodes to dst. Candidate i, for i
// below limit, is at(i); candidates may repeat, and every node must be among
// them. The function is called anew for a candidate rather than its answer
// remembered: nothing is allocated for short lists.
func (s *zoneSpread) appendDistinct(dst []int, n, limit int, at func(i int) int) []int {
	n = min(n, s.nodeCount)
	if n <= 0 {
		return dst
	}
	dst = slices.Grow(dst, n)
	from := len(dst)
	used := newSmallSet(n, s.zoneCount)
	for i := 0; i < limit && len(dst)-from < min(n, s.zoneCount); i++ {
		if node := at(i); used.add(s.findZone(node)) {
			dst = append(dst, node)
		}
	}
	if len(dst)-from == n {
		return dst
	}
	used = newSmallSet(n, s.nodeCount)
	for _, node := range dst[from:] {
		used.add(node)
	}
	for i := 0; i < limit && len(dst)-from < n; i++ {
		if node := at(i); used.add(node) {
			dst = append(dst, node)
		}
	}
	return dst
}

// appendRehashed is RouteN for a router without an order of its own: the owners of h
// and of the hashes derived from h. A change of topology that moves few keys
// so changes few second and later choices too. Nodes that the derived hashes
// miss follow, in a rotation that h starts.
func (s *zoneSpread) appendRehashed(dst []int, h hash.Stable, n int, route func(hash.Stable) int) []int {
	if s.nodeCount == 0 {
		return dst
	}
	// Four probes a node leave out e^-4 of even nodes; the constant makes
	// misses rare among few nodes, where a caller would ask for all of them.
	probes := 4*s.nodeCount + 16
	start := int(h.Derive(0).Uint64() % uint64(s.nodeCount))
	return s.appendDistinct(dst, n, probes+s.nodeCount, func(i int) int {
		switch {
		case i == 0:
			return route(h)
		case i < probes:
			return route(h.Derive(uint64(i)))
		}
		return (start + i) % s.nodeCount
	})
}

// smallSet is a set of small numbers. A few are looked through on the stack;
// more get a bit each on the heap.
type smallSet struct {
	few  [16]int32
	n    int
	bits []uint64
}

// newSmallSet returns a set for n numbers below limit.
func newSmallSet(n, limit int) (s smallSet) {
	if n > len(s.few) {
		s.bits = make([]uint64, limit/64+1)
	}
	return s
}

// add reports whether x was not there yet.
func (s *smallSet) add(x int) bool {
	if s.bits != nil {
		was := s.bits[x/64]
		s.bits[x/64] = was | 1<<(x%64)
		return s.bits[x/64] != was
	}
	if slices.Contains(s.few[:s.n], int32(x)) {
		return false
	}
	s.few[s.n] = int32(x)
	s.n++
	return true
}

// hashSalt draws a fresh hash from x, one for each salt: the two halves of one
// long product folded together. Its input is a good hash already, so it need
// not mix, only be independent; that takes a third of the time of a hash
// function. Placement depends on it: it must never change.
func hashSalt(x, salt uint64) uint64 {
	hi, lo := bits.Mul64(x^salt*0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	return hi ^ lo
}
