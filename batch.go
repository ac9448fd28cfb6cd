package cleave

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/txn"
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

	commands []command.Command
	places   []place // of the commands
	spaces   gates   // that the keys are in
	rows     int     // at least so many are written
	bytes    int     // and so many bytes
	err      error

	room []byte // what commands point to
	key  []byte // scratch: a position
	// lent means that a Write was left before it was answered: it may still
	// look at the commands and what they point to.
	lent bool
}

// gates are keyspaces that must all be there.
type gates []*node.Space

// Check implements [group.Gate].
func (g gates) Check() error {
	for _, space := range g {
		if err := space.Check(); err != nil {
			return err
		}
	}
	return nil
}

// Write executes the batch: when it returns nil, all of its writes have taken
// effect at one instant; on an error that does not match [ErrUnknown], none has.
// The error names the write that could not be done: ErrWrongType, say, or
// ErrNotStored and ErrConflict for a SetWith whose condition does not hold. The
// batch stays as it is, to be written again or Reset.
func (db *DB) Write(ctx context.Context, b *Batch) error {
	switch {
	case b == nil:
		return optionError("no batch: use an empty one")
	case b.err != nil:
		return b.err
	case b.Len() == 0:
		return ctx.Err()
	case b.places[0].k.db != db:
		return optionError("%v is of another DB than the one that writes", b.places[0])
	}
	var numbers [][]int
	_, err := db.together(ctx, func() (pieces []piece) {
		pieces, numbers = b.pieces()
		return pieces
	}, func(i int, err error) error {
		if at := (*command.WriteError)(nil); errors.As(err, &at) {
			n := numbers[i][at.Index]
			return writeError(n, b.places[n].String(), at.Err)
		}
		return public(err)
	})
	if errors.Is(err, errApart) {
		err = b.writeApart(ctx, db)
	}
	// Who leaves early may leave a part of it in a queue, also if it is known not to
	// be committed.
	b.lent = b.lent || ctx.Err() != nil || errors.Is(err, group.ErrUnknown)
	return public(err)
}

// writeApart executes the batch in two phases.
func (b *Batch) writeApart(ctx context.Context, db *DB) error {
	for attempt := 0; ; attempt++ {
		var err error
		if attempt < patientAttempts {
			err = b.tryApart(ctx, db, txn.ID{})
		} else {
			err = db.holding(ctx, b.claims(), func(id txn.ID) error { return b.tryApart(ctx, db, id) })
		}
		if !errors.Is(err, errRetry) {
			return err
		}
		db.node.Count.Retries.Add(1)
		if err := db.pause(ctx, attempt, err); err != nil {
			return err
		}
		if errors.Is(err, txn.ErrHeld) {
			attempt = max(attempt, patientAttempts-1)
		}
	}
}

// tryApart tries once.
func (b *Batch) tryApart(ctx context.Context, db *DB, hold txn.ID) error {
	db.node.Count.TwoPhase.Add(1)
	err := db.node.Commit(ctx, node.Transaction{Parts: b.parts(db), Gate: b.spaces, Hold: hold})
	at := (*command.WriteError)(nil)
	switch {
	case errors.Is(err, group.ErrRepeated):
		return nil
	case errors.As(err, &at):
		// The part with the record is evaluated last, if at all.
		if done, err := b.recalled(ctx, db); done || err != nil {
			return err
		}
		return writeError(at.Index, b.places[at.Index].String(), at.Err)
	case passes(err), errors.Is(err, command.ErrConflict):
		return fmt.Errorf("%w: %w", errRetry, err)
	}
	return err
}

// claims are what the batch writes.
func (b *Batch) claims() []txn.Claim {
	claims := make([]txn.Claim, len(b.places))
	for i, at := range b.places {
		claims[i] = txn.Claim{Span: txn.KeySpan(at.p), Write: true}
	}
	return claims
}

// request is what the record of the batch is kept by.
func (b *Batch) request() group.Request {
	return group.Request{Key: b.places[0].p, ID: group.RequestID(b.Request)}
}

