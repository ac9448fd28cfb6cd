// Package patterncells answers one question: what do the patterns on the store cost,
// and when do they pay?
//
// Most cells have no peers: a pattern is set against the plain way of doing the same
// on the same store, which stands where a peer would.
package patterncells

import (
	"iter"

	"github.com/cleavekv/cleave/bench/internal/duel"
)

// Config is the size of the comparison.
type Config struct {
	// Dir is where the stores keep their files.
	Dir string
	// Adds is how many times each client adds to a counter in a window.
	Adds int
	// TableRows is how many rows the tables have that are read, at least 2000.
	TableRows int
}

// patterns yield their cells one after the other, and tell whether to go on.
var patterns = []func(Config, func(duel.Cell) bool) bool{
	counterCells,
	queueCells,
	indexCells,
	sagaCells,
	tableCells,
	hotkeyCells,
	cacheCells,
	watchCells,
}

// Cells yields the cells of all patterns.
func Cells(cfg Config) iter.Seq[duel.Cell] {
	return func(yield func(duel.Cell) bool) {
		for _, cells := range patterns {
			if !cells(cfg, yield) {
				return
			}
		}
	}
}
