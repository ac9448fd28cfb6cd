package cleave

import (
	"bytes"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/partition"
)

// HGet returns the value of a field of the hash at key, or ErrNotFound.
func (tx *Txn) HGet(k *Keyspace, key, name []byte) ([]byte, error) {
	reply, err := tx.do(k, key, false, true, func(p partition.Position) (command.Command, error) {
		return &command.HGet{Key: p, Field: name}, nil
	})
	if err == nil && reply.Kind == command.Nil {
		err = ErrNotFound
	}
	return reply.Bytes, err
}

// HGetAll returns all fields of the hash at key by name.
func (tx *Txn) HGetAll(k *Keyspace, key []byte) ([]Field, error) {
	reply, err := tx.do(k, key, false, true, func(p partition.Position) (command.Command, error) {
		return &command.HGetAll{Key: p}, nil
	})
	return fieldsOf(reply), err
}

// HSet sets fields of the hash at key and returns how many of them are new.
func (tx *Txn) HSet(k *Keyspace, key []byte, fields ...Field) (int, error) {
	reply, err := tx.do(k, key, true, true, func(p partition.Position) (command.Command, error) {
		return hsetCommand(p, fields, bytes.Clone), nil
	})
	return int(reply.Int), err
}

// HDel removes fields of the hash at key and returns how many there were.
func (tx *Txn) HDel(k *Keyspace, key []byte, names ...[]byte) (int, error) {
	reply, err := tx.do(k, key, true, true, func(p partition.Position) (command.Command, error) {
		return hdelCommand(p, names, bytes.Clone), nil
	})
	return int(reply.Int), err
}

// HAdd adds delta to the decimal number in a field of the hash at key and
// returns the sum.
func (tx *Txn) HAdd(k *Keyspace, key, name []byte, delta int64) (int64, error) {
	reply, err := tx.do(k, key, true, true, func(p partition.Position) (command.Command, error) {
		return &command.HIncrBy{Key: p, Field: bytes.Clone(name), Delta: delta}, nil
	})
	return reply.Int, err
}

// HLen returns how many fields the hash at key has, 0 if there is none.
func (tx *Txn) HLen(k *Keyspace, key []byte) (int, error) {
	reply, err := tx.do(k, key, false, true, func(p partition.Position) (command.Command, error) {
		return &command.HLen{Key: p}, nil
	})
	return int(reply.Int), err
}

// HScan returns the next fields of the hash at key, as [Keyspace.HScan] does.
func (tx *Txn) HScan(k *Keyspace, key, after []byte, limit int) (fields []Field, next []byte, err error) {
	return hscan(nil, after, limit, func(c *command.HScan) (command.Reply, error) {
		return tx.do(k, key, false, true, func(p partition.Position) (command.Command, error) {
			c.Key = p
			return c, nil
		})
	})
}
