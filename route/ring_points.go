package route

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/cleavekv/cleave/hash"
)

// A point is a virtual node: its place on the circle in the upper bits and
// the index of its node in the lower ones. One load answers both "is it past
// the key?" and "whose is it?", and points sort as plain integers.
//
// 40 bits of place let a million points meet about half a time; who wins a
// place is decided by name, so a meeting costs nothing but a few keys.
type point uint64

const (
	nodeBits = 24
	nodeMask = 1<<nodeBits - 1
	// maxPoints bounds the memory of a ring to about 1.5 GiB.
	maxPoints = 1 << 26
)

func (p point) node() int { return int(p & nodeMask) }

// place returns where h is on the circle. Points there, whosever they are, do
// not compare less than it.
func place(h hash.Stable) point { return point(h.Uint64() &^ nodeMask) }

// pointCounts returns how many points each node gets, and their sum.
func pointCounts(nodes []Node, perWeight int) (counts []int, total int, err error) {
	counts = make([]int, len(nodes))
	sum := 0.0
	for i, n := range nodes {
		c := max(1, math.Round(n.weight()*float64(perWeight)))
		sum += c
		counts[i] = int(min(c, maxPoints))
	}
	if sum > maxPoints || len(nodes) > nodeMask {
		return nil, 0, fmt.Errorf("%w: %d nodes with %.10g virtual nodes, want at most %d and %d",
			ErrTooLarge, len(nodes), sum, nodeMask, maxPoints)
	}
	return counts, int(sum), nil
}

// slotsPerPoint is how thinly slots are filled. With 2, lookups in rings of 8 to
// 64 nodes measured a fifth slower.
const slotsPerPoint = 3

// slotOf returns where the search for a place begins among so many slots. It
// rises with the place.
func slotOf(place point, slots int) int {
	slot, _ := bits.Mul64(uint64(place), uint64(slots))
	return int(slot)
}

// makeSlots lays sorted points out so that a search starts near its end: point
// p is in slot slotOf(p) or, where points crowd, soon after it, and an empty
// slot repeats the point that follows. The slots after the last point stand
// for the first one, so that a search wraps without a test.
func makeSlots(points []point) (slots []point, searched int) {
	searched = len(points) * slotsPerPoint
	slots = make([]point, 0, searched+searched/64+1)
	for _, p := range points {
		for slots = append(slots, p); len(slots) <= slotOf(p&^nodeMask, searched); {
			slots = append(slots, p)
		}
	}
	end := place(hash.Restore(math.MaxUint64)) | point(points[0].node())
	for slots = append(slots, end); len(slots) < searched; {
		slots = append(slots, end)
	}
	return slots, searched
}

// sortedPoints places every node's points and sorts them. Places are uniform,
// so sorting them into as many buckets leaves about one in each.
func sortedPoints(nodes []Node, hs []hash.Stable, counts []int, total int) ([]point, error) {
	unsorted := make([]point, 0, total)
	starts := make([]uint32, total+1)
	for i, h := range hs {
		for j := range counts[i] {
			p := place(h.Derive(uint64(j)))
			unsorted = append(unsorted, p|point(i))
			starts[slotOf(p, total)+1]++
		}
	}
	for b := range total {
		starts[b+1] += starts[b]
	}
	points := make([]point, total)
	for _, p := range unsorted {
		at := &starts[slotOf(p&^nodeMask, total)]
		points[*at] = p
		*at++
	}
	// Every start has now advanced to the end of its bucket.
	from := uint32(0)
	for _, end := range starts[:total] {
		if end-from > 1 {
			slices.Sort(points[from:end])
		}
		from = end
	}
	return points, settleTies(points, nodes)
}

// settleTies orders points that share a place by name, so that the winner is
// the same whatever the order of the nodes and whoever else is there. It
// refuses nodes that win nowhere.
func settleTies(points []point, nodes []Node) error {
	var losers []int
	for i := 0; i < len(points); {
		end := i + 1
		for end < len(points) && points[i]|nodeMask == points[end]|nodeMask {
			end++
		}
		if tied := points[i:end]; len(tied) > 1 {
			slices.SortFunc(tied, func(p, q point) int {
				return strings.Compare(nodes[p.node()].Name, nodes[q.node()].Name)
			})
			for _, p := range tied[1:] {
				losers = append(losers, p.node())
			}
		}
		i = end
	}
	for _, loser := range losers {
		if !winsSomewhere(points, loser) {
			return fmt.Errorf("%w: %q owns nothing: rename it, or raise Points", ErrNameHash, nodes[loser].Name)
		}
	}
	return nil
}

func winsSomewhere(points []point, node int) bool {
	for i, p := range points {
		if p.node() == node && (i == 0 || points[i-1]|nodeMask != p|nodeMask) {
			return true
		}
	}
	return false
}
