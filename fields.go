package cleave

import (
	"context"
	"errors"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/partition"
)

// Field is a field of a hash with its value.
type Field struct{ Name, Value []byte }

// HSet sets fields of the hash at key, which it makes if there is none, and
// returns how many of them are new.
func (k *Keyspace) HSet(ctx context.Context, key []byte, fields ...Field) (int, error) {
	p, err := k.appendPosition(nil, key)
	if err != nil {
		return 0, err
	}
	reply, err := k.executeCommand(ctx, p, RequestID{}, newHSetCommand(p, fields, func(b []byte) []byte { return cloneIfCancelable(ctx, b) }))
	return int(reply.Int), err
}

// newHSetCommand makes the command, of bytes that own has made its own.
func newHSetCommand(p partition.Position, fields []Field, own func([]byte) []byte) *command.HSet {
	c := &command.HSet{Key: p, Fields: make([]command.FieldValue, len(fields))}
	for i, f := range fields {
		c.Fields[i] = command.FieldValue{Field: own(f.Name), Value: own(f.Value)}
	}
	return c
}

// HDel removes fields and returns how many there were. The last field takes the
// key with it.
func (k *Keyspace) HDel(ctx context.Context, key []byte, names ...[]byte) (int, error) {
	p, err := k.appendPosition(nil, key)
	if err != nil {
		return 0, err
	}
	reply, err := k.executeCommand(ctx, p, RequestID{}, newHDelCommand(p, names, func(b []byte) []byte { return cloneIfCancelable(ctx, b) }))
	return int(reply.Int), err
}

// newHDelCommand makes the command, of bytes that own has made its own.
func newHDelCommand(p partition.Position, names [][]byte, own func([]byte) []byte) *command.HDel {
	c := &command.HDel{Key: p, Fields: make([][]byte, len(names))}
	for i, name := range names {
		c.Fields[i] = own(name)
	}
	return c
}

// HAdd adds delta to the decimal number in a field and returns the sum.
func (k *Keyspace) HAdd(ctx context.Context, key, name []byte, delta int64) (int64, error) {
	p, err := k.appendPosition(nil, key)
	if err != nil {
		return 0, err
	}
	reply, err := k.executeCommand(ctx, p, RequestID{}, &command.HIncrBy{Key: p, Field: cloneIfCancelable(ctx, name), Delta: delta})
	return reply.Int, err
}

// HGet returns the value of a field, or ErrNotFound.
func (k *Keyspace) HGet(ctx context.Context, key, name []byte) ([]byte, error) {
	p, err := k.appendPosition(nil, key)
	if err != nil {
		return nil, err
	}
	reply, err := k.evalReadOnly(ctx, p, &command.HGet{Key: p, Field: cloneIfCancelable(ctx, name)})
	if err == nil && reply.Kind == command.Nil {
		err = ErrNotFound
	}
	return reply.Bytes, err
}

// HLen returns how many fields the hash at key has, 0 if there is none.
func (k *Keyspace) HLen(ctx context.Context, key []byte) (int, error) {
	p, err := k.appendPosition(nil, key)
	if err != nil {
		return 0, err
	}
	reply, err := k.evalReadOnly(ctx, p, &command.HLen{Key: p})
	return int(reply.Int), err
}

// HGetAll returns all fields of the hash at key as of one moment, by name. A
// key that is absent has none.
func (k *Keyspace) HGetAll(ctx context.Context, key []byte) ([]Field, error) {
	p, err := k.appendPosition(nil, key)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	v, now, err := k.db.engine.SnapshotAt(ctx, p)
	if err != nil {
		return nil, toPublicError(err)
	}
	defer v.Close()
	reply, err := k.db.engine.EvalAt(v, now, k.keyspace, p, &command.HGetAll{Key: p})
	return toFields(reply), toPublicError(err)
}

// HScanPage returns the next fields of the hash at key, by name: at most limit, 1000
// if it is 0, from behind the field after, or from the first one if after is nil.
// next is what to give as after for the fields behind them; nil at the end. A
// call sees one moment; two see two, but a field that is there during all of
// them is returned once.
func (k *Keyspace) HScanPage(ctx context.Context, key, after []byte, limit int) (fields []Field, next []byte, err error) {
	p, err := k.appendPosition(nil, key)
	if err != nil {
		return nil, nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	v, now, err := k.db.engine.SnapshotAt(ctx, p)
	if err != nil {
		return nil, nil, toPublicError(err)
	}
	defer v.Close()
	return scanFields(p, after, limit, func(c *command.HScan) (command.Reply, error) {
		reply, err := k.db.engine.EvalAt(v, now, k.keyspace, p, c)
		return reply, errors.Join(toPublicError(err), ctx.Err())
	})
}

// scanFields gathers a page of fields. A command returns fewer than are wanted where
// much lies about that is dead.
func scanFields(p partition.Position, after []byte, limit int, do func(*command.HScan) (command.Reply, error)) ([]Field, []byte, error) {
	if limit == 0 {
		limit = defaultPageItems
	}
	if limit < 0 {
		return nil, nil, optionErrorf("limit is %d: use a positive one, or 0 for the default", limit)
	}
	if err := command.CheckField(after); err != nil {
		return nil, nil, toPublicError(err)
	}
	fields := []Field{}
	for {
		reply, err := do(&command.HScan{Key: p, After: after, Limit: limit - len(fields)})
		if err != nil {
			return nil, nil, err
		}
		fields = append(fields, toFields(reply)...)
		if after = reply.Bytes; !reply.More || len(fields) == limit {
			return fields, after, nil
		}
	}
}

func toFields(r command.Reply) []Field {
	fields := make([]Field, len(r.Items))
	for i, item := range r.Items {
		fields[i] = Field{Name: item.Field, Value: item.Value}
	}
	return fields
}

// evalReadOnly evaluates a command that reads past the queue.
func (k *Keyspace) evalReadOnly(ctx context.Context, p partition.Position, c command.Command) (command.Reply, error) {
	reply, err := k.db.engine.EvalReadOnly(ctx, k.keyspace, p, c)
	return reply, toPublicError(err)
}
