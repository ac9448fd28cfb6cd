package cleave

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cleavekv/cleave/internal/engine"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/index"
	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/partition"
)

// IndexMode is when the entries of a row are written.
type IndexMode uint8

const (
	// Transactional entries commit with their row, wherever they are: a caller that reads
	// both in one View or Update finds that they agree, always. Every write to the
	// keyspace becomes a transaction, which is its price.
	Transactional = IndexMode(index.Transactional)
	// Asynchronous entries follow their row by the feed, soon. Writes to the keyspace
	// do not wait for them, but on a machine that is fully used they are slower: the
	// entries have to be written. See [Index.Status] for how late these are, and [Index.WaitFresh].
	Asynchronous = IndexMode(index.Asynchronous)
)

// String is the word for m.
func (m IndexMode) String() string { return index.Mode(m).String() }

// IndexOptions describe an index on a keyspace. It is made of Columns, or by a
// function.
type IndexOptions struct {
	// Name is 1 to 64 printable ASCII characters without spaces and slashes, unique
	// among the indexes of the keyspace.
	Name     string
	Keyspace *Keyspace
	// Mode is Transactional or Asynchronous. Default Transactional.
	Mode IndexMode
	// Unique refuses a row whose entry another one has, with [ErrUnique]. For
	// Transactional ones only.
	Unique bool
	// Columns is what an entry is made of, in the notation of package key, such as
	// "country, age:int" or "customer, day(sold)". A column that the Layout of the
	// keyspace names is that part of the row's key; any other is a field of the hash
	// that the row holds, read as its type: text of UTF-8 if there is none, or bytes,
	// a decimal int or float, a bool, a uuid, a time as RFC 3339 writes it. A row that
	// lacks one of them has no entry. One whose field is not of its type is refused
	// with [ErrIndexRow] by a transactional index, and has no entry in an asynchronous
	// one, which counts it.
	Columns string
	// Stored are fields of the hash that are kept with the entry, for reads that need
	// no more than that.
	Stored []string

	// Extract returns the entries of a row, any number of them. Equal rows must give
	// equal entries, always: it has no other inputs. An error or a panic refuses the row
	// as a field of the wrong type does, and so do more than 1000 entries, or 8 MiB of them. Functions are not stored: Function is the name
	// under which it is, and Version which one of that name; give a changed function
	// another Version, drop the index and create it anew. A program that opens the
	// store declares the function again, with [DB.OpenIndex]; until then writes to the
	// keyspace of a transactional index are refused with [ErrUndeclared], and an
	// asynchronous one stands still.
	Extract           func(IndexRow) ([]IndexEntry, error)
	Function, Version string
}

// IndexRow is a row as a function of an index sees it. It must not be changed or kept.
type IndexRow struct {
	Key []byte
	// Value is what the key holds; nil if that is a hash.
	Value []byte
	// Fields are those of a hash, by name.
	Fields []Field
	// Expires is when the row expires; zero means never.
	Expires time.Time
}

// Field returns the value of a field of the hash, nil if there is none.
func (r IndexRow) Field(name string) []byte {
	i, ok := slices.BinarySearchFunc(r.Fields, name, func(f Field, name string) int { return strings.Compare(string(f.Name), name) })
	if !ok {
		return nil
	}
	return r.Fields[i].Value
}

// IndexEntry is an entry as a function makes it.
type IndexEntry struct {
	// Entry is what it is found by. Entries sort by it, and by the key of the row.
	Entry key.Tuple
	// Value is kept with it.
	Value []byte
}

// toDefinition checks the options.
func (o *IndexOptions) toDefinition(db *DB) (index.Definition, index.Extractor, error) {
	d := index.Definition{
		Name: o.Name, Mode: index.Mode(o.Mode), Unique: o.Unique,
		Columns: o.Columns, Stored: slices.Clone(o.Stored), Function: o.Function, Version: o.Version,
	}
	d.NormalizeColumns()
	switch {
	case o.Keyspace == nil:
		return d, nil, optionErrorf("an index needs a Keyspace")
	case o.Keyspace.db.engine != db.engine:
		return d, nil, optionErrorf("keyspace %s is of another DB than the index", o.Keyspace.Name())
	case o.Keyspace.keyspace.OwningIndex() != "":
		return d, nil, optionErrorf("keyspace %s has the entries of %s: index the rows", o.Keyspace.Name(), o.Keyspace.keyspace.OwningIndex())
	case (o.Extract == nil) != (o.Function == ""):
		return d, nil, optionErrorf("Extract and Function, its name, come together")
	}
	if err := o.Keyspace.keyspace.CheckOpen(); err != nil {
		return d, nil, err
	}
	d.Keyspace = o.Keyspace.Name()
	if n := len(d.EntryKeyspace()); n > partition.MaxNameBytes {
		return d, nil, optionErrorf("%q, the name of the keyspace of its entries, has %d bytes: use at most %d", d.EntryKeyspace(), n, partition.MaxNameBytes)
	}
	if err := d.Validate(o.Keyspace.keyspace.Layout); err != nil {
		return d, nil, err
	}
	if o.Extract != nil {
		return d, newExtractor(o.Extract), nil
	}
	x, err := index.NewExtractor(&d, o.Keyspace.keyspace.Layout)
	return d, x, err
}

