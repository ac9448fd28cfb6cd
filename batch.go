package cleave

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cleavekv/cleave/internal/command"
	"github.com/cleavekv/cleave/internal/node"
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

// gates are keyspaces that must all be there, without an index to maintain.
type gates []*node.Space

// Check implements [group.Gate].
func (g gates) Check() error {
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

var errBatchRequest = optionError("a write of a batch has no request of its own: set Batch.Request")

// Set stores a value.
func (b *Batch) Set(k *Keyspace, key, value []byte) { b.SetWith(k, key, value, SetOptions{}) }

// SetWith stores a value under conditions. One that does not hold makes the
// whole batch fail. The request id is that of the batch: leave out the one of o.
func (b *Batch) SetWith(k *Keyspace, key, value []byte, o SetOptions) {
	if o.Request != (RequestID{}) {
		b.refuse(k, key, errBatchRequest)
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
func (b *Batch) Add(k *Keyspace, key []byte, delta int64) { b.AddWith(k, key, delta, AddOptions{}) }

// AddWith is Add under conditions. One that does not hold makes the whole batch
// fail. The request id is that of the batch: leave out the one of o.
func (b *Batch) AddWith(k *Keyspace, key []byte, delta int64, o AddOptions) {
	if o.Request != (RequestID{}) {
		b.refuse(k, key, errBatchRequest)
		return
	}
	b.add(k, key, 1, 0, nil, func(p partition.Position) (command.Command, error) {
		return &command.Add{Key: p, Delta: delta, IfPresent: o.IfPresent}, nil
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
		err = k.mayWrite()
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
	if first := b.places[0]; first.k.db != at.k.db {
		return optionError("it is of another DB than %v: use a batch for each", first)
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
