// Package journal answers one question: where does a saga whose steps change a store
// keep its journal?
//
// In a keyspace of that store. Then a step and the record that says that it is done
// are one transaction, wherever their keys are: a step made by [Step] takes effect at
// most once, whatever crashes, and whatever else works on the same saga.
//
//	j, err := journal.Open(ctx, db, journal.Options{})
//	if err != nil { … }
//	runner, err := saga.NewRunner(j, saga.Options{})
//	if err != nil { … }
//	defer runner.Close() // before the store
//	transfers, err := saga.Register(runner, saga.Definition[Transfer]{
//		Name:  "transfer",
//		Steps: []saga.Step[Transfer]{journal.Step("debit", debit, giveBack), journal.Step("credit", credit, nil)},
//	})
//
// A saga of n such steps costs n transactions, one after the other: the first begins it
// too. Each other step costs one write of the journal, and one more if it is the first.
//
// [Once] is for steps that change another store than the one with the journal: a marker
// that commits with the change keeps the rules of [saga.Judge] there.
//
// The limit: a journal is a keyspace of kind Range, and so begins in one group of one
// store. It is split, at o/ and the id of a saga say, and moved like any other.
package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/saga"
)

// Options configure a journal. The zero value works.
type Options struct {
	// Keyspace is the name of the keyspace, of kind Range. Default "sagas". It is made
	// if there is none, and nothing else may be kept there.
	Keyspace string
}

// Journal is a saga.Journal in a keyspace of a store.
type Journal struct {
	db *cleave.DB
	ks *cleave.Keyspace
}

var _ saga.Together = (*Journal)(nil)

// Open opens the journal of a store, or makes it.
func Open(ctx context.Context, db *cleave.DB, o Options) (*Journal, error) {
	if o.Keyspace == "" {
		o.Keyspace = "sagas"
	}
	ks, err := db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: o.Keyspace, Kind: cleave.Range})
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	return &Journal{db, ks}, nil
}

// Step makes a step of a saga that changes the store of the journal: see
// saga.Transactional. undo may be nil.
func Step[S any](name string, do, undo func(tx *cleave.Txn, s *S) error) saga.Step[S] {
	return saga.Transactional(name, do, undo)
}

// Where things are. A saga that ends is moved from the open ones to the ended ones, so
// a search for work does not meet those, however many are kept. DESIGN.md of package
// saga has the format.
const (
	openPrefix  = "o/"
	endedPrefix = "e/"
	agePrefix   = "t/"
)

func openKey(id string) []byte  { return []byte(openPrefix + id) }
func endedKey(id string) []byte { return []byte(endedPrefix + id) }
func newAgeKey(r *saga.Record) []byte {
	return fmt.Appendf(nil, "%s%016x/%s", agePrefix, uint64(r.EndedMS), r.ID)
}

// recordFormat is the version of records that this package writes.
const recordFormat = 1

// storedRecord is a record as it is stored.
type storedRecord struct {
	Format int `json:"format"`
	saga.Record
}

func encodeRecord(r saga.Record) ([]byte, error) { return json.Marshal(storedRecord{recordFormat, r}) }

func decodeRecord(value []byte) (saga.Record, error) {
	var r storedRecord
	if err := json.Unmarshal(value, &r); err != nil {
		return saga.Record{}, fmt.Errorf("%w: %w", saga.ErrFormat, err)
	}
	if r.Format != recordFormat {
		return saga.Record{}, fmt.Errorf("%w: format %d, this version knows %d", saga.ErrFormat, r.Format, recordFormat)
	}
	return r.Record, r.Validate()
}

// Create stores the first record of a saga.
func (j *Journal) Create(ctx context.Context, r saga.Record) error {
	value, err := encodeRecord(r)
	if err != nil {
		return err
	}
	return j.db.Update(ctx, func(tx *cleave.Txn) error {
		if err := j.checkAbsent(tx, r.ID); err != nil {
			return err
		}
		return tx.Set(j.ks, openKey(r.ID), value)
	})
}

