package route

import (
	"errors"
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
	// maxPoints bounds the memory of a ring to about 1 GiB.
	maxPoints = 1 << 26
)

func (p point) node() int { return int(p & nodeMask) }

// place returns where h is on the circle: no point before it compares less.
func place(h hash.Stable) point { return point(h.Uint64() &^ nodeMask) }

// weight returns the node's share with the default filled in.
func (n Node) weight() float64 {
	if n.Weight == 0 {
		return 1
	}
	return n.Weight
}

// nodeHashes returns the hash of every name.
func nodeHashes(nodes []Node) ([]hash.Stable, error) { return hashNames(nodes, 0) }

// hashNames returns the hash of every name. Two names that hash alike, but for
// bits that are ignored, would stand in the same places and one of them would
// own nothing, so they are refused: that takes a crafted name or about 2^32
// nodes.
func hashNames(nodes []Node, ignored uint64) ([]hash.Stable, error) {
	hs := make([]hash.Stable, len(nodes))
	first := make(map[uint64]int, len(nodes))
	var errs []error
	for i, n := range nodes {
		hs[i] = hash.XXH3String(n.Name)
		if j, met := first[hs[i].Uint64()|ignored]; met {
			errs = append(errs, fmt.Errorf("%w: %q and %q: rename one", ErrNameHash, nodes[j].Name, n.Name))
		}
		first[hs[i].Uint64()|ignored] = i
	}
	return hs, errors.Join(errs...)
}

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
		return nil, 0, fmt.Errorf("%w: %d nodes with %.0f virtual nodes, want at most %d and %d",
			ErrTooLarge, len(nodes), sum, nodeMask, maxPoints)
	}
	return counts, int(sum), nil
}

// indexBits returns the width of the index over that many points.
func indexBits(points int) int {
	// Two to four buckets a point: three keys in four find their bucket empty
	// and need no search at all, and more buckets measured no faster.
	return bits.Len(uint(points-1)) + 1
}

// makePoints places every node's points, sorts them and indexes them by their
// upper bits: index[b] is the first point in bucket b or after it. A last
// point past all the others stands for the first one, so that the search
// wraps without a test.
func makePoints(nodes []Node, hs []hash.Stable, counts []int, total int) (points []point, index []uint32, err error) {
	width := indexBits(total)
	shift := 64 - width
	unsorted := make([]point, 0, total)
	index = make([]uint32, 1<<width+1)
	for i, h := range hs {
		for j := range counts[i] {
			p := place(h.Derive(uint64(j))) | point(i)
			unsorted = append(unsorted, p)
			index[p>>shift+1]++
		}
	}
	for b := range index[1:] {
		index[b+1] += index[b]
	}
	// Places are uniform, so a counting sort by bucket leaves hardly anything
	// to sort, and the counts are the index.
	points = make([]point, total+1)
	for _, p := range unsorted {
		at := &index[p>>shift]
		points[*at] = p
		*at++
	}
	// Every entry has now advanced to the start of the next bucket.
	copy(index[1:], index)
	index[0] = 0
	sortBuckets(points[:total], index)
	err = settleTies(points[:total], nodes)
	points[total] = place(hash.Restore(math.MaxUint64)) | point(points[0].node())
	return points, index[:1<<width], err
}

func sortBuckets(points []point, index []uint32) {
	for b := range index[1:] {
		switch bucket := points[index[b]:index[b+1]]; len(bucket) {
		case 0, 1:
		case 2:
			if bucket[0] > bucket[1] {
				bucket[0], bucket[1] = bucket[1], bucket[0]
			}
		default:
			slices.Sort(bucket)
		}
	}
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
