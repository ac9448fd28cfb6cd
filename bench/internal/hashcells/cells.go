package hashcells

import (
	"fmt"
	"iter"
	"math/rand/v2"

	"github.com/cleavekv/cleave/bench/internal/duel"
)

// keySizes are the lengths of key in bytes: a number, a UUID, a long name, a
// value.
var keySizes = []int{8, 16, 64, 1024}

// Cells yields one cell for each length, and the slots.
func Cells() iter.Seq[duel.Cell] {
	return func(yield func(duel.Cell) bool) {
		for _, size := range keySizes {
			keys := randomKeys(size)
			cell := duel.Cell{
				ID:          fmt.Sprintf("hash/%d", size),
				Title:       fmt.Sprintf("hash a key of %d bytes", size),
				Contestants: append(ours(keys), peers(keys)...),
			}
			if !yield(cell) {
				return
			}
		}
		_ = yield(slots("hash/slot/16", "slot of a key of 16 bytes", randomKeys(16))) &&
			yield(slots("hash/slot/64", "slot of a key of 64 bytes", randomKeys(64))) &&
			yield(slots("hash/slot/tag", "slot of a key of 24 bytes with a hash tag of 8", taggedKeys()))
	}
}

// keyCount is how many keys a loop goes round: few enough that even the long
// ones stay in the first-level cache.
const keyCount = 16

// randomKeys holds letters, so that none has a hash tag by accident.
func randomKeys(size int) [][]byte {
	rng := rand.New(rand.NewPCG(1, uint64(size)))
	keys := make([][]byte, keyCount)
	for i := range keys {
		keys[i] = make([]byte, size)
		for j := range keys[i] {
			keys[i][j] = byte('a' + rng.IntN(26))
		}
	}
	return keys
}

func taggedKeys() [][]byte {
	keys := make([][]byte, keyCount)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "cart:{user%04d}:article", i)
	}
	return keys
}