// newExtractor makes a function of a program one that the index understands.
func newExtractor(f func(IndexRow) ([]IndexEntry, error)) index.Extractor {
	return index.ExtractFunc(func(r *index.Row) ([]index.FuncEntry, error) {
		entries, err := f(*toIndexRow(r))
		made := make([]index.FuncEntry, len(entries))
		for i, e := range entries {
			made[i] = index.FuncEntry{Tuple: e.Entry, Value: e.Value}
		}
		return made, err
	})
}

// Index is an index on a keyspace. Its methods may be called by any goroutine.
type Index struct {
	db    *DB
	rows  *Keyspace
	index *engine.Index
}

func (db *DB) newIndex(x *engine.Index) *Index {
	return &Index{db: db, rows: &Keyspace{db: db, keyspace: x.Rows()}, index: x}
}

// CreateIndex makes an index. When it returns, writes maintain it, if it is
// transactional; the rows that are there already get their entries in the background,
// while writes go on, also over a restart: see [Index.Wait]. If the name is taken the
// error is ErrIndexExists.
func (db *DB) CreateIndex(ctx context.Context, o IndexOptions) (*Index, error) {
	d, extract, err := o.toDefinition(db)
	if err != nil {
		return nil, toPublicError(err)
	}
	x, err := db.engine.CreateIndex(ctx, o.Keyspace.keyspace, d, extract)
	if err != nil {
		return nil, toPublicError(err)
	}
	return db.newIndex(x), nil
}

// OpenIndex returns the index of a name, and makes it if there is none. If there is
// one with other options, the error is ErrIndexExists. It declares the function of an
// index that has one.
func (db *DB) OpenIndex(ctx context.Context, o IndexOptions) (*Index, error) {
	d, extract, err := o.toDefinition(db)
	if err == nil {
		err = db.node.CheckOpen()
	}
	if err != nil {
		return nil, toPublicError(err)
	}
	for {
		x, err := db.node.Index(d.Keyspace, d.Name)
		if errors.Is(err, node.ErrNoIndex) {
			made, err := db.CreateIndex(ctx, o)
			if errors.Is(err, ErrIndexExists) {
				continue // another caller was faster
			}
			return made, err
		}
		if err != nil {
			return nil, toPublicError(err)
		}
		if !x.IsSame(&d) {
			return nil, fmt.Errorf("%w with other options: %q of keyspace %q is %s, not %s: drop it first", ErrIndexExists, d.Name, d.Keyspace, formatDefinition(&x.Definition), formatDefinition(&d))
		}
		if d.Function != "" && x.Extract == nil {
			if _, err = db.engine.DeclareIndex(x, extract); err != nil && !errors.Is(err, node.ErrNoIndex) {
				return nil, toPublicError(err)
			}
		}
		ix, err := db.engine.Index(d.Keyspace, d.Name)
		if errors.Is(err, node.ErrNoIndex) || err == nil && ix.Entries() != x.Entries {
			continue // dropped meanwhile, maybe made anew: look again
		}
		if err != nil {
			return nil, toPublicError(err)
		}
		return db.newIndex(ix), nil
	}
}

// formatDefinition describes what an index is about.
func formatDefinition(d *index.Definition) string {
	text := d.Mode.String()
	if d.Unique {
		text += ", unique"
	}
	if d.Function != "" {
		return fmt.Sprintf("%s, by function %q of version %q", text, d.Function, d.Version)
	}
	return fmt.Sprintf("%s, by %q with %q", text, d.Columns, d.Stored)
}

// Index returns the index of a name on a keyspace, or ErrNoIndex.
func (db *DB) Index(keyspace, name string) (*Index, error) {
	x, err := db.engine.Index(keyspace, name)
	if err != nil {
		return nil, toPublicError(err)
	}
	return db.newIndex(x), nil
}

