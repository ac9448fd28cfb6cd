package hash

import "github.com/zeebo/xxh3"

// XXH3 returns the 64-bit XXH3 hash of b with seed 0. It is the default for
// routing: the fastest stable function here for keys of any length.
func XXH3(b []byte) Stable { return Stable{xxh3.Hash(b)} }

// XXH3String is [XXH3] of a string, without a copy.
func XXH3String(s string) Stable { return Stable{xxh3.HashString(s)} }
