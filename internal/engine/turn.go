package engine

import (
	"context"
	"iter"
	"time"

	"github.com/cleavekv/cleave/internal/shard/admission"
	"github.com/cleavekv/cleave/partition"
)

// waitForTurn waits where writers are held up, as long as the context of a program lasts: see package admission.
func (db *DB) waitForTurn(ctx context.Context, writes iter.Seq[partition.Position]) error {
	limits := db.node.WriteLimits()
	if limits.IsEmpty() {
		return nil
	}
	return limits.Wait(ctx, admission.UntilContextEnds, writes)
}

// writerTurn is the turn of a transaction among the writers of what it writes.
type writerTurn struct {
	maxWait time.Duration
	// hasCome reports whether it has come: another attempt does not wait again.
	hasCome bool
}

// patientTurn is that of a program.
var patientTurn = writerTurn{maxWait: admission.UntilContextEnds}

// waitForTurn waits where writers are held up. The state that the transaction has read gets older meanwhile: if that was
// changed it is tried again, and does not wait then.
func (tx *Txn) waitForTurn() error {
	limits := tx.db.node.WriteLimits()
	if limits.IsEmpty() || tx.turn.hasCome {
		return nil
	}
	err := limits.Wait(tx.ctx, tx.turn.maxWait, func(yield func(partition.Position) bool) {
		for _, w := range tx.writes {
			if !yield(w.at.p) {
				return
			}
		}
	})
	tx.turn.hasCome = err == nil
	return err
}
