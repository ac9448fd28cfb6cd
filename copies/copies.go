// Package copies answers one question: how is one small value, which everybody reads
// and hardly anybody writes, read from more than one shard?
//
//	flags, err := copies.Open(db, db.Default(), copies.Options{})
//	if err != nil { … }
//	err = flags.Set(ctx, "checkout", []byte("on"))
//	value, err := flags.Get(ctx, "checkout")
//
// The value is kept in several keys, in different shards, which are written in one
// transaction. A reader asks one of them: any, or always the same that its name chooses.
//
// # Promises
//
//   - A read that begins after a write has returned, or after any read anywhere has
//     returned what it wrote, returns that or something newer, whichever copies the two
//     have read. It is as strong as reading one key: copies are written in one
//     transaction, and a reader that comes to a copy which a transaction has locked
//     learns what became of the transaction.
//   - That holds also while processes disagree about the number of copies.
//   - A read asks one key. It asks a second one if the first is not there: when there is
//     no such value, or fewer copies than the reader expects.
//
// # What it costs
//
// A write costs as many keys as there are copies, in as many groups, in two phases if they
// are of several stores; a reader of a copy that is about to change may wait for that. The
// value is in memory as often.
//
// # When it pays
//
// Where one shard, or the machine that has it, has more reads of one key than it can serve,
// and others have time. In one process it does not pay: rows in memory are read past
// the queue of the group, on the goroutine of the reader, so there is nothing that
// copies relieve. docs/patterns/hot-keys.md has figures. A value that may be a little old is
// better in package cache, in the memory of its readers.
package copies

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/internal/patterns/spread"
)

// ErrName means that a value cannot have that name: the text says why.
var ErrName = errors.New("copies: bad name")

// maxNameBytes leaves room for what is added to a name within the limit of a key.
const maxNameBytes = 8 << 10

// MaxCopies is the most copies that a value can have.
const MaxCopies = spread.MaxParts

// Options configure values. The zero value works.
type Options struct {
	// Copies is in how many keys a value is kept, up to MaxCopies. Default: one for each
	// group of the store, 16 at most. A power of two is spread evenly. Values that are there
	// have the number that they were written with, until they are written again.
	Copies int
}

// Values are the copied values of a keyspace. Its methods may be called by any goroutine. The
// keyspace may hold other things too, but the keys of values are the package's own.
type Values struct {
	db       *cleave.DB
	keyspace *cleave.Keyspace
	keys     spread.PartKeys
	copies   int

	// known has the keys of the copies of names that were used, and knownCount how many names: to find
	// the keys of a name takes longer than to read one of them.
	known      sync.Map // of string to [][]byte
	knownCount atomic.Int64
}

// maxKnownNames bounds what known takes: some hundred bytes for each copy.
const maxKnownNames = 4096

// keyKind tells the keys of copies from those of other parts.
const keyKind = "copy"

// maxDefaultCopies is the most copies that are made where none are asked for: a write costs each of them.
const maxDefaultCopies = 16

// Open returns the values of a keyspace of a store.
func Open(db *cleave.DB, ks *cleave.Keyspace, o Options) (*Values, error) {
	if o.Copies == 0 {
		o.Copies = min(len(db.Groups()), maxDefaultCopies)
	}
	switch {
	case o.Copies < 1 || o.Copies > MaxCopies:
		return nil, fmt.Errorf("%w: copies: Copies is %d: use 1 to %d", cleave.ErrOptions, o.Copies, MaxCopies)
	case ks.DB() != db:
		return nil, fmt.Errorf("%w: copies: keyspace %s is of another DB: use one of this", cleave.ErrOptions, ks.Name())
	}
	return &Values{db: db, keyspace: ks, keys: spread.NewPartKeys(ks, keyKind), copies: o.Copies}, nil
}

// Get returns a value, or cleave.ErrNotFound. It reads a copy by chance.
func (v *Values) Get(ctx context.Context, name string) ([]byte, error) {
	return v.getCopy(ctx, name, rand.IntN(v.copies))
}

// GetBy is Get of the copy that the name of a reader, such as that of a client, chooses: each
// reader always asks the same one, and they divide evenly.
func (v *Values) GetBy(ctx context.Context, name, reader string) ([]byte, error) {
	return v.getCopy(ctx, name, int(hash.XXH3String(reader).Uint64()%uint64(v.copies)))
}