// recalled tells whether the batch was executed before.
func (b *Batch) recalled(ctx context.Context, db *DB) (done bool, err error) {
	if b.Request == (RequestID{}) {
		return false, nil
	}
	err = db.routed(ctx, b.places[0].p, func(part *node.Part) error {
		reply, err := part.Group.Do(ctx, group.Request{Command: &group.Recall{Request: b.request()}})
		done = reply.Int == 1
		return errors.Join(err, reply.Err)
	})
	return done, err
}

// parts are the writes by the shards that have their keys.
func (b *Batch) parts(db *DB) []txn.Part {
	parts := newParts(db)
	if b.Request != (RequestID{}) {
		first := parts.of(b.places[0].p)
		first.Writes = append(first.Writes, &group.Once{Request: b.request(), Remember: db.node.Remember()})
	}
	for n, at := range b.places {
		part := parts.of(at.p)
		part.Writes = append(part.Writes, &batchWrite{n, len(b.commands), b.commands[n]})
	}
	return parts.sorted()
}

// batchWrite is a write of a batch that is divided.
type batchWrite struct {
	index, of int
	command   command.Command
}

// Eval evaluates the write. If it fails it says which one it was.
func (c *batchWrite) Eval(e *command.Env) command.Reply {
	reply := e.Do(c.command)
	err := reply.Err
	if err == nil && reply.Kind == command.Nil {
		err = command.ErrNotStored
	}
	if err != nil {
		return command.Reply{Kind: command.Failed, Err: &command.WriteError{Index: c.index, Of: c.of, Err: err}}
	}
	return reply
}

// pieces are the writes by the groups that have their keys, and which of all writes
// each has.
func (b *Batch) pieces() (pieces []piece, numbers [][]int) {
	for n, at := range b.places {
		part := at.part()
		i := slices.IndexFunc(pieces, func(p piece) bool { return p.part == part })
		if i < 0 {
			i = len(pieces)
			r := group.Request{Command: &command.Write{}, Key: at.p, Gate: b.spaces}
			if i == 0 {
				r.ID = group.RequestID(b.Request)
			}
			pieces, numbers = append(pieces, piece{part, at, r}), append(numbers, nil)
		}
		w := pieces[i].request.Command.(*command.Write)
		w.Commands, numbers[i] = append(w.Commands, b.commands[n]), append(numbers[i], n)
	}
	return pieces, numbers
}

// Len is the number of writes; a Delete of several keys counts for each.
func (b *Batch) Len() int { return len(b.commands) }

// Err returns why the batch cannot be written, or nil: the first write that was
// refused, which the text names. Those after it were not added.
func (b *Batch) Err() error { return b.err }

// Reset empties the batch for the next use. It keeps its memory.
func (b *Batch) Reset() {
	if b.lent {
		*b = Batch{}
		return
	}
	clear(b.commands)
	clear(b.places)
	clear(b.spaces)
	if cap(b.room) > maxRoom {
		b.room = nil
	}
	*b = Batch{commands: b.commands[:0], places: b.places[:0], spaces: b.spaces[:0], room: b.room[:0], key: b.key[:0]}
}

// Set stores a value.
func (b *Batch) Set(k *Keyspace, key, value []byte) { b.SetWith(k, key, value, SetOptions{}) }

// SetWith stores a value under conditions. One that does not hold makes the
// whole batch fail. The request id is that of the batch: leave out the one of o.
func (b *Batch) SetWith(k *Keyspace, key, value []byte, o SetOptions) {
	if o.Request != (RequestID{}) {
		b.refuse(k, key, optionError("a write of a batch has no request of its own: set Batch.Request"))
		return
	}
	b.add(k, key, 1, len(value), command.CheckValue(value), func(p partition.Position) (command.Command, error) {
		return o.command(p, b.keep(value))
	})
}

// Delete deletes keys, those that there are.
func (b *Batch) Delete(k *Keyspace, keys ...[]byte) {
	for _, key := range keys {
		b.add(k, key, 1, 0, nil, func(p partition.Position) (command.Command, error) {
			return &command.Delete{Keys: []partition.Position{p}}, nil
		})
	}
}

