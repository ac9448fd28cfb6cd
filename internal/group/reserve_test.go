package group

import (
	"context"
	"fmt"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
)

// eat is a command that uses versions up: each write of a key takes one.
type eat int

func (n eat) Eval(e *command.Env) (reply command.Reply) {
	set := command.Set{Key: at("k")}
	for range int(n) {
		reply = set.Eval(e)
	}
	return reply
}

// strictDisk checks that only versions are committed that were reserved before.
type strictDisk struct {
	*disk
	t       testing.TB
	batches int // that gave out versions
}

func (d *strictDisk) Commit(urgent bool, effects []byte) error {
	stored, _, _ := d.crash().Get(ledgerKey(0), nil)
	batch, err := effect.Parse(effects)
	if err != nil {
		d.t.Fatal(err)
	}
	highest := uint64(0)
	for _, op := range batch.All() {
		if effect.Table(op.Key[0]) != effect.Rows {
			continue
		}
		row, err := command.DecodeRow(op.Value)
		if err != nil {
			d.t.Fatal(err)
		}
		highest = max(highest, row.Version)
	}
	if highest > 0 {
		d.batches++
		if l, err := decodeLedger(stored); err != nil || highest >= l.versionCeiling {
			d.t.Errorf("version %d is given out, those below %d are reserved (%v)", highest, l.versionCeiling, err)
		}
	}
	return d.disk.Commit(urgent, effects)
}

// However many calls wait, and however little is left of what was reserved: a
// batch ends before it gives out a version that a crash would give out again.
func TestABatchEndsBeforeItsVersionsRunOut(t *testing.T) {
	const most = command.MaxTxnKeys
	for _, c := range []struct{ left, each, calls, batches int }{
		{4*most + 1, most, 5, 2},     // the third call ends the batch
		{5*most + 2, 2 * most, 3, 2}, // there would be room for half of the third
		{4 * most, most, 4, 1},       // more is reserved before the batch
		{most + 1, 2 * most, 1, 1},   // there would be room for half of the first
	} {
		t.Run(fmt.Sprintf("left=%d/each=%d", c.left, c.each), func(t *testing.T) {
			d := &strictDisk{disk: newDisk(false), t: t}
			g, err := Open(d, d, Options{Alone: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := g.actor.Do(context.Background(), func(x *executor) {
				x.nextVersion = x.ledger.versionCeiling - uint64(c.left)
			}); err != nil {
				t.Fatal(err)
			}
			batch, errs := make([]*call, c.calls), make([]error, c.calls)
			for i := range batch {
				batch[i] = &call{Request: Request{Command: eat(c.each)}}
			}
			if err := g.actor.CallBatch(context.Background(), batch, errs); err != nil {
				t.Fatal(err)
			}
			last := uint64(0)
			for i, call := range batch {
				if errs[i] != nil || call.reply.Err != nil || call.reply.Version < last+uint64(c.each) {
					t.Errorf("call %d: version %d after %d, %v, %v", i, call.reply.Version, last, errs[i], call.reply.Err)
				}
				last = call.reply.Version
			}
			if d.batches != c.batches {
				t.Errorf("%d batches, want %d", d.batches, c.batches)
			}
		})
	}
}
