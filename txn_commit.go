package cleave

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/own"
	"github.com/cleavekv/cleave/internal/plant"
	"github.com/cleavekv/cleave/internal/txn"
	"github.com/cleavekv/cleave/partition"
)

// commit executes what the transaction wrote, if what it read is still so.
func (tx *Txn) commit() error {
	if tx.noteScans(); tx.err != nil { // of loops that were never ended
		return tx.err
	}
	if len(tx.writes) == 0 {
		return nil // it saw one state: that is when it took place
	}
	if err := tx.maintain(); err != nil {
		return err
	}
	if err := tx.checkUnique(); err != nil {
		return err
	}
	if tx.err != nil { // it has looked at what could not be noted: nobody would tell if that changes
		return tx.err
	}
	if err := command.CheckTxn(len(tx.reads)+len(tx.ranges)+len(tx.writes), tx.env.Effects().Size()); err != nil {
		return public(err)
	}
	tx.judgeAsTold()
	return tx.outcome(tx.execute())
}

// judgeAsTold has keys that were given an expiry judged by the time by which f was told what
// came of it, where it matters. By that of the commit the expiry may have come between one
// write and the next: they would find nothing, or make another row.
func (tx *Txn) judgeAsTold() {
	if len(tx.dated) == 0 || plant.Bug("cleave-expires-between-own-writes") {
		return
	}
	for i, w := range tx.writes {
		if d := tx.dated[string(w.at.p)]; d.matters {
			tx.writes[i].command = &command.AsOf{Command: w.command, NowMS: d.nowMS}
		}
	}
}

// execute commits by the shortest way that there is.
func (tx *Txn) execute() error {
	if apart := tx.isApart(); tx.hold != (txn.ID{}) || apart {
		tx.db.apart.note(apart)
		parts, err := tx.parts()
		if err != nil {
			return err
		}
		tx.db.node.Count.TwoPhase.Add(1)
		return tx.db.node.Commit(tx.ctx, node.Transaction{Parts: parts, Gate: tx.used, Hold: tx.hold})
	}
	tx.db.apart.note(false)
	pieces := tx.pieces()
	if !oneHost(pieces) { // a shard has moved since
		return own.ErrWrongGroup
	}
	tx.db.count(len(pieces))
	replies, err := atOnce(tx.ctx, pieces)
	for i := range replies {
		if err == nil {
			err = replies[i].Err
		}
	}
	return err
}

// isApart tells whether the transaction has touched several stores.
func (tx *Txn) isApart() bool {
	first := tx.writes[0].at.part().Host
	other := func(p partition.Position) bool { return tx.db.node.PartOf(p).Host != first }
	for key := range tx.reads {
		if other(partition.Position(key)) {
			return true
		}
	}
	return slices.ContainsFunc(tx.ranges, func(r command.RangeRead) bool { return other(r.Start) }) ||
		slices.ContainsFunc(tx.writes, func(w txnWrite) bool { return other(w.at.p) })
}

// outcome tells a conflict from an error. It is not a conflict of a conditional Set:
// f was told of that when it called it.
func (tx *Txn) outcome(err error) error {
	if errors.Is(err, command.ErrConflict) || passes(err) {
		return fmt.Errorf("%w: %w", errRetry, err)
	}
	return public(err)
}

// txnWrite is a command that is kept for the commit.
type txnWrite struct {
	at      place
	command command.Command
}

// pieces are what the transaction has read and written by the groups that have it.
func (tx *Txn) pieces() (pieces []piece) {
	of := func(at place) (*group.Request, *command.Commit) {
		part := at.part()
		i := slices.IndexFunc(pieces, func(p piece) bool { return p.part == part })
		if i < 0 {
			i = len(pieces)
			pieces = append(pieces, piece{part, at, group.Request{Command: &command.Commit{}, Gate: tx.used}})
		}
		r := &pieces[i].request
		return r, r.Command.(*command.Commit)
	}
	k := tx.writes[0].at.k // for places: only the position counts
	for key, version := range tx.reads {
		_, c := of(place{k, partition.Position(key)})
		c.Reads = append(c.Reads, command.Read{Key: partition.Position(key), Version: version})
	}
	for _, r := range tx.ranges {
		_, c := of(place{k, r.Start})
		c.Ranges = append(c.Ranges, r)
	}
	for _, w := range tx.writes {
		r, c := of(w.at)
		r.Key = w.at.p
		c.Writes.Commands = append(c.Writes.Commands, w.command)
	}
	return pieces
}

// parts are what the transaction has read and written by what commits as one.
func (tx *Txn) parts() ([]txn.Part, error) {
	m := tx.db.node.Map()
	ranges, err := tx.rangesBy(m)
	if err != nil {
		return nil, err
	}
	parts := drive.NewParts(m, ranges)
	for key, version := range tx.reads {
		part := parts.Of(partition.Position(key))
		part.Reads = append(part.Reads, command.Read{Key: partition.Position(key), Version: version})
	}
	for _, w := range tx.writes {
		part := parts.Of(w.at.p)
		part.Writes = append(part.Writes, w.command)
	}
	return parts.Sorted(), nil
}

// claims are what the transaction has touched.
func (tx *Txn) claims() (claims []txn.Claim) {
	for key := range tx.reads {
		claims = append(claims, txn.Claim{Span: txn.KeySpan(partition.Position(key))})
	}
	for _, r := range tx.ranges {
		claims = append(claims, txn.Claim{Span: partition.Span{Start: r.Start, End: r.End}})
	}
	for _, w := range tx.writes {
		claims = append(claims, txn.Claim{Span: txn.KeySpan(w.at.p), Write: true})
	}
	return claims
}
