package hotkey

import (
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/cleavekv/cleave/heat"
)

// MaxKeyBytes is how long a key is kept. Of a longer one the beginning is kept, with a
// hash of all of it, so that two of them still differ.
const MaxKeyBytes = heat.MaxKeyBytes

var hashSeed = maphash.MakeSeed()

// truncateKey returns the key as it is kept, sharing no memory with what the caller has.
func truncateKey(key string) string {
	if len(key) <= MaxKeyBytes {
		return strings.Clone(key)
	}
	sum := fmt.Sprintf("…#%016x", maphash.String(hashSeed, key))
	// The cut may go through a character, and whole stretches may be of other bytes: a
	// mark in the place of each never makes it longer.
	return strings.ToValidUTF8(key[:MaxKeyBytes-len(sum)], "?") + sum
}
