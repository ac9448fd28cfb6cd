// Package sketch estimates properties of a stream of values in bounded memory, each with an
// interval that holds the truth.
//
// Distinct counts distinct values and how often they repeat, HeavyHitters finds those that repeat
// most, Sample keeps rows by chance. All of them are driven by 64-bit hashes that the caller makes,
// so equal streams give equal answers.
package sketch

import "math"

// Interval is an estimate with the bounds that hold the truth.
type Interval struct{ Low, Value, High float64 }

// Exactly returns the interval of what is known.
func Exactly(v float64) Interval { return Interval{v, v, v} }

// z95 is the quantile of the normal distribution that leaves 2.5 % on each side.
const z95 = 1.959963984540054

// Proportion returns the share of hits among trials and its 95 % interval by Wilson's score (1927),
// which keeps its promise for shares near 0 and 1 and for few trials.
func Proportion(hits, trials float64) Interval { return proportion(hits, trials, z95) }

// ProportionOf is Proportion for one of n shares, such that all n intervals hold together: the
// chance of an error is divided by n, after Bonferroni.
func ProportionOf(n int, hits, trials float64) Interval {
	return proportion(hits, trials, NormalQuantile(1-0.025/float64(max(n, 1))))
}

func proportion(hits, trials, z float64) Interval {
	if trials <= 0 {
		return Interval{0, 0, 1}
	}
	p := hits / trials
	z2 := z * z / trials
	center := (p + z2/2) / (1 + z2)
	half := z / (1 + z2) * math.Sqrt(p*(1-p)/trials+z2/(4*trials))
	return Interval{max(0, min(p, center-half)), p, min(1, max(p, center+half))}
}

// NormalQuantile returns the value that a standard normal variable stays below with probability p,
// which is above 0 and below 1.
func NormalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// gammaQuantile returns the p-quantile of the gamma distribution with shape k and scale 1 by Wilson
// and Hilferty (1931). For the shapes used here, 100 and more, it is right to four digits.
func gammaQuantile(k, p float64) float64 {
	c := 1 / (9 * k)
	root := 1 - c + NormalQuantile(p)*math.Sqrt(c)
	return k * root * root * root
}

// Mean returns the mean of values with its 95 % interval by Student's t distribution. With fewer
// than five values the interval is too narrow.
func Mean(values []float64) Interval {
	n := float64(len(values))
	if n == 0 {
		return Interval{math.Inf(-1), 0, math.Inf(1)}
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	mean := sum / n
	if n == 1 {
		return Interval{math.Inf(-1), mean, math.Inf(1)}
	}
	squares := 0.0
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	half := studentQuantile(n-1) * math.Sqrt(squares/(n-1)/n)
	return Interval{mean - half, mean, mean + half}
}

// studentQuantile returns the 97.5 % quantile of Student's t distribution by the expansion of
// Cornish and Fisher. From four degrees of freedom on it is right to 1 %.
func studentQuantile(freedom float64) float64 {
	const z3, z5 = z95 * z95 * z95, z95 * z95 * z95 * z95 * z95
	return z95 + (z3+z95)/(4*freedom) + (5*z5+16*z3+3*z95)/(96*freedom*freedom)
}

// mix spreads a number over 64 bits: the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
