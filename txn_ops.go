package cleave

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/partition"
)

// Get returns the value of a key, or ErrNotFound.
func (tx *Txn) Get(k *Keyspace, key []byte) ([]byte, error) {
	reply, err := tx.executeCommand(k, key, false, true, func(p partition.Position) (command.Command, error) {
		return &command.Get{Key: p}, nil
	})
	if err == nil && reply.Kind == command.Nil {
		err = ErrNotFound
	}
	return reply.Bytes, err
}

// GetMany returns the values of keys in their order, nil for one that is absent.
func (tx *Txn) GetMany(k *Keyspace, keys ...[]byte) ([][]byte, error) {
	values := make([][]byte, len(keys))
	for i, key := range keys {
		value, err := tx.Get(k, key)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, fmt.Errorf("%s: %w", formatKey(k, key), err)
		}
		values[i] = value
	}
	return values, nil
}

// Item returns a key with its value, version and expiry, or ErrNotFound. The
// version of what the transaction wrote is 0: it is not known before the commit.
func (tx *Txn) Item(k *Keyspace, key []byte) (Item, error) {
	value, err := tx.executeCommand(k, key, false, true, func(p partition.Position) (command.Command, error) {
		return &command.Get{Key: p}, nil
	})
	if err == nil && value.Kind == command.Nil {
		err = ErrNotFound
	}
	if err != nil {
		return Item{}, err
	}
	expiry, err := tx.executeCommand(k, key, false, true, func(p partition.Position) (command.Command, error) {
		return &command.TTL{Key: p, Absolute: true}, nil
	})
	if err != nil {
		return Item{}, err
	}
	item := Item{Key: bytes.Clone(key), Value: value.Bytes, Expires: toExpiryTime(max(expiry.Int, 0))}
	if value.Version < firstTxnVersion {
		item.Version = value.Version
	}
	return item, nil
}

// Exists reports whether there is a key, whatever it holds.
func (tx *Txn) Exists(k *Keyspace, key []byte) (bool, error) {
	reply, err := tx.executeCommand(k, key, false, true, func(p partition.Position) (command.Command, error) {
		return &command.Exists{Keys: []partition.Position{p}}, nil
	})
	return reply.Int == 1, err
}

var errTxnRequest = optionErrorf("a transaction takes no Request: read a key that stands for the request, and set it in the same transaction; or use a Batch")

// Set stores a value.
func (tx *Txn) Set(k *Keyspace, key, value []byte) error {
	return tx.SetWith(k, key, value, SetOptions{})
}

// SetWith stores a value under conditions. Its versions are not known before
// the commit, so it returns none. A Request is refused: an Update may be made
// harmless to repeat by a key that it reads first and sets.
func (tx *Txn) SetWith(k *Keyspace, key, value []byte, o SetOptions) error {
	if o.Request != (RequestID{}) {
		return errTxnRequest
	}
	if o.IfVersion && o.Version >= firstTxnVersion {
		// No key has it, but what the transaction wrote looks as if it had.
		return fmt.Errorf("%w: version %d was never given out", ErrConflict, o.Version)
	}
	// An expiry that is kept is what a later Item shows.
	seen := o.IfAbsent || o.IfPresent || o.IfVersion || o.KeepTTL
	reply, err := tx.executeCommand(k, key, true, seen, func(p partition.Position) (command.Command, error) {
		return o.toCommand(p, bytes.Clone(value))
	})
	if err == nil && reply.Kind == command.Nil {
		err = ErrNotStored
	}
	return err
}

// Delete deletes keys and returns how many there were.
func (tx *Txn) Delete(k *Keyspace, keys ...[]byte) (n int, err error) {
	for _, key := range keys {
		// All of them before the first is deleted: an error leaves nothing.
		if _, err := tx.locateKey(k, key, true); err != nil {
			return 0, err
		}
	}
	for _, key := range keys {
		reply, err := tx.executeCommand(k, key, true, true, func(p partition.Position) (command.Command, error) {
			return &command.Delete{Keys: []partition.Position{p}}, nil
		})
		if err != nil {
			return 0, err
		}
		n += int(reply.Int)
	}
	return n, nil
}

// Add adds delta to the decimal number that the key holds and returns the sum.
func (tx *Txn) Add(k *Keyspace, key []byte, delta int64) (int64, error) {
	return tx.AddWith(k, key, delta, AddOptions{})
}

