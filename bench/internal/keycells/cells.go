package keycells

import (
	"iter"

	"github.com/cleavekv/cleave/bench/internal/duel"
)

// Cells yields tuples first, then merges as wide as salts commonly are.
func Cells() iter.Seq[duel.Cell] {
	return func(yield func(duel.Cell) bool) {
		_ = yield(encoding()) && yield(decoding()) && yield(merging(4, 100_000)) && yield(merging(64, 100_000))
	}
}
