package shardmap

import (
	"hash/maphash"
	"math/bits"
)

// seeds are the secrets of one map. Whoever does not know them cannot choose
// keys that land in one bucket; two maps never agree on where a key lives.
type seeds struct {
	before, first, between, second uint64 // of hashWord
	general                        maphash.Seed
}

func newSeeds() seeds {
	s := seeds{general: maphash.MakeSeed()}
	for i, p := range []*uint64{&s.before, &s.first, &s.between, &s.second} {
		*p = maphash.Comparable(s.general, i) | 1 // odd: a factor that loses no bit
	}
	return s
}

// hashWord hashes a key of one word with two folded multiplications by secret
// factors, the construction of wyhash and of the runtime's own fallback. One
// would be enough to hide the seeds but not to spread consecutive integers
// evenly for every factor.
func (s *seeds) hashWord(key uint64) uint64 {
	return fold(fold(key^s.before, s.first)^s.between, s.second)
}

// fold multiplies to 128 bits and xors the halves.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
