package route

import (
	"math"
	"math/bits"

	"github.com/cleavekv/cleave/hash"
)

const (
	groupNodes  = 8 // 32-bit lanes of an AVX2 register
	blockGroups = 8 // groups between two looks at the best so far
	blockNodes  = groupNodes * blockGroups
)

// seedGroup holds the seeds of eight nodes in one cache line: the hash of each
// name, as the two words that its scores are made with. The multiplier
// of a node is odd; of a lane without a node it is 0, so that it scores 0,
// comes last, and loses.
type seedGroup struct {
	mask       [groupNodes]uint32
	multiplier [groupNodes]uint32
}

// ignoredBit is the bit of a name's hash that scores do not depend on.
const ignoredBit = 1 << 32

func (g *seedGroup) setSeed(lane int, h hash.Stable) {
	g.mask[lane] = uint32(h.Uint64())
	g.multiplier[lane] = uint32((h.Uint64() | ignoredBit) >> 32)
}

// draw is what a key brings to every score.
type draw struct{ mask, multiplier uint32 }

func newDraw(h hash.Stable) draw {
	// Derived, so that a key may hash like a name and hash bits that a caller
	// has used to choose this router are mixed with the others.
	d := h.Derive(0).Uint64()
	return draw{uint32(d), uint32(d>>32) | 1}
}

// score returns the node's score for the key, uniform over 32 bits. The first
// multiplication depends on the node and the second on the key; what matters
// is the upper bits, which both mix well.
func (g *seedGroup) score(lane int, d draw) uint32 {
	x := (g.mask[lane] ^ d.mask) * g.multiplier[lane]
	x ^= x >> 15
	return x * d.multiplier
}

// bestGo returns the position of the highest score, the first of equals.
func bestGo(groups []seedGroup, d draw, n int) int {
	// Score and position in one word, the earlier position higher: a maximum
	// without a branch, which could not be predicted.
	high := uint64(0)
	for g := range (n + groupNodes - 1) / groupNodes {
		group := &groups[g]
		position := ^uint32(g * groupNodes)
		for lane := range groupNodes {
			high = max(high, uint64(group.score(lane, d))<<32|uint64(position-uint32(lane)))
		}
	}
	return int(^uint32(high))
}

// boundScale is the unit of floors. A node's cost is bounded from below without
// a logarithm, since -ln(u) > 1-u, in single precision, for eight lanes at
// once, and in units of 1/boundScale of the heaviest node's cost.
//
// Rounding to 24 bits cannot raise a floor above the cost: with v = 1-u, the
// cost exceeds it by v/2 and by the half score that is cut off, 2^-33/v,
// relative to it. Whatever v is, that is 2^-16 or more.
const boundScale = 1 << 31

// floor returns what the node's cost is at least.
func (g *seedGroup) floor(lane int, d draw, handicap float32) float32 {
	return costFloor(g.score(lane, d), handicap)
}

func costFloor(score uint32, handicap float32) float32 { return float32(^score>>1) * handicap }

// nearGo returns the first group at or after from with nodes whose cost may be
// below bound, and these nodes as a set of lanes; the set is empty if there is
// no such group.
func nearGo(groups []seedGroup, handicap []float32, from int, d draw, bound float32) (group int, lanes uint32) {
	for g := from; g < len(groups); g++ {
		h := (*[groupNodes]float32)(handicap[g*groupNodes:])
		for lane := range groupNodes {
			if groups[g].floor(lane, d, h[lane]) < bound {
				lanes |= 1 << lane
			}
		}
		if lanes != 0 {
			return g, lanes
		}
	}
	return len(groups), 0
}

// lowestGo returns the position of the lowest floor, the first of equals, and
// the lowest floor of all the others.
func lowestGo(groups []seedGroup, handicap []float32, d draw, n int) (position int, second float32) {
	// Floors are not negative, so they are ordered like their bits, and the
	// two lowest are kept without a branch.
	inf := math.Float32bits(float32(math.Inf(1)))
	first, next := uint64(inf)<<32, inf
	for g := range (n + groupNodes - 1) / groupNodes {
		h := (*[groupNodes]float32)(handicap[g*groupNodes:])
		for lane := range groupNodes {
			f := math.Float32bits(groups[g].floor(lane, d, h[lane]))
			next = min(next, max(f, uint32(first>>32)))
			first = min(first, uint64(f)<<32|uint64(g*groupNodes+lane))
		}
	}
	return int(uint32(first)), math.Float32frombits(next)
}

// scoreCost returns -ln(u)/weight, where u is the score as a fraction of one. The
// least of such exponential variables falls on a node as often as its weight
// says. It falls strictly as the score rises, so equal weights agree with the
// highest score.
func scoreCost(score uint32, weight float64) float64 {
	// The middle of the score's interval, never 0 or 1.
	return -fixedLog(2*uint64(score)+1) / weight
}

// costCeiling returns what cost is at most: -ln(u) < (1-u)/u.
func costCeiling(score uint32, weight float64) float64 {
	u := 2*uint64(score) + 1
	return float64(1<<33-u) / (float64(u) * weight)
}

// fixedLog returns ln(x / 2^33) for 0 < x < 2^33, to about 1e-15. Owners
// depend on its bits, so unlike math.Log it gives the same on every processor:
// a product that is converted is rounded, and cannot be fused with a sum.
func fixedLog(x uint64) float64 {
	exponent := bits.Len64(x) - 1
	fraction := x << (52 - exponent) & (1<<52 - 1)
	e := &logTable[fraction>>(52-logBits)]
	m := math.Float64frombits(1023<<52 | fraction) // 1 <= m < 2
	r := float64(m*e.inverse) - 1                  // below 2^-8
	p := float64(r*(1./5)) - 1./4
	p = float64(r*p) + 1./3
	p = float64(r*p) - 1./2
	p = float64(r*p) + 1
	return float64(float64(exponent+e.carry-33)*math.Ln2) + (e.log + float64(r*p))
}

const logBits = 7

// logEntry serves the m of one interval: ln(m) = carry*ln(2) + log + ln(m*inverse).
type logEntry struct {
	inverse, log float64
	carry        int
}

var logTable = makeLogTable()

func makeLogTable() *[1 << logBits]logEntry {
	var t [1 << logBits]logEntry
	for i := range t {
		middle := 1 + (float64(i)+0.5)/(1<<logBits)
		t[i].inverse = 1 / middle
		t[i].log = -logSeries(t[i].inverse)
	}
	// The last interval counts from 2, so that logarithms near 0, where the
	// winners are, are not the difference of larger numbers.
	t[len(t)-1] = logEntry{inverse: 0.5, carry: 1}
	return &t
}

// logSeries returns ln(f) for f from 1/2 to 1: twice the area hyperbolic
// tangent of s, whose series goes on until its terms vanish.
func logSeries(f float64) float64 {
	s := (f - 1) / (f + 1)
	square := float64(s * s)
	sum, power := 0.0, s
	for odd := 1.0; odd < 41; odd += 2 {
		sum += power / odd
		power = float64(power * square)
	}
	return 2 * sum
}