// checkAbsent fails if there is a saga of an id.
func (j *Journal) checkAbsent(tx *cleave.Txn, id string) error {
	for _, key := range [][]byte{openKey(id), endedKey(id)} {
		if found, err := tx.Exists(j.ks, key); err != nil {
			return err
		} else if found {
			return saga.ErrExists
		}
	}
	return nil
}

// Load returns the record of an id.
func (j *Journal) Load(ctx context.Context, id string) (saga.Record, error) {
	values, err := j.ks.GetMany(ctx, openKey(id), endedKey(id))
	if err != nil {
		return saga.Record{}, err
	}
	for _, value := range values {
		if value != nil {
			return decodeRecord(value)
		}
	}
	return saga.Record{}, fmt.Errorf("%w: %q", saga.ErrNotFound, id)
}

// Save stores a record in the place of the one before.
func (j *Journal) Save(ctx context.Context, r saga.Record) error {
	return j.db.Update(ctx, func(tx *cleave.Txn) error { return j.saveRecord(tx, r) })
}

// SaveWith runs f in the transaction that saves what it returns.
func (j *Journal) SaveWith(ctx context.Context, old saga.Record, f func(tx any) (saga.Record, error)) error {
	return j.db.Update(ctx, func(tx *cleave.Txn) error {
		var err error
		if old.Revision == 0 {
			err = j.checkAbsent(tx, old.ID)
		} else {
			err = j.checkRevision(tx, old.ID, old.Revision)
		}
		if err != nil {
			return err
		}
		next, err := f(tx)
		if err != nil {
			return err
		}
		return j.putRecord(tx, next)
	})
}

// Fits reports whether tx is a transaction of the store.
func (j *Journal) Fits(tx any) bool { _, ok := tx.(*cleave.Txn); return ok }

func (j *Journal) saveRecord(tx *cleave.Txn, r saga.Record) error {
	if err := j.checkRevision(tx, r.ID, r.Revision-1); err != nil {
		return err
	}
	return j.putRecord(tx, r)
}

// checkRevision fails unless the record that is open has a revision: a runner that was overtaken
// gets no further. What it reads is validated by the commit.
func (j *Journal) checkRevision(tx *cleave.Txn, id string, revision uint64) error {
	value, err := tx.Get(j.ks, openKey(id))
	if errors.Is(err, cleave.ErrNotFound) {
		return saga.ErrConflict
	}
	if err != nil {
		return err
	}
	r, err := decodeRecord(value)
	if err != nil {
		return err
	}
	if r.Revision != revision {
		return saga.ErrConflict
	}
	return nil
}

// putRecord stores a record where its state says.
func (j *Journal) putRecord(tx *cleave.Txn, r saga.Record) error {
	value, err := encodeRecord(r)
	if err != nil {
		return err
	}
	if !r.State.Ended() {
		return tx.Set(j.ks, openKey(r.ID), value)
	}
	if _, err := tx.Delete(j.ks, openKey(r.ID)); err != nil {
		return err
	}
	if err := tx.Set(j.ks, newAgeKey(&r), nil); err != nil {
		return err
	}
	return tx.Set(j.ks, endedKey(r.ID), value)
}

// Open returns records of sagas that have not ended.
func (j *Journal) Open(ctx context.Context, after string, limit int) ([]saga.Record, error) {
	return j.listRecords(ctx, openPrefix, after, limit)
}

// Ended returns records of sagas that have.
func (j *Journal) Ended(ctx context.Context, after string, limit int) ([]saga.Record, error) {
	return j.listRecords(ctx, endedPrefix, after, limit)
}

func (j *Journal) listRecords(ctx context.Context, prefix, after string, limit int) ([]saga.Record, error) {
	page, err := j.ks.ScanPage(ctx, scanAfter(prefix, after, limit))
	if err != nil {
		return nil, err
	}
	var records []saga.Record
	for _, item := range page.Items {
		r, err := decodeRecord(item.Value)
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", item.Key, err)
		}
		records = append(records, r)
	}
	return records, nil
}

