package hash

import (
	"math"
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
	// SpreadZ tells whether the probabilities as a whole scatter around 0.5
	// as samples of a fair coin do: high is a bias, low is too regular.
	SpreadZ float64 `json:"spread_z"`
	Verdict Verdict `json:"verdict"`
}

// Matrix returns the flip probabilities that [Avalanche] sums up: how often
// flipping bit i of a key flips bit j of its hash, as [i][j]. Measured like
// the one in [Measure], with the same options.
func Matrix(f Function, o MeasureOptions) ([][]float64, error) {
	o = o.withDefaults()
	if err := o.check(f); err != nil {
		return nil, err
	}
	m := newMatrix(f, o)
	rows := make([][]float64, len(m.flips))
	for i := range rows {
		rows[i] = make([]float64, m.hashBits)
		for j := range rows[i] {
			rows[i][j] = m.probability(i, j)
		}
	}
	return rows, nil
}

// avalancheTests is how many tests judge makes: mean, worst pair, scatter.
const avalancheTests = 3

// matrix counts flips, by key bit and hash bit.
type matrix struct {
	keyBytes, samples int
	hashBits          int
	flips             []lanes
}

// lanes is 64 counters side by side: bit j of plane k is bit k of counter j.
// Adding to all of them takes a step for each carry, about seven, where
// separate counters would take 64. 21 planes hold the most that Samples can be.
type lanes [21]uint64

// add counts one for every bit that is set in word.
func (l *lanes) add(word uint64) {
	for k := 0; word != 0; k++ {
		l[k], word = l[k]^word, l[k]&word // sum and carry
	}
}

// count returns counter j.
func (l *lanes) count(j int) int {
	n := 0
	for k, plane := range l {
		n |= int(plane>>j&1) << k
	}
	return n
}

func newMatrix(f Function, o MeasureOptions) *matrix {
	m := &matrix{keyBytes: o.KeyBytes, samples: o.Samples, hashBits: f.bits()}
	if f.KeyBytes != 0 {
		m.keyBytes = f.KeyBytes
	}
	m.flips = make([]lanes, 8*m.keyBytes)
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

// probability is how often key bit i flipped hash bit j.
func (m *matrix) probability(i, j int) float64 {
	return float64(m.flips[i].count(j)) / float64(m.samples)
}

// judge tests the matrix against fair coins, each of its three tests with a
// false alarm probability of alpha. The pairs are independent: the hashes of
// two keys that differ are two draws of a random function.
func (m *matrix) judge(alpha float64) Avalanche {
	a := Avalanche{KeyBytes: m.keyBytes, Samples: m.samples, Worst: 0.5}
	n, pairs := float64(m.samples), float64(len(m.flips)*m.hashBits)
	var sum, squares float64
	for i := range m.flips {
		for j := range m.hashBits {
			p := m.probability(i, j)
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
	a.SpreadZ = chiSquaredZ(squares, pairs)
	// One pair in this many may stray, so each gets its share of alpha.
	a.Noise = zLimit(alpha/pairs) / (2 * math.Sqrt(n))
	limit := zLimit(alpha)
	if math.Abs(a.Worst-0.5) > a.Noise || math.Abs(a.MeanZ) > limit || math.Abs(a.SpreadZ) > limit {
		a.Verdict = VerdictBad
	}
	return a
}
