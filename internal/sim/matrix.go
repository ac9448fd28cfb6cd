package sim

import (
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/txn"
)

// Matrix returns each fault in each phase that a transaction in two phases, a move
// between stores, a change that moves no rows, and a job that is done by others go
// through; phases whose record need not be stored with that and without. A test that has not been in all of them has shown nothing about the
// others.
func Matrix() (cells []Cell) {
	var phases []string
	for s := txn.Preparing; s < txn.Done; s++ {
		phases = append(phases, "txn "+s.String())
	}
	for p := mover.Planned; p <= mover.Forgetting; p++ {
		if p <= mover.Dismissing || p >= mover.Releasing {
			phases = append(phases, "move "+p.String())
		}
	}
	for _, p := range []mover.Phase{mover.Planned, mover.Deciding, mover.Releasing, mover.Publishing} {
		phases = append(phases, "local "+p.String())
	}
	for _, p := range []string{"move finishing", "move comparing", "move deciding", "move activating", "local deciding", "local publishing"} {
		phases = append(phases, p+passing)
	}
	for p := mover.Marking; p <= mover.Unmarking; p++ {
		phases = append(phases, "job "+p.String())
	}
	for _, phase := range phases {
		for f := Dropped; f <= lastFault; f <<= 1 {
			cells = append(cells, Cell{f, phase})
		}
	}
	return cells
}
