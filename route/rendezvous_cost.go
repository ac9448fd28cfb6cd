package route

import (
	"math"
	"math/bits"
)

// cost returns -ln(u)/weight, where u is the score as a fraction of one. The
// least of such exponential variables falls on a node as often as its weight
// says. It falls strictly as the score rises, so equal weights agree with the
// highest score.
func cost(score uint32, weight float64) float64 {
	// The middle of the score's interval, never 0 or 1.
	return -logarithm(2*uint64(score)+1) / weight
}

// costCeiling returns what cost is at most: -ln(u) < (1-u)/u.
func costCeiling(score uint32, weight float64) float64 {
	u := 2*uint64(score) + 1
	return float64(1<<33-u) / (float64(u) * weight)
}

// logarithm returns ln(x / 2^33) for 0 < x < 2^33, to about 1e-15. Owners
// depend on its bits, so unlike math.Log it gives the same on every processor:
// a product that is converted is rounded, and cannot be fused with a sum.
func logarithm(x uint64) float64 {
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
