package hash

// Uint64 hashes an integer key: it is the first output of SplitMix64 seeded
// with u (Steele, Lea and Flood 2014, with Stafford's variant 13 of the
// mixer). It is a bijection, so distinct integers never collide in 64 bits.
func Uint64(u uint64) Stable {
	z := u + 0x9e3779b97f4a7c15 // 2^64 / golden ratio, odd: 0 is not a fixed point
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return Stable{z ^ z>>31}
}

// Derive returns the i-th hash value that follows from s without a look at
// the key: for a second choice, a salt, a probe sequence. It is
// Uint64(s ^ Uint64(i)), so for one s no two i give the same value, and for
// one i no two s do. Keys that collide in s collide in every derived value.
func (s Stable) Derive(i uint64) Stable { return Uint64(s.bits ^ Uint64(i).bits) }
