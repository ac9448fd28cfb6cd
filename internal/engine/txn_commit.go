package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/reshard/protocol"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/ownership"
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/partition"
)

// commit executes what the transaction wrote, if what it read is still so.
func (tx *Txn) commit() error {
	if tx.recordScans(); tx.err != nil { // of loops that were never ended
		return tx.err
	}
	if len(tx.writes) == 0 {
		return nil // it saw one state: that is when it took place
	}
	writes := tx.writes // without entries of indexes
	if err := tx.maintainIndexes(); err != nil {
		return err
	}
	if err := tx.checkUnique(); err != nil {
		return err
	}
	if tx.err != nil { // it has read what could not be noted: a change of that would go unnoticed
		return tx.err
	}
	if err := tx.checkSize(); err != nil {
		return err
	}
	if err := tx.waitForTurn(); err != nil {
		return err
	}
	tx.applyExpiryClocks()
	began := time.Now()
	err := tx.classifyCommitError(tx.executeCommit())
	if tx.recordsLoad && !errors.Is(err, errRetry) {
		tx.recordWrites(writes, err != nil, time.Since(began))
	}
	return err
}

// checkSize refuses a transaction that has read or written more than one may. Of what was read the
// keys count: between stores each of them is locked.
func (tx *Txn) checkSize() error {
	bytes := 0
	for p := range tx.reads {
		bytes += max(0, len(p)-9) / 2 // a key has at least that, see partition.Keyspace.AppendPosition
	}
	return cmp.Or(command.CheckTxn(len(tx.reads)+len(tx.rangeReads), bytes), tx.env.CheckTxn(tx.beforeWrites))
}

// applyExpiryClocks has keys that were given an expiry judged by the time of the results that f got,
// where it matters. By that of the commit the expiry may have come between one
// write and the next: they would find nothing, or make another row.
func (tx *Txn) applyExpiryClocks() {
	if len(tx.expiryClocks) == 0 {
		return
	}
	for i, w := range tx.writes {
		if d := tx.expiryClocks[string(w.at.p)]; d.atCommit {
			tx.writes[i].command = &command.AsOf{Command: w.command, NowMS: d.nowMS}
		}
	}
}

// executeCommit commits by the shortest way that there is.
func (tx *Txn) executeCommit() error {
	if apart := tx.isCrossStore(); tx.reservation != (txn.ID{}) || apart {
		tx.db.crossStore.record(apart)
		parts, err := tx.splitByParticipant()
		if err != nil {
			return err
		}
		tx.db.node.Counters.TwoPhase.Add(1)
		return tx.db.node.Commit(tx.ctx, node.Transaction{Participants: parts, Gate: tx.keyspaces, Reservation: tx.reservation})
	}
	tx.db.crossStore.record(false)
	pieces := tx.splitByGroup()
	if !isSingleStore(pieces) { // a shard has moved since
		return ownership.ErrWrongGroup
	}
	tx.db.countCommit(len(pieces))
	if tx.env.Effects().Size() > largeCommitBytes {
		for _, p := range pieces {
			defer p.groupHost.Group.BeginLargeRequest()()
		}
	}
	replies, err := executeJointOnce(tx.ctx, pieces)
	for i := range replies {
		if err == nil {
			err = replies[i].Err
		}
	}
	return err
}

// largeCommitBytes is how many bytes of effects make a commit that holds up its groups for long: 4 MiB
// are about 60,000 fields of a hash, which take some 50 ms. A server serves other keys meanwhile.
const largeCommitBytes = 4 << 20

// isCrossStore reports whether the transaction has touched several stores.
func (tx *Txn) isCrossStore() bool {
	first := tx.db.node.GroupHostAt(tx.writes[0].at.p).Host
	other := func(p partition.Position) bool { return tx.db.node.GroupHostAt(p).Host != first }
	for key := range tx.reads {
		if other(partition.Position(key)) {
			return true
		}
	}
	return slices.ContainsFunc(tx.rangeReads, func(r command.RangeRead) bool { return other(r.Start) }) ||
		slices.ContainsFunc(tx.writes, func(w txnWrite) bool { return other(w.at.p) })
}

// classifyCommitError separates conflicts from errors. It is not a conflict of a conditional Set:
// f got that result when it called it.
func (tx *Txn) classifyCommitError(err error) error {
	if errors.Is(err, command.ErrConflict) || isRetryable(err) {
		return fmt.Errorf("%w: %w", errRetry, err)
	}
	return err
}

// txnWrite is a command that is kept for the commit.
type txnWrite struct {
	at      keyRef
	command command.Command
}

// splitByGroup are what the transaction has read and written by the groups that have it.
func (tx *Txn) splitByGroup() (pieces []subBatch) {
	of := func(at keyRef) (*group.Request, *command.Commit) {
		part := tx.db.node.GroupHostAt(at.p)
		i := slices.IndexFunc(pieces, func(p subBatch) bool { return p.groupHost == part })
		if i < 0 {
			i = len(pieces)
			pieces = append(pieces, subBatch{part, group.Request{Command: &command.Commit{}, Gate: tx.keyspaces}})
		}
		r := &pieces[i].request
		return r, r.Command.(*command.Commit)
	}
	k := tx.writes[0].at.k // for places: only the position counts
	for key, version := range tx.reads {
		_, c := of(keyRef{k, partition.Position(key)})
		c.Reads = append(c.Reads, command.Read{Key: partition.Position(key), Version: version})
	}
	for _, r := range tx.rangeReads {
		_, c := of(keyRef{k, r.Start})
		c.Ranges = append(c.Ranges, r)
	}
	for _, w := range tx.writes {
		r, c := of(w.at)
		r.Key = w.at.p
		c.Writes.Commands = append(c.Writes.Commands, w.command)
	}
	return pieces
}

// splitByParticipant are what the transaction has read and written by what commits as one.
func (tx *Txn) splitByParticipant() ([]txn.Participant, error) {
	m := tx.db.node.Map()
	ranges, err := tx.splitRanges(m)
	if err != nil {
		return nil, err
	}
	parts := protocol.NewParticipants(m, ranges)
	for key, version := range tx.reads {
		part := parts.ParticipantAt(partition.Position(key))
		part.Reads = append(part.Reads, command.Read{Key: partition.Position(key), Version: version})
	}
	for _, w := range tx.writes {
		part := parts.ParticipantAt(w.at.p)
		part.Writes = append(part.Writes, w.command)
	}
	return parts.Sorted(), nil
}

// spansToReserve are what the transaction has touched.
func (tx *Txn) spansToReserve() (spans []txn.ReservedSpan) {
	for key := range tx.reads {
		spans = append(spans, txn.ReservedSpan{Span: txn.KeySpan(partition.Position(key))})
	}
	for _, r := range tx.rangeReads {
		spans = append(spans, txn.ReservedSpan{Span: partition.Span{Start: r.Start, End: r.End}})
	}
	for _, w := range tx.writes {
		spans = append(spans, txn.ReservedSpan{Span: txn.KeySpan(w.at.p), Write: true})
	}
	return spans
}
