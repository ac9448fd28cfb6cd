package engine

import (
	"context"
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

// Batch is a list of writes of several keys and keyspaces that [DB.Write] executes in one step: in
// order, and all of them or none. It belongs to one goroutine at a time.
type Batch struct {
	// Request makes a retry of Write harmless, if it is not zero.
	Request group.RequestID

	commands  []command.Command
	keys      []keyRef         // of the commands
	keyspaces writtenKeyspaces // that the keys are in
	bytes     int              // at least so many are written
}

// writtenKeyspaces are keyspaces that must all be there, without an index to maintain.
type writtenKeyspaces []*node.Keyspace

// CheckOpen implements [group.Gate].
func (g writtenKeyspaces) CheckOpen() error {
	for _, space := range g {
		if err := space.CheckWrite(nil); err != nil {
			return err
		}
	}
	return nil
}

// Len is the number of writes.
func (b *Batch) Len() int { return len(b.commands) }

// Reset empties the batch for the next use. It keeps its memory.
func (b *Batch) Reset() {
	clear(b.commands)
	clear(b.keys)
	clear(b.keyspaces)
	*b = Batch{commands: b.commands[:0], keys: b.keys[:0], keyspaces: b.keyspaces[:0]}
}

// CheckFits refuses a write of so many bytes that cannot be in one transaction with those before it.
func (b *Batch) CheckFits(bytes int) error { return command.CheckTxn(len(b.commands)+1, b.bytes+bytes) }

// Add adds a write of a key, of so many bytes with its position.
func (b *Batch) Add(k *node.Keyspace, p partition.Position, c command.Command, bytes int) {
	b.commands, b.keys = append(b.commands, c), append(b.keys, keyRef{k, p})
	b.bytes += bytes
	if !slices.Contains(b.keyspaces, k) {
		b.keyspaces = append(b.keyspaces, k)
	}
}

// FirstKey names the key of the first write.
func (b *Batch) FirstKey() string { return b.keys[0].String() }

// writeError names the write that cannot be done.
func (b *Batch) writeError(n int, err error) error {
	return &BatchWriteError{Index: n, Key: b.keys[n].String(), Err: err}
}

// Write executes a batch that is not empty: when it returns nil, all of its writes have taken effect
// at one instant. On an error that does not mean an unknown outcome none has. A [WriteError] has the
// write that could not be done.
func (db *DB) Write(ctx context.Context, b *Batch) error {
	began := time.Now()
	err := b.writeUnindexed(ctx, db)
	if errors.Is(err, node.ErrIndexesChanged) {
		err = b.writeIndexed(ctx, db)
	}
	db.recordWrites(b.Len(), err != nil, began, func(i int) (partition.Position, command.Command) { return b.keys[i].p, b.commands[i] })
	return err
}

// writeUnindexed executes the batch if its keyspaces have no index to maintain.
func (b *Batch) writeUnindexed(ctx context.Context, db *DB) error {
	for _, space := range b.keyspaces {
		if space.Indexes() != nil {
			return node.ErrIndexesChanged // it would get this error in its turn
		}
	}
	if err := db.waitForTurn(ctx, b.positions); err != nil {
		return err
	}
	var numbers [][]int
	_, err := db.executeJoint(ctx, func() (pieces []subBatch) {
		pieces, numbers = b.splitByGroup(db)
		return pieces
	}, func(i int, err error) error {
		if at := (*command.WriteError)(nil); errors.As(err, &at) {
			n := numbers[i][at.Index]
			return b.writeError(n, at.Err)
		}
		return err
	})
	if errors.Is(err, errCrossStore) {
		err = b.writeTwoPhase(ctx, db)
	}
	return err
}

// positions are those of the writes.
func (b *Batch) positions(yield func(partition.Position) bool) {
	for _, at := range b.keys {
		if !yield(at.p) {
			return
		}
	}
}

// writeTwoPhase executes the batch in two phases.
func (b *Batch) writeTwoPhase(ctx context.Context, db *DB) error {
	_, err := db.retryUntilCommitted(ctx, b.spansToReserve, func(_ int, reservation txn.ID) error { return b.tryTwoPhase(ctx, db, reservation) })
	if errors.Is(err, errRetry) {
		return ctx.Err()
	}
	return err
}

// tryTwoPhase tries once.
func (b *Batch) tryTwoPhase(ctx context.Context, db *DB, reservation txn.ID) error {
	db.node.Counters.TwoPhase.Add(1)
	err := db.node.Commit(ctx, node.Transaction{Participants: b.splitByParticipant(db), Gate: b.keyspaces, Reservation: reservation})
	at := (*command.WriteError)(nil)
	switch {
	case errors.Is(err, group.ErrDuplicateRequest):
		return nil
	case errors.Is(err, node.ErrIndexesChanged):
		return err // it cannot be written like that
	case errors.As(err, &at):
		// The part with the record is evaluated last, if at all.
		if done, err := b.wasExecuted(ctx, db); done || err != nil {
			return err
		}
		return b.writeError(at.Index, at.Err)
	case isRetryable(err), errors.Is(err, command.ErrConflict):
		return fmt.Errorf("%w: %w", errRetry, err)
	}
	return err
}

// spansToReserve are what the batch writes.
func (b *Batch) spansToReserve() []txn.ReservedSpan {
	spans := make([]txn.ReservedSpan, len(b.keys))
	for i, at := range b.keys {
		spans[i] = txn.ReservedSpan{Span: txn.KeySpan(at.p), Write: true}
	}
	return spans
}

// dedupRequest is what the record of the batch is kept by.
func (b *Batch) dedupRequest() group.Request {
	return group.Request{Key: b.keys[0].p, ID: b.Request}
}

// wasExecuted reports whether the batch was executed before.
func (b *Batch) wasExecuted(ctx context.Context, db *DB) (done bool, err error) {
	if b.Request == (group.RequestID{}) {
		return false, nil
	}
	err = db.routeToGroup(ctx, b.keys[0].p, func(part *node.GroupHost) error {
		reply, err := part.Group.Execute(ctx, group.Request{Command: &group.LookupRecord{Request: b.dedupRequest()}})
		done = reply.Int == 1
		return errors.Join(group.AsReadError(ctx, err), reply.Err)
	})
	return done, err
}

// splitByParticipant are the writes by what commits as one.
func (b *Batch) splitByParticipant(db *DB) []txn.Participant {
	parts := protocol.NewParticipants(db.node.Map(), nil)
	if b.Request != (group.RequestID{}) {
		first := parts.ParticipantAt(b.keys[0].p)
		first.Writes = append(first.Writes, &group.RecordRequest{Request: b.dedupRequest(), Remember: db.node.Remember()})
	}
	for n, at := range b.keys {
		part := parts.ParticipantAt(at.p)
		part.Writes = append(part.Writes, &batchWrite{n, len(b.commands), b.commands[n]})
	}
	return parts.Sorted()
}

// batchWrite is a write of a batch that is divided.
type batchWrite struct {
	index, total int
	command      command.Command
}

// Eval evaluates the write. If it fails it says which one it was.
func (c *batchWrite) Eval(e *command.Env) command.Reply {
	reply := e.Do(c.command)
	err := reply.Err
	if err == nil && reply.Kind == command.Nil {
		err = command.ErrNotStored
	}
	if err != nil {
		return command.Reply{Kind: command.Failed, Err: &command.WriteError{Index: c.index, Of: c.total, Err: err}}
	}
	return reply
}

// splitByGroup are the writes by the groups that have their keys, and which of all writes
// each has.
func (b *Batch) splitByGroup(db *DB) (pieces []subBatch, numbers [][]int) {
	for n, at := range b.keys {
		part := db.node.GroupHostAt(at.p)
		i := slices.IndexFunc(pieces, func(p subBatch) bool { return p.groupHost == part })
		if i < 0 {
			i = len(pieces)
			r := group.Request{Command: &command.Write{}, Key: at.p, Gate: b.keyspaces}
			if i == 0 {
				r.ID = b.Request
			}
			pieces, numbers = append(pieces, subBatch{part, r}), append(numbers, nil)
		}
		w := pieces[i].request.Command.(*command.Write)
		w.Commands, numbers[i] = append(w.Commands, b.commands[n]), append(numbers[i], n)
	}
	return pieces, numbers
}

// writeIndexed executes a batch of which a keyspace has indexes.
func (b *Batch) writeIndexed(ctx context.Context, db *DB) error {
	if done, err := b.wasExecuted(ctx, db); done || err != nil {
		return err
	}
	_, err := db.runUpdate(ctx, patientTurn, func(tx *Txn) error {
		for n, at := range b.keys {
			if err := b.writeInTxn(tx, n, at); err != nil {
				if errors.Is(err, errRetry) {
					return err
				}
				return b.writeError(n, err)
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, group.ErrDuplicateRequest):
		return nil
	case errors.Is(err, errRetry):
		return ctx.Err()
	case err != nil && !isUnknown(err):
		// The same batch may have been executed meanwhile: see executeIndexed.
		if done, err := b.wasExecuted(ctx, db); done || err != nil {
			return err
		}
	}
	return err
}

// writeInTxn adds a write of the batch to a transaction.
func (b *Batch) writeInTxn(tx *Txn, n int, at keyRef) error {
	if err := tx.locate(at.k, at.p, writeRow); err != nil {
		return err
	}
	if n == 0 && b.Request != (group.RequestID{}) {
		tx.writes = append(tx.writes, txnWrite{at, &group.RecordRequest{Request: b.dedupRequest(), Remember: tx.db.node.Remember()}})
	}
	if c, ok := b.commands[n].(*command.Set); ok && c.Condition == command.IfVersion && c.Version >= FirstTxnVersion {
		return command.ErrConflict // no key has it, but what the transaction wrote looks as if it had
	}
	reply, err := tx.evalWrite(at, b.commands[n], true, nil)
	if err == nil && reply.Kind == command.Nil {
		err = command.ErrNotStored
	}
	return err
}

// subBatch is what a write of several keys does in one group.
type subBatch struct {
	groupHost *node.GroupHost
	request   group.Request
}

// executeJoint executes pieces of one store as one, whatever their number. cut is called
// for each attempt: which groups have the keys may have changed. The reply that
// failed is handed to classify with its piece; without one, all of them succeeded. If
// they are on several stores the error is errCrossStore.
func (db *DB) executeJoint(ctx context.Context, cut func() []subBatch, classify func(i int, err error) error) ([]command.Reply, error) {
	for attempt := 0; ; attempt++ {
		version := db.node.Map().Version()
		pieces := cut()
		if !isSingleStore(pieces) {
			return nil, errCrossStore
		}
		db.countCommit(len(pieces))
		replies, err := executeJointOnce(ctx, pieces)
		for i := range replies {
			if err == nil && replies[i].Err != nil {
				err = replies[i].Err
				if !errors.Is(err, ownership.ErrWrongGroup) {
					return replies, classify(i, err)
				}
			}
		}
		if !errors.Is(err, ownership.ErrWrongGroup) {
			return replies, err
		}
		if err := db.node.WaitForNewMap(ctx, version, attempt); err != nil {
			return nil, err
		}
	}
}

// errCrossStore means that keys are on several stores, so that it takes two phases.
var errCrossStore = errors.New("engine: the keys are on several stores")

// isSingleStore reports whether all pieces are on one store.
func isSingleStore(pieces []subBatch) bool {
	return !slices.ContainsFunc(pieces, func(p subBatch) bool { return p.groupHost.Host != pieces[0].groupHost.Host })
}

// executeJointOnce executes pieces of one store once.
func executeJointOnce(ctx context.Context, pieces []subBatch) ([]command.Reply, error) {
	if len(pieces) == 1 {
		reply, err := pieces[0].groupHost.Group.Execute(ctx, pieces[0].request)
		return []command.Reply{reply}, err
	}
	joint := make([]group.SubRequest, len(pieces))
	for i, p := range pieces {
		joint[i] = group.SubRequest{Group: p.groupHost.Group, Request: p.request}
	}
	return group.ExecuteJoint(ctx, joint)
}

// countCommit counts a transaction by how many groups of one store commit it.
func (db *DB) countCommit(groups int) {
	if groups == 1 {
		db.node.Counters.OneGroup.Add(1)
	} else {
		db.node.Counters.Joint.Add(1)
	}
}
