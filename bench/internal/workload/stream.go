package workload

import "math/rand/v2"

// Distribution says how often each of n items is drawn.
type Distribution string

// The distributions.
const (
	// Uniform draws every item equally often.
	Uniform Distribution = "uniform"
	// Zipf draws the item of rank r in proportion to r^-1.01: about the skew
	// of caches in the field, and the mildest that math/rand/v2 offers.
	Zipf Distribution = "zipf"
)

// Draw returns length indexes below n. Ranks are scattered over the indexes,
// so that hot items do not also sit side by side in memory.
func (d Distribution) Draw(n, length int, seed uint64) []uint32 {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	out := make([]uint32, length)
	if d == Uniform {
		for i := range out {
			out[i] = rng.Uint32N(uint32(n))
		}
		return out
	}
	place := rng.Perm(n)
	zipf := rand.NewZipf(rng, 1.01, 1, uint64(n-1))
	for i := range out {
		out[i] = uint32(place[zipf.Uint64()])
	}
	return out
}

// Step is one operation on a table: read or write this key.
type Step[K any] struct {
	Key   K
	Write bool
}

// Stream returns length steps of which writePercent write. Keys are copied
// into the steps in the order of use: reading them costs a contestant no
// cache miss, so what a window measures is the table.
func Stream[K any](d Distribution, n, length, writePercent int, seed uint64, key func(i uint32) K) []Step[K] {
	rng := rand.New(rand.NewPCG(seed, uint64(writePercent)))
	steps := make([]Step[K], length)
	for i, item := range d.Draw(n, length, seed) {
		steps[i] = Step[K]{key(item), rng.IntN(100) < writePercent}
	}
	return steps
}

// Scramble maps integers one to one onto integers that look random
// (SplitMix64's finaliser), so that keys have no order a table could enjoy.
func Scramble(i uint64) uint64 {
	i += 0x9e3779b97f4a7c15
	i = (i ^ i>>30) * 0xbf58476d1ce4e5b9
	i = (i ^ i>>27) * 0x94d049bb133111eb
	return i ^ i>>31
}
