package cleave

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cleavekv/cleave/internal/engine"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/partition"
)

// Batch is a list of writes, of several keys and keyspaces, that [DB.Write]
// executes in one step: in order, and all of them or none. The zero value is
// empty. It reads nothing and so meets no conflicts; for writes that depend on
// what was read, or to get the result of Add, use [DB.Update].
//
// Its methods copy the bytes they are given. They do not return errors: the
// first one is kept, see [Batch.Err], and Write returns it. A Batch belongs to
// one goroutine at a time and must not be copied.
type Batch struct {
	// Request makes a retry of Write harmless, as SetOptions.Request does of a
	// Set. Reset clears it: what is written next is another request.
	Request RequestID

	writes engine.Batch
	db     *engine.DB // that the keys are in, nil if there are none
	err    error

	buf     []byte // what commands point to
	scratch []byte // scratch: a position
	// abandoned means that a Write was left before it was answered: it may still
	// look at the commands and what they point to.
	abandoned bool
}

// Len is the number of writes; a Delete of several keys counts for each.
func (b *Batch) Len() int { return b.writes.Len() }

// Err returns why the batch cannot be written, or nil: the first write that was
// refused, which the text names. Those after it were not added.
func (b *Batch) Err() error { return b.err }

// Reset empties the batch for the next use. It keeps its memory.
func (b *Batch) Reset() {
	if b.abandoned {
		*b = Batch{}
		return
	}
	if cap(b.buf) > maxBatchBufBytes {
		b.buf = nil
	}
	b.writes.Reset()
	*b = Batch{writes: b.writes, buf: b.buf[:0], scratch: b.scratch[:0]}
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
	b.appendWrite(k, key, len(value), command.CheckValue(value), func(p partition.Position) (command.Command, error) {
		return o.toCommand(p, b.copyBytes(value))
	})
}

// Delete deletes keys, those that there are.
func (b *Batch) Delete(k *Keyspace, keys ...[]byte) {
	for _, key := range keys {
		b.appendWrite(k, key, 0, nil, func(p partition.Position) (command.Command, error) {
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
	b.appendWrite(k, key, 0, nil, func(p partition.Position) (command.Command, error) {
		return &command.Add{Key: p, Delta: delta, IfPresent: o.IfPresent}, nil
	})
}

// Expire makes a key, if there is one, expire after a time. A time that is not
// positive deletes it.
func (b *Batch) Expire(k *Keyspace, key []byte, after time.Duration) {
	b.appendWrite(k, key, 0, nil, func(p partition.Position) (command.Command, error) {
		return &command.Expire{Key: p, Expiry: command.ExpireIn(ceilMS(after))}, nil
	})
}

// Persist makes a key, if there is one, live for ever.
func (b *Batch) Persist(k *Keyspace, key []byte) {
	b.appendWrite(k, key, 0, nil, func(p partition.Position) (command.Command, error) {
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
	b.appendWrite(k, key, size, err, func(p partition.Position) (command.Command, error) {
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
	b.appendWrite(k, key, size, err, func(p partition.Position) (command.Command, error) {
		return newHDelCommand(p, names, b.copyBytes), nil
	})
}

// HAdd adds delta to the decimal number in a field of the hash at key.
func (b *Batch) HAdd(k *Keyspace, key, name []byte, delta int64) {
	b.appendWrite(k, key, len(name), command.CheckField(name), func(p partition.Position) (command.Command, error) {
		return &command.HIncrBy{Key: p, Field: b.copyBytes(name), Delta: delta}, nil
	})
}

// appendWrite adds a write of at least so many bytes besides its key, unless something is wrong with
// it.
func (b *Batch) appendWrite(k *Keyspace, key []byte, bytes int, bad error, c func(partition.Position) (command.Command, error)) {
	if b.err != nil {
		return
	}
	if err := b.tryAppendWrite(k, key, bytes, bad, c); err != nil {
		b.err = batchWriteError(b.Len(), formatKey(k, key), err)
	}
}

func (b *Batch) tryAppendWrite(k *Keyspace, key []byte, bytes int, bad error, c func(partition.Position) (command.Command, error)) error {
	p, err := k.appendPosition(b.scratch[:0], key)
	if err != nil {
		return err
	}
	if bad != nil {
		return bad
	}
	if err := engine.CheckWritable(k.keyspace); err != nil {
		return err
	}
	b.scratch = p
	p = b.copyBytes(p)
	bytes += len(p)
	if err := b.writes.CheckFits(bytes); err != nil {
		return err
	}
	if b.db != nil && b.db != k.db.engine {
		return optionErrorf("it is of another DB than %s: use a batch for each", b.writes.FirstKey())
	}
	cmd, err := c(p)
	if err != nil {
		return err
	}
	b.db = k.db.engine
	b.writes.Add(k.keyspace, p, cmd, bytes)
	return nil
}

// recordError keeps the first error.
func (b *Batch) recordError(k *Keyspace, key []byte, err error) {
	if b.err == nil {
		b.err = batchWriteError(b.Len(), formatKey(k, key), err)
	}
}

// batchWriteError names the write of a batch that cannot be done.
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
	case b.db != db.engine:
		return optionErrorf("%s is of another DB than the one that writes", b.writes.FirstKey())
	}
	b.writes.Request = group.RequestID(b.Request)
	err := db.engine.Write(ctx, &b.writes)
	// A caller that leaves early may leave a part of it in a queue, also if it is known not to be
	// committed.
	b.abandoned = b.abandoned || ctx.Err() != nil || errors.Is(err, group.ErrUnknown)
	var at *engine.BatchWriteError
	if errors.As(err, &at) {
		return batchWriteError(at.Index, at.Key, at.Err)
	}
	return toPublicError(err)
}
