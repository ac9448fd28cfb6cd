package hash

import (
	"github.com/cespare/xxhash/v2"
	"github.com/twmb/murmur3"
	"github.com/zeebo/xxh3"
)

// XXH3 returns the 64-bit XXH3 hash of b with seed 0. It is the default for
// routing: the fastest stable function here for keys of any length.
func XXH3(b []byte) Stable { return Stable{xxh3.Hash(b)} }

// XXH3String is [XXH3] of a string, without a copy.
func XXH3String(s string) Stable { return Stable{xxh3.HashString(s)} }

// XXHash64 returns the 64-bit xxHash (XXH64) of b with seed 0, for data that
// was placed with it before XXH3 existed.
func XXHash64(b []byte) Stable { return Stable{xxhash.Sum64(b)} }

// XXHash64String is [XXHash64] of a string, without a copy.
func XXHash64String(s string) Stable { return Stable{xxhash.Sum64String(s)} }

// Murmur3 returns the first 64 bits of MurmurHash3_x64_128 of b with seed 0,
// little-endian on every machine. Cassandra's variant differs from it on some
// keys with bytes above 127.
func Murmur3(b []byte) Stable { return Stable{murmur3.Sum64(b)} }

// Murmur3String is [Murmur3] of a string, without a copy.
func Murmur3String(s string) Stable { return Stable{murmur3.StringSum64(s)} }
