package hash

import (
	"math"
	"math/bits"
)

// Spread is how keys of one corpus filled buckets.
type Spread struct {
	Corpus string `json:"corpus"`
	// By is how a bucket is chosen: "mask" (low bits), "top" (high bits) or
	// "modulo". Poor functions pass in one and fail in another.
	By      string `json:"by"`
	Buckets int    `json:"buckets"`
	Keys    int    `json:"keys"`
	// Chi2 is the chi-squared statistic with one degree of freedom fewer than
	// there are buckets, and Z its distance from the expected one in standard
	// deviations: positive is clumped, negative is more even than chance.
	Chi2    float64 `json:"chi2"`
	Z       float64 `json:"z"`
	Verdict Verdict `json:"verdict"`
}

// bucketing is a way to choose one of about n buckets from a hash of that
// many bits. n is a power of two.
type bucketing struct {
	name   string
	count  func(n int) int
	bucket func(h uint64, hashBits, n int) int
}

var bucketings = []bucketing{
	{"mask", func(n int) int { return n },
		func(h uint64, _, n int) int { return int(h & uint64(n-1)) }},
	{"top", func(n int) int { return n },
		func(h uint64, hashBits, n int) int { return int(h >> (hashBits - bits.TrailingZeros(uint(n)))) }},
	{"modulo", func(n int) int { return max(n-1, 2) },
		func(h uint64, _, n int) int { return int(h % uint64(max(n-1, 2))) }},
}

// spreads hashes a corpus once and fills every kind of buckets with it.
func spreads(f Function, c Corpus, o MeasureOptions) []Spread {
	counts := make([][]int, len(bucketings))
	for k, by := range bucketings {
		counts[k] = make([]int, by.count(o.Buckets))
	}
	var key []byte
	for i := range o.Keys {
		key = c.Append(key[:0], uint64(i))
		h := f.Sum(key) & (math.MaxUint64 >> (64 - f.bits()))
		for k, by := range bucketings {
			counts[k][by.bucket(h, f.bits(), o.Buckets)]++
		}
	}
	all := make([]Spread, len(bucketings))
	for k, by := range bucketings {
		all[k] = newSpread(counts[k], f.bits())
		all[k].Corpus, all[k].By = c.Name, by.name
	}
	return all
}

// newSpread computes chi-squared of the number of keys in each bucket.
func newSpread(counts []int, hashBits int) Spread {
	keys := 0
	for _, n := range counts {
		keys += n
	}
	s := Spread{Buckets: len(counts), Keys: keys}
	for i, got := range counts {
		want := float64(keys) * share(i, len(counts), hashBits)
		s.Chi2 += (float64(got) - want) * (float64(got) - want) / want
	}
	s.Z = chiSquaredZ(s.Chi2, float64(len(counts)-1))
	return s
}

// share is the part of all hash values that belongs to bucket i of n. It is
// 1/n but for short hashes by modulo, where the first buckets get one value
// more than the last.
func share(i, n, hashBits int) float64 {
	if hashBits > 32 {
		return 1 / float64(n)
	}
	values := uint64(1) << hashBits
	mine := values / uint64(n)
	if uint64(i) < values%uint64(n) {
		mine++
	}
	return float64(mine) / float64(values)
}

func (s *Spread) judge(limit float64, enumerable bool) {
	switch {
	case s.Z > limit:
		s.Verdict = VerdictBad
	case s.Z < -limit && enumerable:
		s.Verdict = VerdictEven
	case s.Z < -limit:
		s.Verdict = VerdictBad // random keys cannot fall evenly by honest means
	}
}

func (s Spread) worseThan(t Spread) bool {
	if s.Verdict != t.Verdict {
		return s.Verdict > t.Verdict
	}
	return math.Abs(s.Z) > math.Abs(t.Z)
}

// chiSquaredZ turns a chi-squared statistic into a standard normal one by the
// cube root of Wilson and Hilferty, which holds far into both tails.
func chiSquaredZ(chi2, freedom float64) float64 {
	v := 2 / (9 * freedom)
	return (math.Cbrt(chi2/freedom) - (1 - v)) / math.Sqrt(v)
}
