package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/plant"
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
// who looks for work does not meet those, however many are kept. DESIGN.md of package
// saga has the format.
const (
	openPrefix  = "o/"
	endedPrefix = "e/"
	agePrefix   = "t/"
)

func openKey(id string) []byte  { return []byte(openPrefix + id) }
func endedKey(id string) []byte { return []byte(endedPrefix + id) }
func ageKey(r *saga.Record) []byte {
	return fmt.Appendf(nil, "%s%016x/%s", agePrefix, uint64(r.EndedMS), r.ID)
}

// format is the version of records that this package writes.
const format = 1

// row is a record as it is stored.
type row struct {
	Format int `json:"format"`
	saga.Record
}

func encode(r saga.Record) ([]byte, error) { return json.Marshal(row{format, r}) }

func decode(value []byte) (saga.Record, error) {
	var r row
	if err := json.Unmarshal(value, &r); err != nil {
		return saga.Record{}, fmt.Errorf("%w: %w", saga.ErrFormat, err)
	}
	if r.Format != format {
		return saga.Record{}, fmt.Errorf("%w: format %d, this version knows %d", saga.ErrFormat, r.Format, format)
	}
	return r.Record, r.Check()
}

// Create stores the first record of a saga.
func (j *Journal) Create(ctx context.Context, r saga.Record) error {
	value, err := encode(r)
	if err != nil {
		return err
	}
	return j.db.Update(ctx, func(tx *cleave.Txn) error {
		if err := j.absent(tx, r.ID); err != nil {
			return err
		}
		return tx.Set(j.ks, openKey(r.ID), value)
	})
}

// absent fails if there is a saga of an id.
func (j *Journal) absent(tx *cleave.Txn, id string) error {
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
			return decode(value)
		}
	}
	return saga.Record{}, fmt.Errorf("%w: %q", saga.ErrNotFound, id)
}

// Save stores a record in the place of the one before.
func (j *Journal) Save(ctx context.Context, r saga.Record) error {
	return j.db.Update(ctx, func(tx *cleave.Txn) error { return j.save(tx, r) })
}

// SaveWith runs f in the transaction that saves what it returns.
func (j *Journal) SaveWith(ctx context.Context, old saga.Record, f func(tx any) (saga.Record, error)) error {
	if plant.Bug("journal-step-apart") {
		var next saga.Record
		err := j.db.Update(ctx, func(tx *cleave.Txn) (err error) { next, err = f(tx); return err })
		if err != nil || old.Revision == 0 {
			return errors.Join(err, j.Create(ctx, next))
		}
		return j.Save(ctx, next)
	}
	return j.db.Update(ctx, func(tx *cleave.Txn) error {
		var err error
		if old.Revision == 0 {
			err = j.absent(tx, old.ID)
		} else {
			err = j.expect(tx, old.ID, old.Revision)
		}
		if err != nil {
			return err
		}
		next, err := f(tx)
		if err != nil {
			return err
		}
		return j.put(tx, next)
	})
}

// Fits tells whether tx is a transaction of the store.
func (j *Journal) Fits(tx any) bool { _, ok := tx.(*cleave.Txn); return ok }

func (j *Journal) save(tx *cleave.Txn, r saga.Record) error {
	if err := j.expect(tx, r.ID, r.Revision-1); err != nil {
		return err
	}
	return j.put(tx, r)
}

// expect fails unless the record that is open has a revision: whoever was overtaken
// gets no further. What it reads is validated by the commit.
func (j *Journal) expect(tx *cleave.Txn, id string, revision uint64) error {
	value, err := tx.Get(j.ks, openKey(id))
	if errors.Is(err, cleave.ErrNotFound) {
		return saga.ErrConflict
	}
	if err != nil {
		return err
	}
	r, err := decode(value)
	if err != nil {
		return err
	}
	if r.Revision != revision && !plant.Bug("journal-any-revision") {
		return saga.ErrConflict
	}
	return nil
}

// put stores a record where its state says.
func (j *Journal) put(tx *cleave.Txn, r saga.Record) error {
	value, err := encode(r)
	if err != nil {
		return err
	}
	if !r.State.Ended() {
		return tx.Set(j.ks, openKey(r.ID), value)
	}
	if _, err := tx.Delete(j.ks, openKey(r.ID)); err != nil {
		return err
	}
	if err := tx.Set(j.ks, ageKey(&r), nil); err != nil {
		return err
	}
	return tx.Set(j.ks, endedKey(r.ID), value)
}

// Open returns records of sagas that have not ended.
func (j *Journal) Open(ctx context.Context, after string, limit int) ([]saga.Record, error) {
	return j.list(ctx, openPrefix, after, limit)
}

// Ended returns records of sagas that have.
func (j *Journal) Ended(ctx context.Context, after string, limit int) ([]saga.Record, error) {
	return j.list(ctx, endedPrefix, after, limit)
}

func (j *Journal) list(ctx context.Context, prefix, after string, limit int) ([]saga.Record, error) {
	page, err := j.ks.Scan(ctx, behind(prefix, after, limit))
	if err != nil {
		return nil, err
	}
	var records []saga.Record
	for _, item := range page.Items {
		r, err := decode(item.Value)
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", item.Key, err)
		}
		records = append(records, r)
	}
	return records, nil
}

// behind are the keys with a prefix behind one of them, or all.
func behind(prefix, after string, limit int) cleave.ScanOptions {
	o := cleave.ScanOptions{Start: []byte(prefix), End: end(prefix), Limit: limit}
	if after != "" {
		o.Start = []byte(prefix + after + "\x00")
	}
	return o
}

// end is the first key behind those with a prefix.
func end(prefix string) []byte {
	b := []byte(prefix)
	b[len(b)-1]++
	return b
}

// Before returns records of sagas that ended before a time.
func (j *Journal) Before(ctx context.Context, endedMS int64, after saga.Record, limit int) ([]saga.Record, error) {
	o := behind(agePrefix, "", limit)
	if after.ID != "" {
		o = behind(agePrefix, strings.TrimPrefix(string(ageKey(&after)), agePrefix), limit)
	}
	o.End = fmt.Appendf(nil, "%s%016x/", agePrefix, uint64(max(endedMS, 0)))
	page, err := j.ks.Scan(ctx, o)
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
		r, err := decode(value)
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
		have, err := decode(value)
		if err != nil || have.Revision != r.Revision || have.EndedMS != r.EndedMS {
			return err // it was removed before, and the id is that of another one
		}
		_, err = tx.Delete(j.ks, endedKey(r.ID), ageKey(&r))
		return err
	})
}
