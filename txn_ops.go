package cleave

import (
	"bytes"
	"context"
	"iter"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/store"
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
		return &command.Expire{Key: p, Expiry: command.In(after.Milliseconds())}, nil
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
		return hsetCommand(tx.copying(), p, fields), nil
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

// copying is a context that makes commands copy what they are given: they are
// executed again at the commit.
func (tx *Txn) copying() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// Scan visits keys in order, those that the transaction wrote included. What it
// visited counts as read: a key that comes or goes there before the commit is a
// conflict. With Limit, or a loop that ends early, that is up to the last key
// visited.
func (tx *Txn) Scan(k *Keyspace, o ScanOptions) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		span, err := k.span(&o)
		if err == nil {
			err = tx.beginScan(k)
		}
		if err != nil {
			yield(Item{}, err)
			return
		}
		read := scanRead{tx: tx, span: span, reverse: o.Reverse}
		defer read.note()
		for item, err := range k.items(tx.ctx, o, o.Limit, read.scan) {
			if err != nil || !yield(item, err) {
				return
			}
		}
		read.whole = o.Limit == 0
	}
}

// beginScan refuses to scan a keyspace that is spread over several stores.
func (tx *Txn) beginScan(k *Keyspace) error {
	parts := k.db.node.PartsOf(&k.space.Keyspace)
	if len(parts) > 1 {
		return ErrCrossGroup
	}
	return tx.begin(parts[0])
}

// scanRead is what a scan of a transaction has seen.
type scanRead struct {
	tx      *Txn
	span    partition.Span
	reverse bool
	whole   bool
	last    partition.Position
}

// scan is a scanFunc on the transaction's state with its own writes.
func (r *scanRead) scan(_ *store.Store, start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	return r.tx.env.Scan(start, end, reverse, func(key, value []byte) bool {
		r.last = append(r.last[:0], key[1:]...)
		return visit(key, value)
	})
}

// note makes the part of the span that was visited a read of the transaction.
func (r *scanRead) note() {
	if r.tx.readOnly || r.tx.err != nil {
		return
	}
	if !r.whole && r.last != nil {
		if r.reverse {
			r.span.Start = r.last
		} else {
			r.span.End = append(r.last, 0) // right behind it
		}
	}
	digest, err := command.DigestRange(r.tx.snap, r.span.Start, r.span.End, r.tx.env.NowMS())
	if err != nil {
		r.tx.err = public(err)
		return
	}
	r.tx.ranges = append(r.tx.ranges, command.RangeRead{Start: r.span.Start, End: r.span.End, Digest: digest})
}