// Add adds delta to the decimal number that the key holds, 0 if it is absent.
func (b *Batch) Add(k *Keyspace, key []byte, delta int64) {
	b.add(k, key, 1, 0, nil, func(p partition.Position) (command.Command, error) {
		return &command.Add{Key: p, Delta: delta}, nil
	})
}

// Expire makes a key, if there is one, expire after a time. A time that is not
// positive deletes it.
func (b *Batch) Expire(k *Keyspace, key []byte, after time.Duration) {
	b.add(k, key, 1, 0, nil, func(p partition.Position) (command.Command, error) {
		return &command.Expire{Key: p, Expiry: command.In(ceilMS(after))}, nil
	})
}

// Persist makes a key, if there is one, live for ever.
func (b *Batch) Persist(k *Keyspace, key []byte) {
	b.add(k, key, 1, 0, nil, func(p partition.Position) (command.Command, error) {
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
	b.add(k, key, 1+len(fields), size, err, func(p partition.Position) (command.Command, error) {
		return hsetCommand(p, fields, b.keep), nil
	})
}

// HDel removes fields of the hash at key, those that there are.
func (b *Batch) HDel(k *Keyspace, key []byte, names ...[]byte) {
	size, err := 0, command.CheckFields(len(names))
	for _, name := range names {
		size += len(name)
		err = errors.Join(err, command.CheckField(name))
	}
	b.add(k, key, 1, size, err, func(p partition.Position) (command.Command, error) {
		return hdelCommand(p, names, b.keep), nil
	})
}

// HAdd adds delta to the decimal number in a field of the hash at key.
func (b *Batch) HAdd(k *Keyspace, key, name []byte, delta int64) {
	b.add(k, key, 2, len(name), command.CheckField(name), func(p partition.Position) (command.Command, error) {
		return &command.HIncrBy{Key: p, Field: b.keep(name), Delta: delta}, nil
	})
}

// add adds a write of at least so many rows and bytes besides its key, unless
// something is wrong with it.
func (b *Batch) add(k *Keyspace, key []byte, rows, bytes int, bad error, c func(partition.Position) (command.Command, error)) {
	if b.err != nil {
		return
	}
	p, err := k.position(b.key[:0], key)
	if err == nil {
		err = bad
	}
	if err == nil {
		b.key = p
		p = b.keep(p)
		err = b.fits(place{k, p}, rows, bytes+len(p))
	}
	if err != nil {
		b.refuse(k, key, err)
		return
	}
	cmd, err := c(p)
	if err != nil {
		b.refuse(k, key, err)
		return
	}
	b.commands, b.places = append(b.commands, cmd), append(b.places, place{k, p})
	b.rows, b.bytes = b.rows+rows, b.bytes+bytes+len(p)
	if !slices.Contains(b.spaces, k.space) {
		b.spaces = append(b.spaces, k.space)
	}
}

// fits refuses a write that cannot be in one transaction with those before it.
func (b *Batch) fits(at place, rows, bytes int) error {
	if err := command.CheckTxn(b.rows+rows, b.bytes+bytes); err != nil {
		return err
	}
	if len(b.places) == 0 {
		return nil
	}
	switch first := b.places[0]; {
	case first.k.db != at.k.db:
		return optionError("it is of another DB than %v", first)
	}
	return nil
}

// refuse keeps the first error.
func (b *Batch) refuse(k *Keyspace, key []byte, err error) {
	if b.err == nil {
		b.err = writeError(len(b.commands), keyName(k, key), err)
	}
}

// writeError says which write of a batch cannot be done.
func writeError(index int, key string, err error) error {
	return fmt.Errorf("write %d, %s: %w", index+1, key, public(err))
}

const (
	minRoom = 1 << 10
	maxRoom = 1 << 20
)

// keep copies bytes into the memory of the batch, which never moves: when it is
// full there is more elsewhere.
func (b *Batch) keep(p []byte) []byte {
	if cap(b.room)-len(b.room) < len(p) {
		b.room = make([]byte, 0, max(len(p), min(2*cap(b.room), maxRoom), minRoom))
	}
	n := len(b.room)
	b.room = append(b.room, p...)
	return b.room[n:len(b.room):len(b.room)]
}
