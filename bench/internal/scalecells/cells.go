// Package scalecells answers one question: what do more processors, loops, stores and groups buy, or cost?
//
// There are no peers here: the store is set against itself. In each cell the smallest form stands where a peer would,
// so a ratio of 1.8 for two processors reads: 1.8 times as fast as with one, and 0.9 for two stores: a tenth slower
// than with one.
//
// What a machine with few processors cannot show is reckoned instead, from profiles: which share of the time goes to
// what only one thread can do at a time, and how fast many processors are at most for that.
package scalecells

import (
	"fmt"
	"iter"
	"runtime"

	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/bench/internal/serverprocess"
)

// Config is the size of the comparison.
type Config struct {
	// Dir is where the servers and stores keep their files, and Module the folder with the module that the
	// server is built from.
	Dir, Module string
	// Keys is how many different keys the servers have, and Rows how many the embedded stores.
	Keys, Rows int
	// Share scales how many requests a round has: 1 in a full run.
	Share float64
	// Profiles is how many profiles are taken under each load, and ProfileSeconds how long each lasts.
	Profiles, ProfileSeconds int
}

// Cells yields the embedded store, the server, and what is serial in the server. The servers of a comparison run while
// its cells are used.
func Cells(cfg Config) iter.Seq[duel.Cell] {
	machine := runtime.NumCPU()
	return func(yield func(duel.Cell) bool) {
		defer serverprocess.Forget()
		_ = embeddedCells(cfg, machine, yield) &&
			serverCells(cfg, machine, yield) &&
			serialCells(cfg, machine, yield)
	}
}

// Depths are how many requests a connection sends at a time, and Tests what it asks.
var (
	Depths = []int{1, 16, 64}
	Tests  = []string{"get", "set"}
)

// ID is the name of a cell of the server.
func ID(comparison, test string, depth int) string {
	return fmt.Sprintf("scale/%s-%s-p%d", comparison, test, depth)
}

// EmbeddedID is the name of a cell of the embedded store.
func EmbeddedID(test string) string { return "scale/embedded-" + test }

// Count is the name of a contestant that has so many of something.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// scaled is how many operations a round has.
func (cfg Config) scaled(n int) int { return max(1000, int(float64(n)*cfg.Share)) }
