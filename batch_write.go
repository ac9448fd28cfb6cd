package cleave

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/drive"
	"github.com/cleavekv/cleave/internal/group"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/txn"
)

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
	err := b.writePlain(ctx, db)
	if errors.Is(err, node.ErrIndexes) {
		err = b.writeIndexed(ctx, db)
	}
	// Who leaves early may leave a part of it in a queue, also if it is known not to
	// be committed.
	b.lent = b.lent || ctx.Err() != nil || errors.Is(err, group.ErrUnknown)
	return public(err)
}

// writePlain executes the batch if its keyspaces have no index to maintain.
func (b *Batch) writePlain(ctx context.Context, db *DB) error {
	for _, space := range b.spaces {
		if space.Indexes() != nil {
			return node.ErrIndexes // it would be told so in its turn
		}
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
	return err
}

// writeApart executes the batch in two phases.
func (b *Batch) writeApart(ctx context.Context, db *DB) error {
	_, err := db.untilCommitted(ctx, b.claims, func(_ int, hold txn.ID) error { return b.tryApart(ctx, db, hold) })
	if errors.Is(err, errRetry) {
		return ctx.Err()
	}
	return err
}

// tryApart tries once.
func (b *Batch) tryApart(ctx context.Context, db *DB, hold txn.ID) error {
	db.node.Count.TwoPhase.Add(1)
	err := db.node.Commit(ctx, node.Transaction{Parts: b.parts(db), Gate: b.spaces, Hold: hold})
	at := (*command.WriteError)(nil)
	switch {
	case errors.Is(err, group.ErrRepeated):
		return nil
	case errors.Is(err, node.ErrIndexes):
		return err // it cannot be written like that
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
		return errors.Join(group.Untouched(ctx, err), reply.Err)
	})
	return done, err
}

// parts are the writes by what commits as one.
func (b *Batch) parts(db *DB) []txn.Part {
	parts := drive.NewParts(db.node.Map(), nil)
	if b.Request != (RequestID{}) {
		first := parts.Of(b.places[0].p)
		first.Writes = append(first.Writes, &group.Once{Request: b.request(), Remember: db.node.Remember()})
	}
	for n, at := range b.places {
		part := parts.Of(at.p)
		part.Writes = append(part.Writes, &batchWrite{n, len(b.commands), b.commands[n]})
	}
	return parts.Sorted()
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
