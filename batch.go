package cleave

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
	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/partition"
)

// Batch is a list of writes, of several keys and keyspaces, that [DB.Write]
// executes in one step: in order, and all of them or none. The zero value is
// empty. It reads nothing and so meets no conflicts; for writes that depend on
// what was read, or to hear what Add makes, use [DB.Update].
//
// Its methods copy the bytes they are given. They do not return errors: the
// first one is kept, see [Batch.Err], and Write returns it. A Batch belongs to
// one goroutine at a time and must not be copied.
type Batch struct {
	// Request makes a retry of Write harmless, as SetOptions.Request does of a
	// Set. Reset clears it: what is written next is another request.
	Request RequestID

	commands  []command.Command
	keys      []keyRef         // of the commands
	keyspaces writtenKeyspaces // that the keys are in
	rows      int              // at least so many are written
	bytes     int              // and so many bytes
	err       error

	buf     []byte // what commands point to
	scratch []byte // scratch: a position
	// abandoned means that a Write was left before it was answered: it may still
	// look at the commands and what they point to.
	abandoned bool
}

// writtenKeyspaces are keyspaces that must all be there, without an index to maintain.
type writtenKeyspaces []*node.Keyspace

// CheckAddr implements [group.Gate].
func (g writtenKeyspaces) CheckAddr() error {
	for _, space := range g {
		if err := space.CheckWrite(nil); err != nil {
			return err
		}
	}
	return nil
}

// Len is the number of writes; a Delete of several keys counts for each.
func (b *Batch) Len() int { return len(b.commands) }

// Err returns why the batch cannot be written, or nil: the first write that was
// refused, which the text names. Those after it were not added.
func (b *Batch) Err() error { return b.err }

// Reset empties the batch for the next use. It keeps its memory.
func (b *Batch) Reset() {
	if b.abandoned {
		*b = Batch{}
		return
	}
	clear(b.commands)
	clear(b.keys)
	clear(b.keyspaces)
	if cap(b.buf) > maxBatchBufBytes {
		b.buf = nil
	}
	*b = Batch{commands: b.commands[:0], keys: b.keys[:0], keyspaces: b.keyspaces[:0], buf: b.buf[:0], scratch: b.scratch[:0]}
}

var errBatchRequest = optionErrorf("a write of a batch has no request of its own: set Batch.Request")

// Set stores a value.
func (b *Batch) Set(k *Keyspace, key, value []byte) { b.SetWith(k, key, value, SetOptions{}) }

// SetWith stores a value under conditions. One that does not hold makes the
// whole batch fail. The request id is that of the batch: leave out the one of o.
func (b *Batch) SetWith(k *Keyspace, key, value []byte, o SetOptions) {
	if o.Request != (RequestID{}) {
		b.recordError(k, key, errBatchRequest)
		return
	}
	b.appendWrite(k, key, 1, len(value), command.CheckValue(value), func(p partition.Position) (command.Command, error) {
		return o.toCommand(p, b.copyBytes(value))
	})
}

// Delete deletes keys, those that there are.
func (b *Batch) Delete(k *Keyspace, keys ...[]byte) {
	for _, key := range keys {
		b.appendWrite(k, key, 1, 0, nil, func(p partition.Position) (command.Command, error) {
			return &command.Delete{Keys: []partition.Position{p}}, nil
		})
	}
}

// Add adds delta to the decimal number that the key holds, 0 if it is absent.
func (b *Batch) Add(k *Keyspace, key []byte, delta int64) { b.AddWith(k, key, delta, AddOptions{}) }

// AddWith is Add under conditions. One that does not hold makes the whole batch
// fail. The request id is that of the batch: leave out the one of o.
func (b *Batch) AddWith(k *Keyspace, key []byte, delta int64, o AddOptions) {
	if o.Request != (RequestID{}) {
		b.recordError(k, key, errBatchRequest)
		return
	}
	b.appendWrite(k, key, 1, 0, nil, func(p partition.Position) (command.Command, error) {
		return &command.Add{Key: p, Delta: delta, IfPresent: o.IfPresent}, nil
	})
}

// Expire makes a key, if there is one, expire after a time. A time that is not
// positive deletes it.
func (b *Batch) Expire(k *Keyspace, key []byte, after time.Duration) {
	b.appendWrite(k, key, 1, 0, nil, func(p partition.Position) (command.Command, error) {
		return &command.Expire{Key: p, Expiry: command.ExpireIn(ceilMS(after))}, nil
	})
}

