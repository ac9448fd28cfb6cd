package hash

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// Avalanche sums up the matrix of flip probabilities: for each bit of the key
// and each bit of the hash, how often flipping the one flips the other. The
// ideal is 0.5 everywhere; both sides of it are faults.
type Avalanche struct {
	KeyBytes int `json:"key_bytes"`
	Samples  int `json:"samples"`
	// Mean is over all pairs of bits, and MeanZ its distance from 0.5 in
	// standard deviations.
	Mean  float64 `json:"mean"`
	MeanZ float64 `json:"mean_z"`
	// Worst is the probability furthest from 0.5, on either side, and the
	// pair of bits that has it. Bit 0 of a key is the lowest of its first byte.
	Worst        float64 `json:"worst"`
	WorstKeyBit  int     `json:"worst_key_bit"`
	WorstHashBit int     `json:"worst_hash_bit"`
	// Noise is how far from 0.5 the worst pair of a random function may be.
	Noise float64 `json:"noise"`
	// SpreadZ reports whether the probabilities as a whole scatter around 0.5
	// as samples of a fair coin do: high is a bias, low is too regular.
	SpreadZ float64 `json:"spread_z"`
	Verdict Verdict `json:"verdict"`
}

// Matrix returns the flip probabilities that [Avalanche] sums up: how often
// flipping bit i of a key flips bit j of its hash, as [i][j]. Measured like
// the one in [Measure], with the same options.
func Matrix(f Function, o MeasureOptions) ([][]float64, error) {
	o = o.withDefaults()
	if err := o.checkFor(f); err != nil {
		return nil, err
	}
	m := newFlipMatrix(f, o)
	rows := make([][]float64, len(m.flips))
	for i := range rows {
		rows[i] = make([]float64, m.hashBits)
		for j := range rows[i] {
			rows[i][j] = m.computeFlipProbability(i, j)
		}
	}
	return rows, nil
}

// avalancheTests is how many tests judge makes: mean, worst pair, scatter.
const avalancheTests = 3

// flipMatrix counts flips, by key bit and hash bit.
type flipMatrix struct {
	keyBytes, samples int
	hashBits          int
	flips             []bitCounters
}

// bitCounters is 64 counters side by side: bit j of plane k is bit k of counter j.
// Adding to all of them takes a step for each carry, about seven, where
// separate counters would take 64. 21 planes hold the most that Samples can be.
type bitCounters [21]uint64

// add counts one for every bit that is set in word.
func (l *bitCounters) add(word uint64) {
	for k := 0; word != 0; k++ {
		l[k], word = l[k]^word, l[k]&word // sum and carry
	}
}

// count returns counter j.
func (l *bitCounters) count(j int) int {
	n := 0
	for k, plane := range l {
		n |= int(plane>>j&1) << k
	}
	return n
}

func newFlipMatrix(f Function, o MeasureOptions) *flipMatrix {
	m := &flipMatrix{keyBytes: o.KeyBytes, samples: o.Samples, hashBits: f.hashBits()}
	if f.KeyBytes != 0 {
		m.keyBytes = f.KeyBytes
	}
	m.flips = make([]bitCounters, 8*m.keyBytes)
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	key := make([]byte, m.keyBytes)
	for range m.samples {
		for i := range key {
			key[i] = byte(rng.Uint32())
		}
		before := f.Sum(key)
		for i := range m.flips {
			mask := byte(1) << (i % 8)
			key[i/8] ^= mask
			m.flips[i].add(before ^ f.Sum(key))
			key[i/8] ^= mask
		}
	}
	return m
}

// computeFlipProbability is how often key bit i flipped hash bit j.
func (m *flipMatrix) computeFlipProbability(i, j int) float64 {
	return float64(m.flips[i].count(j)) / float64(m.samples)
}

// toAvalanche tests the matrix against fair coins, each of its three tests with a
// false alarm probability of alpha. The pairs are independent: the hashes of
// two keys that differ are two draws of a random function.
func (m *flipMatrix) toAvalanche(alpha float64) Avalanche {
	a := Avalanche{KeyBytes: m.keyBytes, Samples: m.samples, Worst: 0.5}
	n, pairs := float64(m.samples), float64(len(m.flips)*m.hashBits)
	var sum, squares float64
	for i := range m.flips {
		for j := range m.hashBits {
			p := m.computeFlipProbability(i, j)
			z := (p - 0.5) * 2 * math.Sqrt(n)
			sum += p
			squares += z * z
			if math.Abs(p-0.5) > math.Abs(a.Worst-0.5) {
				a.Worst, a.WorstKeyBit, a.WorstHashBit = p, i, j
			}
		}
	}
	a.Mean = sum / pairs
	a.MeanZ = (a.Mean - 0.5) * 2 * math.Sqrt(n*pairs)
	a.SpreadZ = computeChiSquaredZ(squares, pairs)
	// One pair in this many may stray, so each gets its share of alpha.
	a.Noise = zLimit(alpha/pairs) / (2 * math.Sqrt(n))
	limit := zLimit(alpha)
	if math.Abs(a.Worst-0.5) > a.Noise || math.Abs(a.MeanZ) > limit || math.Abs(a.SpreadZ) > limit {
		a.Verdict = VerdictBad
	}
	return a
}

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

// measureSpreads hashes a corpus once and fills every kind of buckets with it.
func measureSpreads(f Function, c Corpus, o MeasureOptions) []Spread {
	counts := make([][]int, len(bucketings))
	for k, by := range bucketings {
		counts[k] = make([]int, by.count(o.Buckets))
	}
	var key []byte
	for i := range o.Keys {
		key = c.Append(key[:0], uint64(i))
		h := f.Sum(key) & (math.MaxUint64 >> (64 - f.hashBits()))
		for k, by := range bucketings {
			counts[k][by.bucket(h, f.hashBits(), o.Buckets)]++
		}
	}
	all := make([]Spread, len(bucketings))
	for k, by := range bucketings {
		all[k] = newSpread(counts[k], f.hashBits())
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
		want := float64(keys) * bucketShare(i, len(counts), hashBits)
		s.Chi2 += (float64(got) - want) * (float64(got) - want) / want
	}
	s.Z = computeChiSquaredZ(s.Chi2, float64(len(counts)-1))
	return s
}

// bucketShare is the part of all hash values that belongs to bucket i of n. It is
// 1/n but for short hashes by modulo, where the first buckets get one value
// more than the last.
func bucketShare(i, n, hashBits int) float64 {
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

func (s *Spread) setVerdict(limit float64, enumerable bool) {
	switch {
	case s.Z > limit:
		s.Verdict = VerdictBad
	case s.Z < -limit && enumerable:
		s.Verdict = VerdictEven
	case s.Z < -limit:
		s.Verdict = VerdictBad // random keys cannot fall evenly by honest means
	}
}

func (s Spread) isWorseThan(t Spread) bool {
	if s.Verdict != t.Verdict {
		return s.Verdict > t.Verdict
	}
	return math.Abs(s.Z) > math.Abs(t.Z)
}

// computeChiSquaredZ turns a chi-squared statistic into a standard normal one by the
// cube root of Wilson and Hilferty, which holds far into both tails.
func computeChiSquaredZ(chi2, freedom float64) float64 {
	v := 2 / (9 * freedom)
	return (math.Cbrt(chi2/freedom) - (1 - v)) / math.Sqrt(v)
}