// getCopy reads a copy.
func (v *Values) getCopy(ctx context.Context, name string, i int) ([]byte, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	keys := v.copyKeys(name)
	value, err := v.keyspace.Get(ctx, keys[i])
	if i > 0 && errors.Is(err, cleave.ErrNotFound) { // the first is there if any is
		value, err = v.keyspace.Get(ctx, keys[0])
	}
	return value, err
}

// copyKeys returns the keys of the copies of a name.
func (v *Values) copyKeys(name string) [][]byte {
	if keys, ok := v.known.Load(name); ok {
		return keys.([][]byte)
	}
	keys := v.keys.Parts(name, v.copies)
	if v.knownCount.Load() < maxKnownNames {
		if _, known := v.known.LoadOrStore(name, keys); !known {
			v.knownCount.Add(1)
		}
	}
	return keys
}

// Set writes a value, all of its copies at one moment.
func (v *Values) Set(ctx context.Context, name string, value []byte) error {
	return v.db.Update(ctx, func(tx *cleave.Txn) error { return v.SetTx(tx, name, value) })
}

// SetTx is Set as a part of a transaction.
func (v *Values) SetTx(tx *cleave.Txn, name string, value []byte) error {
	before, err := v.copyCount(tx, name)
	if err != nil {
		return err
	}
	for _, at := range v.copyKeys(name) {
		if err := tx.Set(v.keyspace, at, value); err != nil {
			return err
		}
	}
	if err := v.deleteCopies(tx, name, v.copies, before); err != nil { // they would be old
		return err
	}
	if before == v.copies {
		return nil
	}
	return tx.Set(v.keyspace, v.keys.Manifest(name), strconv.AppendInt(nil, int64(v.copies), 10))
}

// Delete removes a value, and reports whether there was one.
func (v *Values) Delete(ctx context.Context, name string) (found bool, err error) {
	err = v.db.Update(ctx, func(tx *cleave.Txn) error {
		found, err = v.DeleteTx(tx, name)
		return err
	})
	return found, err
}

// DeleteTx is Delete as a part of a transaction.
func (v *Values) DeleteTx(tx *cleave.Txn, name string) (bool, error) {
	before, err := v.copyCount(tx, name)
	if err != nil || before == 0 {
		return false, err
	}
	if err := v.deleteCopies(tx, name, 0, before); err != nil {
		return false, err
	}
	_, err = tx.Delete(v.keyspace, v.keys.Manifest(name))
	return true, err
}

// deleteCopies deletes those from one number to before another.
func (v *Values) deleteCopies(tx *cleave.Txn, name string, from, to int) error {
	for i := from; i < to; i++ {
		if _, err := tx.Delete(v.keyspace, v.keys.Part(name, i)); err != nil {
			return err
		}
	}
	return nil
}

// copyCount reads how many copies a value has, 0 if there is none. The manifest says it: other processes may make
// another number of them.
func (v *Values) copyCount(tx *cleave.Txn, name string) (int, error) {
	if err := checkName(name); err != nil {
		return 0, err
	}
	at := v.keys.Manifest(name)
	text, err := tx.Get(v.keyspace, at)
	if errors.Is(err, cleave.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 || n > MaxCopies {
		return 0, fmt.Errorf("%w: key %q says how many copies %.40q has, and holds %.40q", cleave.ErrWrongType, at, name, text)
	}
	return n, nil
}

// checkName refuses names whose keys would be too long.
func checkName(name string) error {
	if len(name) > maxNameBytes {
		return fmt.Errorf("%w: it has %d bytes: use at most %d", ErrName, len(name), maxNameBytes)
	}
	return nil
}

// Spread cuts a keyspace of kind Range into as many pieces as there are groups, and gives each
// group one: then copies are in different groups, of different stores if there are several. One of
// kind Hash is spread from the start, and left as it is. It moves whatever is in the
// keyspace, and waits for the jobs that it starts; calling it again does the rest.
func (v *Values) Spread(ctx context.Context) error { return spread.Parts(ctx, v.db, v.keyspace) }