// Persist makes a key, if there is one, live for ever.
func (b *Batch) Persist(k *Keyspace, key []byte) {
	b.appendWrite(k, key, 1, 0, nil, func(p partition.Position) (command.Command, error) {
		return &command.Persist{Key: p}, nil
	})
}

// HSet sets fields of the hash at key, which it makes if there is none.
func (b *Batch) HSet(k *Keyspace, key []byte, fields ...Field) {
	size, err := 0, command.CheckFields(len(fields))
	for _, f := range fields {
		size += len(f.Name) + len(f.Value)
		err = errors.Join(err, command.CheckField(f.Name), command.CheckValue(f.Value))
	}
	b.appendWrite(k, key, 1, size, err, func(p partition.Position) (command.Command, error) {
		return newHSetCommand(p, fields, b.copyBytes), nil
	})
}

// HDel removes fields of the hash at key, those that there are.
func (b *Batch) HDel(k *Keyspace, key []byte, names ...[]byte) {
	size, err := 0, command.CheckFields(len(names))
	for _, name := range names {
		size += len(name)
		err = errors.Join(err, command.CheckField(name))
	}
	b.appendWrite(k, key, 1, size, err, func(p partition.Position) (command.Command, error) {
		return newHDelCommand(p, names, b.copyBytes), nil
	})
}

// HAdd adds delta to the decimal number in a field of the hash at key.
func (b *Batch) HAdd(k *Keyspace, key, name []byte, delta int64) {
	b.appendWrite(k, key, 1, len(name), command.CheckField(name), func(p partition.Position) (command.Command, error) {
		return &command.HIncrBy{Key: p, Field: b.copyBytes(name), Delta: delta}, nil
	})
}

// appendWrite adds a write of at least so many keys and bytes besides its key, unless
// something is wrong with it.
func (b *Batch) appendWrite(k *Keyspace, key []byte, rows, bytes int, bad error, c func(partition.Position) (command.Command, error)) {
	if b.err != nil {
		return
	}
	p, err := k.appendPosition(b.scratch[:0], key)
	if err == nil {
		err = bad
	}
	if err == nil {
		err = k.checkWritable()
	}
	if err == nil {
		b.scratch = p
		p = b.copyBytes(p)
		err = b.checkFits(keyRef{k, p}, rows, bytes+len(p))
	}
	if err != nil {
		b.recordError(k, key, err)
		return
	}
	cmd, err := c(p)
	if err != nil {
		b.recordError(k, key, err)
		return
	}
	b.commands, b.keys = append(b.commands, cmd), append(b.keys, keyRef{k, p})
	b.rows, b.bytes = b.rows+rows, b.bytes+bytes+len(p)
	if !slices.Contains(b.keyspaces, k.keyspace) {
		b.keyspaces = append(b.keyspaces, k.keyspace)
	}
}

// checkFits refuses a write that cannot be in one transaction with those before it.
func (b *Batch) checkFits(at keyRef, rows, bytes int) error {
	if err := command.CheckTxn(b.rows+rows, b.bytes+bytes); err != nil {
		return err
	}
	if len(b.keys) == 0 {
		return nil
	}
	if first := b.keys[0]; first.k.db != at.k.db {
		return optionErrorf("it is of another DB than %v: use a batch for each", first)
	}
	return nil
}

// recordError keeps the first error.
func (b *Batch) recordError(k *Keyspace, key []byte, err error) {
	if b.err == nil {
		b.err = batchWriteError(len(b.commands), formatKey(k, key), err)
	}
}

// batchWriteError says which write of a batch cannot be done.
func batchWriteError(index int, key string, err error) error {
	return fmt.Errorf("write %d, %s: %w", index+1, key, toPublicError(err))
}

const (
	minBatchBufBytes = 1 << 10
	maxBatchBufBytes = 1 << 20
)

// copyBytes copies bytes into the memory of the batch, which never moves: when it is
// full there is more elsewhere.
func (b *Batch) copyBytes(p []byte) []byte {
	if cap(b.buf)-len(b.buf) < len(p) {
		b.buf = make([]byte, 0, max(len(p), min(2*cap(b.buf), maxBatchBufBytes), minBatchBufBytes))
	}
	n := len(b.buf)
	b.buf = append(b.buf, p...)
	return b.buf[n:len(b.buf):len(b.buf)]
}

