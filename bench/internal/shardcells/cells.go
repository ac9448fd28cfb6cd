// Package shardcells answers one question: what does it cost that keys are spread
// over shards, groups and stores?
//
// There are no peers here: the store is set against itself, with its keys closer
// together, with fewer shards, or while nothing moves. In each cell the reference
// stands where a peer would, so a ratio of 0.4 reads: 2.5 times the cost.
package shardcells

import (
	"iter"
	"time"

	"github.com/cleavekv/cleave/bench/internal/duel"
)

// Config is the size of the comparison.
type Config struct {
	// Rows is how many rows the small tables have.
	Rows int
	// Shards are the numbers of shards over which costs should be flat.
	Shards []int
	// MoveRows rows of 1000 bytes are moved from one store to the other.
	MoveRows int
	// Moves is how often, and Think how long clients that think wait meanwhile after
	// a read and a write.
	Moves int
	Think time.Duration
	// Still is for how long the load is measured while nothing moves.
	Still time.Duration
	// Dir is where the stores keep their files.
	Dir string
}

const (
	valueBytes = 100
	// many is how many clients there are where there is not one.
	many = 64
)

// Cells yields transactions by distance, by the number of their stores and in each other's way, costs by the number of shards, what a move
// disturbs, and costs by the number of groups.
func Cells(cfg Config) iter.Seq[duel.Cell] {
	return func(yield func(duel.Cell) bool) {
		_ = commits(cfg, yield) &&
			participants(cfg, yield) &&
			contention(cfg, yield) &&
			flat(cfg, yield) &&
			moves(cfg, yield) &&
			groups(cfg, yield)
	}
}

// broken is a cell whose stores could not be made: the report says why.
func broken(id string, err error) duel.Cell {
	return duel.Cell{ID: id, Title: "not run", Contestants: []duel.Contestant{{Name: "stores", Ours: true, Work: func(int) { panic(err) }}}}
}