// scanAfter are the keys with a prefix behind one of them, or all.
func scanAfter(prefix, after string, limit int) cleave.ScanOptions {
	o := cleave.ScanOptions{Start: []byte(prefix), End: prefixEnd(prefix), Limit: limit}
	if after != "" {
		o.Start = []byte(prefix + after + "\x00")
	}
	return o
}

// prefixEnd is the first key behind those with a prefix.
func prefixEnd(prefix string) []byte {
	b := []byte(prefix)
	b[len(b)-1]++
	return b
}

// Before returns records of sagas that ended before a time.
func (j *Journal) Before(ctx context.Context, endedMS int64, after saga.Record, limit int) ([]saga.Record, error) {
	o := scanAfter(agePrefix, "", limit)
	if after.ID != "" {
		o = scanAfter(agePrefix, strings.TrimPrefix(string(newAgeKey(&after)), agePrefix), limit)
	}
	o.End = fmt.Appendf(nil, "%s%016x/", agePrefix, uint64(max(endedMS, 0)))
	page, err := j.ks.ScanPage(ctx, o)
	if err != nil {
		return nil, err
	}
	keys := make([][]byte, 0, len(page.Items))
	for _, item := range page.Items {
		_, id, _ := strings.Cut(strings.TrimPrefix(string(item.Key), agePrefix), "/")
		keys = append(keys, endedKey(id))
	}
	if len(keys) == 0 {
		return nil, nil
	}
	values, err := j.ks.GetMany(ctx, keys...)
	if err != nil {
		return nil, err
	}
	var records []saga.Record
	for i, value := range values {
		if value == nil {
			continue // removed meanwhile
		}
		r, err := decodeRecord(value)
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", keys[i], err)
		}
		records = append(records, r)
	}
	return records, nil
}

// Remove removes a record of a saga that has ended.
func (j *Journal) Remove(ctx context.Context, r saga.Record) error {
	return j.db.Update(ctx, func(tx *cleave.Txn) error {
		value, err := tx.Get(j.ks, endedKey(r.ID))
		if errors.Is(err, cleave.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		have, err := decodeRecord(value)
		if err != nil || have.Revision != r.Revision || have.EndedMS != r.EndedMS {
			return err // it was removed before, and the id is that of another one
		}
		_, err = tx.Delete(j.ks, endedKey(r.ID), newAgeKey(&r))
		return err
	})
}

// What a marker says.
const (
	markDo   = "do"
	markUndo = "undo"
)

// Once makes a call of a step take effect at most once in a store that is not that of
// the journal: it runs f in tx if the rules of saga.Judge say so, and leaves a marker in
// marks, which is a keyspace of the same store, of any kind, for markers alone. A Do that
// comes after its Undo is refused with an error that matches saga.ErrUndone and is
// permanent.
//
// A call that is repeated does not run f again: what f would put into the saga's value
// must be read from the store instead.
//
// Markers of a saga are one key. Have the definition's Forget call Forget, so that they
// are removed with the saga and no earlier.
func Once(tx *cleave.Txn, marks *cleave.Keyspace, c saga.Call, f func() error) error {
	key := []byte(c.Saga)
	field := func(mark string) []byte { return []byte(c.Step + "/" + mark) }
	did, err := hasMark(tx, marks, key, field(markDo))
	if err != nil {
		return err
	}
	undid, err := hasMark(tx, marks, key, field(markUndo))
	if err != nil {
		return err
	}
	mark := markDo
	if c.Undo {
		mark = markUndo
	}
	verdict := saga.Judge(c.Undo, did, undid)
	switch verdict {
	case saga.Repeat:
		return nil
	case saga.Refuse:
		return saga.Permanent(saga.ErrUndone)
	case saga.Execute:
		if err := f(); err != nil {
			return err
		}
	}
	_, err = tx.HSet(marks, key, cleave.Field{Name: field(mark)})
	return err
}

func hasMark(tx *cleave.Txn, marks *cleave.Keyspace, key, field []byte) (bool, error) {
	_, err := tx.HGet(marks, key, field)
	if errors.Is(err, cleave.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Forget removes the markers of a saga.
func Forget(ctx context.Context, marks *cleave.Keyspace, id string) error {
	_, err := marks.Delete(ctx, []byte(id))
	return err
}