// Write executes the batch: when it returns nil, all of its writes have taken
// effect at one instant; on an error that does not match [ErrUnknown], none has.
// The error names the write that could not be done: ErrWrongType, say, or
// ErrNotStored and ErrConflict for a SetWith whose condition does not hold. The
// batch stays as it is, to be written again or Reset.
func (db *DB) Write(ctx context.Context, b *Batch) error {
	switch {
	case b == nil:
		return optionErrorf("no batch: use an empty one")
	case b.err != nil:
		return b.err
	case b.Len() == 0:
		return ctx.Err()
	case b.keys[0].k.db != db:
		return optionErrorf("%v is of another DB than the one that writes", b.keys[0])
	}
	err := b.writeUnindexed(ctx, db)
	if errors.Is(err, node.ErrIndexesChanged) {
		err = b.writeIndexed(ctx, db)
	}
	// Who leaves early may leave a part of it in a queue, also if it is known not to
	// be committed.
	b.abandoned = b.abandoned || ctx.Err() != nil || errors.Is(err, group.ErrUnknown)
	return toPublicError(err)
}

// writeUnindexed executes the batch if its keyspaces have no index to maintain.
func (b *Batch) writeUnindexed(ctx context.Context, db *DB) error {
	for _, space := range b.keyspaces {
		if space.Indexes() != nil {
			return node.ErrIndexesChanged // it would be told so in its turn
		}
	}
	var numbers [][]int
	_, err := db.executeJoint(ctx, func() (pieces []subBatch) {
		pieces, numbers = b.splitByGroup()
		return pieces
	}, func(i int, err error) error {
		if at := (*command.WriteError)(nil); errors.As(err, &at) {
			n := numbers[i][at.Index]
			return batchWriteError(n, b.keys[n].String(), at.Err)
		}
		return toPublicError(err)
	})
	if errors.Is(err, errCrossStore) {
		err = b.writeTwoPhase(ctx, db)
	}
	return err
}

// writeTwoPhase executes the batch in two phases.
func (b *Batch) writeTwoPhase(ctx context.Context, db *DB) error {
	_, err := db.retryUntilCommitted(ctx, b.spansToReserve, func(_ int, hold txn.ID) error { return b.tryTwoPhase(ctx, db, hold) })
	if errors.Is(err, errRetry) {
		return ctx.Err()
	}
	return err
}

// tryTwoPhase tries once.
func (b *Batch) tryTwoPhase(ctx context.Context, db *DB, hold txn.ID) error {
	db.node.Counters.TwoPhase.Add(1)
	err := db.node.Commit(ctx, node.Transaction{Participants: b.splitByParticipant(db), Gate: b.keyspaces, Reservation: hold})
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
		return batchWriteError(at.Index, b.keys[at.Index].String(), at.Err)
	case isRetryable(err), errors.Is(err, command.ErrConflict):
		return fmt.Errorf("%w: %w", errRetry, err)
	}
	return err
}

// spansToReserve are what the batch writes.
func (b *Batch) spansToReserve() []txn.ReservedSpan {
	claims := make([]txn.ReservedSpan, len(b.keys))
	for i, at := range b.keys {
		claims[i] = txn.ReservedSpan{Span: txn.KeySpan(at.p), Write: true}
	}
	return claims
}

// dedupRequest is what the record of the batch is kept by.
func (b *Batch) dedupRequest() group.Request {
	return group.Request{Key: b.keys[0].p, ID: group.RequestID(b.Request)}
}

// wasExecuted reports whether the batch was executed before.
func (b *Batch) wasExecuted(ctx context.Context, db *DB) (done bool, err error) {
	if b.Request == (RequestID{}) {
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
	if b.Request != (RequestID{}) {
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
func (b *Batch) splitByGroup() (pieces []subBatch, numbers [][]int) {
	for n, at := range b.keys {
		part := at.findGroupHost()
		i := slices.IndexFunc(pieces, func(p subBatch) bool { return p.groupHost == part })
		if i < 0 {
			i = len(pieces)
			r := group.Request{Command: &command.Write{}, Key: at.p, Gate: b.keyspaces}
			if i == 0 {
				r.ID = group.RequestID(b.Request)
			}
			pieces, numbers = append(pieces, subBatch{part, at, r}), append(numbers, nil)
		}
		w := pieces[i].request.Command.(*command.Write)
		w.Commands, numbers[i] = append(w.Commands, b.commands[n]), append(numbers[i], n)
	}
	return pieces, numbers
}