// AddWith is Add under conditions. A Request is refused, as that of a SetWith is.
func (tx *Txn) AddWith(k *Keyspace, key []byte, delta int64, o AddOptions) (int64, error) {
	if o.Request != (RequestID{}) {
		return 0, errTxnRequest
	}
	reply, err := tx.executeCommand(k, key, true, true, func(p partition.Position) (command.Command, error) {
		return &command.Add{Key: p, Delta: delta, IfPresent: o.IfPresent}, nil
	})
	if err == nil && reply.Kind == command.Nil {
		err = ErrNotStored
	}
	return reply.Int, err
}

// Expire makes a key expire after a time, and reports whether there is one. A time
// that is not positive deletes it. For the transaction the key does not expire before it
// ends. The time counts from the commit, or from the moment of the transaction's state if the
// keyspace has indexes.
func (tx *Txn) Expire(k *Keyspace, key []byte, after time.Duration) (bool, error) {
	reply, err := tx.executeCommand(k, key, true, true, func(p partition.Position) (command.Command, error) {
		return &command.Expire{Key: p, Expiry: command.ExpireIn(ceilMS(after))}, nil
	})
	return reply.Int == 1, err
}

// Persist makes a key live for ever, and reports whether it had an expiry.
func (tx *Txn) Persist(k *Keyspace, key []byte) (bool, error) {
	reply, err := tx.executeCommand(k, key, true, true, func(p partition.Position) (command.Command, error) {
		return &command.Persist{Key: p}, nil
	})
	return reply.Int == 1, err
}

// HGet returns the value of a field of the hash at key, or ErrNotFound.
func (tx *Txn) HGet(k *Keyspace, key, name []byte) ([]byte, error) {
	reply, err := tx.executeCommand(k, key, false, true, func(p partition.Position) (command.Command, error) {
		return &command.HGet{Key: p, Field: name}, nil
	})
	if err == nil && reply.Kind == command.Nil {
		err = ErrNotFound
	}
	return reply.Bytes, err
}

// HGetAll returns all fields of the hash at key by name.
func (tx *Txn) HGetAll(k *Keyspace, key []byte) ([]Field, error) {
	reply, err := tx.executeCommand(k, key, false, true, func(p partition.Position) (command.Command, error) {
		return &command.HGetAll{Key: p}, nil
	})
	return toFields(reply), err
}

// HSet sets fields of the hash at key and returns how many of them are new.
func (tx *Txn) HSet(k *Keyspace, key []byte, fields ...Field) (int, error) {
	reply, err := tx.executeCommand(k, key, true, true, func(p partition.Position) (command.Command, error) {
		return newHSetCommand(p, fields, bytes.Clone), nil
	})
	return int(reply.Int), err
}

// HDel removes fields of the hash at key and returns how many there were.
func (tx *Txn) HDel(k *Keyspace, key []byte, names ...[]byte) (int, error) {
	reply, err := tx.executeCommand(k, key, true, true, func(p partition.Position) (command.Command, error) {
		return newHDelCommand(p, names, bytes.Clone), nil
	})
	return int(reply.Int), err
}

// HAdd adds delta to the decimal number in a field of the hash at key and
// returns the sum.
func (tx *Txn) HAdd(k *Keyspace, key, name []byte, delta int64) (int64, error) {
	reply, err := tx.executeCommand(k, key, true, true, func(p partition.Position) (command.Command, error) {
		return &command.HIncrBy{Key: p, Field: bytes.Clone(name), Delta: delta}, nil
	})
	return reply.Int, err
}

// HLen returns how many fields the hash at key has, 0 if there is none.
func (tx *Txn) HLen(k *Keyspace, key []byte) (int, error) {
	reply, err := tx.executeCommand(k, key, false, true, func(p partition.Position) (command.Command, error) {
		return &command.HLen{Key: p}, nil
	})
	return int(reply.Int), err
}

// HScanPage returns the next fields of the hash at key, as [Keyspace.HScanPage] does.
func (tx *Txn) HScanPage(k *Keyspace, key, after []byte, limit int) (fields []Field, next []byte, err error) {
	return scanFields(nil, after, limit, func(c *command.HScan) (command.Reply, error) {
		return tx.executeCommand(k, key, false, true, func(p partition.Position) (command.Command, error) {
			c.Key = p
			return c, nil
		})
	})
}