// Indexes returns all indexes by keyspace and name.
func (db *DB) Indexes() (all []*Index) {
	for _, x := range db.engine.Indexes() {
		all = append(all, db.newIndex(x))
	}
	return all
}

// DropIndex removes an index. When it returns its entries are no longer found; their
// room is reclaimed in the background. Dropping a keyspace drops its indexes.
func (db *DB) DropIndex(ctx context.Context, keyspace, name string) error {
	return toPublicError(db.engine.DropIndex(ctx, keyspace, name))
}

// Name is the name of the index.
func (ix *Index) Name() string { return ix.index.Name() }

// Keyspace is the keyspace that it is about.
func (ix *Index) Keyspace() *Keyspace { return ix.rows }

// Entries is the keyspace of its entries, named "index/", the keyspace, "/" and the
// index. It splits and moves like others, and takes no writes but those of the index.
func (ix *Index) Entries() *Keyspace { return &Keyspace{db: ix.db, keyspace: ix.index.Entries()} }

// Options returns what the index was created with. A function is given by its name.
func (ix *Index) Options() (IndexOptions, error) {
	x, err := ix.index.Lookup()
	if err != nil {
		return IndexOptions{}, toPublicError(err)
	}
	return IndexOptions{
		Name: x.Name, Keyspace: ix.rows, Mode: IndexMode(x.Mode), Unique: x.Unique, Columns: x.Columns,
		Stored: slices.Clone(x.Stored), Function: x.Function, Version: x.Version,
	}, nil
}

// IndexStatus is how an index is.
type IndexStatus struct {
	// Ready reports whether all rows have their entries.
	Ready bool
	// Built is how many rows were looked at since the store was opened, to build it.
	Built uint64
	// Err is why it stands still, nil if it does not: a row that it refuses, or a
	// function that is not declared. It is tried again every few seconds.
	Err error

	// The rest is about asynchronous ones.

	// Behind is how old the state of the rows is at most that the entries are of, and
	// BehindBytes how much of the log was not looked at since, of whatever keyspace.
	// Both are 0 if nothing is missing.
	Behind      time.Duration
	BehindBytes int64
	// Refused counts rows that have no entry because of a mistake in them.
	Refused uint64
	// Rebuilt counts how often it was built anew since the store was opened, because
	// the feed did not reach back to where it was.
	Rebuilt uint64
}

// Status returns the state of the index.
func (ix *Index) Status() (IndexStatus, error) {
	s, err := ix.index.Status()
	if err != nil {
		return IndexStatus{}, toPublicError(err)
	}
	return IndexStatus{
		Ready: s.Ready, Built: s.Built, Err: toPublicError(s.Err),
		Behind: s.Behind, BehindBytes: s.BehindBytes, Refused: s.Refused, Rebuilt: s.Rebuilt,
	}, nil
}

// Wait waits until all rows have their entries. If ctx ends first, the error also says
// why the index stands still, if it does.
func (ix *Index) Wait(ctx context.Context) error { return toPublicError(ix.index.Wait(ctx)) }

// WaitFresh waits until an asynchronous index has all that was committed up to a place
// in the feed: that of [DB.StableHead] after a write, say. A caller that knows a version of
// a key waits for StableHead too, because that version is committed. A transactional index
// is always fresh. If ctx ends first, the error also says why the index stands still, if
// it does.
func (ix *Index) WaitFresh(ctx context.Context, c Cursor) error {
	return toPublicError(ix.index.WaitFresh(ctx, string(c)))
}

// IndexReport is what Verify has found.
type IndexReport struct {
	// Rows and Entries are how many were compared.
	Rows, Entries uint64
	// Missing counts entries that rows should have and have not, or not with what
	// should be stored, and Stray entries that no row has. Both are 0 if all is well;
	// otherwise they are of the first 10,000 rows that something is wrong with.
	Missing, Stray uint64
	// Unsettled counts rows that changed each time they were looked at, so that an
	// asynchronous index could not be held against them.
	Unsettled uint64
	// Keys are the first rows that Missing and Stray are about.
	Keys [][]byte
}

// Clean reports whether the index is what its rows say, but for those that are Unsettled.
func (r *IndexReport) Clean() bool { return r.Missing == 0 && r.Stray == 0 }

// Verify makes the entries of all rows again and compares them with those that there
// are, by digest and then, if that is not the same, one by one. It works on one state,
// which it keeps as long as it takes, while writes go on. What an asynchronous index
// lacks is looked at again when it has caught up.
func (ix *Index) Verify(ctx context.Context) (IndexReport, error) {
	r, err := ix.index.Verify(ctx)
	return IndexReport(r), toPublicError(err)
}
