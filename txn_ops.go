package cleave

import (
	"bytes"
	"fmt"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/partition"
)

// Get returns the value of a key, or ErrNotFound.
func (tx *Txn) Get(k *Keyspace, key []byte) ([]byte, error) {
	reply, err := tx.do(k, key, false, true, func(p partition.Position) (command.Command, error) {
		return &command.Get{Key: p}, nil
	})
	if err == nil && reply.Kind == command.Nil {
		err = ErrNotFound
	}
	return reply.Bytes, err
}

// Set stores a value.
func (tx *Txn) Set(k *Keyspace, key, value []byte) error {
	return tx.SetWith(k, key, value, SetOptions{})
}

// SetWith stores a value under conditions. Its versions are not known before
// the commit, so it returns none. A RequestID has no meaning here.
func (tx *Txn) SetWith(k *Keyspace, key, value []byte, o SetOptions) error {
	if o.IfVersion && o.Version >= firstTxnVersion {
		// No key has it, but what the transaction wrote looks as if it had.
		return fmt.Errorf("%w: version %d was never given out", ErrConflict, o.Version)
	}
	conditional := o.IfAbsent || o.IfPresent || o.IfVersion
	reply, err := tx.do(k, key, true, conditional, func(p partition.Position) (command.Command, error) {
		return o.command(p, bytes.Clone(value))
	})
	if err == nil && reply.Kind == command.Nil {
		err = ErrNotStored
	}
	return err
}

// Delete deletes a key and tells whether there was one.
func (tx *Txn) Delete(k *Keyspace, key []byte) (bool, error) {
	reply, err := tx.do(k, key, true, true, func(p partition.Position) (command.Command, error) {
		return &command.Delete{Keys: []partition.Position{p}}, nil
	})
	return reply.Int == 1, err
}

// Add adds delta to the decimal number that the key holds and returns the sum.
func (tx *Txn) Add(k *Keyspace, key []byte, delta int64) (int64, error) {
	reply, err := tx.do(k, key, true, true, func(p partition.Position) (command.Command, error) {
		return &command.Add{Key: p, Delta: delta}, nil
	})
	return reply.Int, err
}

// Expire makes a key expire after a time, and tells whether there is one.
func (tx *Txn) Expire(k *Keyspace, key []byte, after time.Duration) (bool, error) {
	reply, err := tx.do(k, key, true, true, func(p partition.Position) (command.Command, error) {
		return &command.Expire{Key: p, Expiry: command.In(ceilMS(after))}, nil
	})
	return reply.Int == 1, err
}

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
		c := &command.HDel{Key: p}
		for _, name := range names {
			c.Fields = append(c.Fields, bytes.Clone(name))
		}
		return c, nil
	})
	return int(reply.Int), err
}
