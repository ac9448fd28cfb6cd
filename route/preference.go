package route

import (
	"slices"

	"github.com/cleavekv/cleave/hash"
)

// spread turns a router's order of candidates into the answer of RouteN:
// first the best node of every zone, then the remaining nodes, both in the
// order in which the router prefers them. That whole order does not depend on
// n, so RouteN of n is a prefix of RouteN of n+1.
type spread struct {
	nodes int
	zones int
	// zone numbers the zone of each node. It is nil if every node is its own
	// zone, which is then numbered like the node.
	zone []int32
}

func newSpread(nodes []Node) spread {
	s := spread{nodes: len(nodes), zone: make([]int32, len(nodes))}
	number := make(map[string]int32)
	for i, n := range nodes {
		z, known := number[n.Zone]
		if !known || n.Zone == "" {
			z = int32(s.zones)
			s.zones++
			number[n.Zone] = z
		}
		s.zone[i] = z
	}
	if s.zones == s.nodes {
		s.zone = nil
	}
	return s
}

func (s *spread) zoneOf(node int) int {
	if s.zone == nil {
		return node
	}
	return int(s.zone[node])
}

// collect appends min(n, nodes) distinct nodes to dst. Candidate i, for i
// below limit, is at(i); candidates may repeat, and every node must be among
// them. The function is called anew for a candidate rather than its answer
// remembered: nothing is allocated for short lists.
func (s *spread) collect(dst []int, n, limit int, at func(i int) int) []int {
	n = min(n, s.nodes)
	if n <= 0 {
		return dst
	}
	dst = slices.Grow(dst, n)
	from := len(dst)
	used := newNumbers(n, s.zones)
	for i := 0; i < limit && len(dst)-from < min(n, s.zones); i++ {
		if node := at(i); used.add(s.zoneOf(node)) {
			dst = append(dst, node)
		}
	}
	if len(dst)-from == n {
		return dst
	}
	used = newNumbers(n, s.nodes)
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

// rehash is RouteN for a router without an order of its own: the owners of h
// and of the hashes derived from h. A change of topology that moves few keys
// so changes few second and later choices too. Nodes that the derived hashes
// miss follow, in a rotation that h starts.
func (s *spread) rehash(dst []int, h hash.Stable, n int, route func(hash.Stable) int) []int {
	if s.nodes == 0 {
		return dst
	}
	// Four probes a node leave out e^-4 of even nodes; the constant makes
	// misses rare among few nodes, where somebody would ask for all of them.
	probes := 4*s.nodes + 16
	start := int(h.Derive(0).Uint64() % uint64(s.nodes))
	return s.collect(dst, n, probes+s.nodes, func(i int) int {
		switch {
		case i == 0:
			return route(h)
		case i < probes:
			return route(h.Derive(uint64(i)))
		}
		return (start + i) % s.nodes
	})
}

// numbers is a set of small numbers. A few are looked through on the stack;
// more get a bit each on the heap.
type numbers struct {
	few  [16]int32
	n    int
	bits []uint64
}

// newNumbers returns a set for n numbers below limit.
func newNumbers(n, limit int) (s numbers) {
	if n > len(s.few) {
		s.bits = make([]uint64, limit/64+1)
	}
	return s
}

// add reports whether x was not there yet.
func (s *numbers) add(x int) bool {
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
