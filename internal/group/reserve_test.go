package group

import (
	"context"
	"fmt"
	"testing"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/wal"
	"github.com/cleavekv/cleave/partition"
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
	t testing.TB
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
		if l, err := decodeLedger(stored); err != nil || highest >= l.versionCeiling {
			d.t.Errorf("version %d is given out, those below %d are reserved (%v)", highest, l.versionCeiling, err)
		}
	}
	return d.disk.Commit(urgent, effects)
}

// However many calls wait, however many versions each takes, and however little is left of
// what was reserved: no batch gives out a version that a crash would give out again.
func TestABatchGivesOutWhatIsReserved(t *testing.T) {
	const most = command.MaxTxnKeys
	for _, c := range []struct{ left, each, calls int }{
		{0, 1, 1},
		{4*most + 1, most, 5},
		{4*most + 1, 5 * most, 2}, // more keys than a transaction may have
		{batchVersions, most, 4},
		{batchVersions + 1, 3 * most, 2},
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
		})
	}
}

// A version takes as many bytes of a batch as batchVersions counts on.
func TestAVersionTakesSixteenBytes(t *testing.T) {
	shortest := partition.Position{1, 0, 1} // a position has an end of two bytes
	env := command.NewEnv(newDisk(false))
	before := env.Effects().Size()
	if reply := env.Do(&command.Set{Key: shortest}); reply.Err != nil {
		t.Fatal(reply.Err)
	}
	if n := env.Effects().Size() - before; n*batchVersions < wal.MaxBytes {
		t.Errorf("a row takes %d bytes: a batch has more versions than %d", n, batchVersions)
	}
}
