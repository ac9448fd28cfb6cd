package cleave

import (
	"context"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/partition"
)

// Field is a field of a hash with its value.
type Field struct{ Name, Value []byte }

// HSet sets fields of the hash at key, which it makes if there is none, and
// returns how many of them are new.
func (k *Keyspace) HSet(ctx context.Context, key []byte, fields ...Field) (int, error) {
	p, err := k.position(nil, key)
	if err != nil {
		return 0, err
	}
	reply, err := k.do(ctx, p, RequestID{}, hsetCommand(p, fields, func(b []byte) []byte { return owned(ctx, b) }))
	return int(reply.Int), err
}

// hsetCommand makes the command, of bytes that own has made its own.
func hsetCommand(p partition.Position, fields []Field, own func([]byte) []byte) *command.HSet {
	c := &command.HSet{Key: p, Fields: make([]command.FieldValue, len(fields))}
	for i, f := range fields {
		c.Fields[i] = command.FieldValue{Field: own(f.Name), Value: own(f.Value)}
	}
	return c
}

// HDel removes fields and returns how many there were. The last field takes the
// key with it.
func (k *Keyspace) HDel(ctx context.Context, key []byte, names ...[]byte) (int, error) {
	p, err := k.position(nil, key)
	if err != nil {
		return 0, err
	}
	reply, err := k.do(ctx, p, RequestID{}, hdelCommand(p, names, func(b []byte) []byte { return owned(ctx, b) }))
	return int(reply.Int), err
}

// hdelCommand makes the command, of bytes that own has made its own.
func hdelCommand(p partition.Position, names [][]byte, own func([]byte) []byte) *command.HDel {
	c := &command.HDel{Key: p, Fields: make([][]byte, len(names))}
	for i, name := range names {
		c.Fields[i] = own(name)
	}
	return c
}

// HAdd adds delta to the decimal number in a field and returns the sum.
func (k *Keyspace) HAdd(ctx context.Context, key, name []byte, delta int64) (int64, error) {
	p, err := k.position(nil, key)
	if err != nil {
		return 0, err
	}
	reply, err := k.do(ctx, p, RequestID{}, &command.HIncrBy{Key: p, Field: owned(ctx, name), Delta: delta})
	return reply.Int, err
}

// HGet returns the value of a field, or ErrNotFound.
func (k *Keyspace) HGet(ctx context.Context, key, name []byte) ([]byte, error) {
	p, err := k.position(nil, key)
	if err != nil {
		return nil, err
	}
	reply, err := k.peek(ctx, p, &command.HGet{Key: p, Field: name})
	if err == nil && reply.Kind == command.Nil {
		err = ErrNotFound
	}
	return reply.Bytes, err
}

// HLen returns how many fields the hash at key has, 0 if there is none.
func (k *Keyspace) HLen(ctx context.Context, key []byte) (int, error) {
	p, err := k.position(nil, key)
	if err != nil {
		return 0, err
	}
	reply, err := k.peek(ctx, p, &command.HLen{Key: p})
	return int(reply.Int), err
}

// HGetAll returns all fields of the hash at key as of one moment, by name. A
// key that is absent has none.
func (k *Keyspace) HGetAll(ctx context.Context, key []byte) ([]Field, error) {
	p, err := k.position(nil, key)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	part := k.part(p)
	snap, now, err := part.Snapshot(ctx)
	if err != nil {
		return nil, public(err)
	}
	defer snap.Close()
	reply := part.Group.PeekAt(&command.HGetAll{Key: p}, snap, now)
	return fieldsOf(reply), public(reply.Err)
}

func fieldsOf(r command.Reply) []Field {
	fields := make([]Field, len(r.Items))
	for i, item := range r.Items {
		fields[i] = Field{Name: item.Field, Value: item.Value}
	}
	return fields
}

// peek evaluates a command that reads past the queue.
func (k *Keyspace) peek(ctx context.Context, p partition.Position, c command.Command) (command.Reply, error) {
	if err := ctx.Err(); err != nil {
		return command.Reply{}, err
	}
	reply, err := k.part(p).Group.Peek(ctx, c)
	if err == nil {
		err = reply.Err
	}
	return reply, public(err)
}
