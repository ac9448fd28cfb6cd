package cleave

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cleavekv/cleave/internal/index"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/partition"
)

// IndexMode is when the entries of a row are written.
type IndexMode uint8

const (
	// Transactional entries commit with their row, wherever they are: whoever reads
	// both in one View or Update finds that they agree, always. Every write to the
	// keyspace becomes a transaction, which is its price.
	Transactional = IndexMode(index.Transactional)
	// Asynchronous entries follow their row by the feed, soon. Writes to the keyspace
	// do not wait for them, but on a machine that is fully used they are slower: somebody
	// writes the entries. See [Index.Status] for how late these are, and [Index.WaitFresh].
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

// definition checks the options.
func (o *IndexOptions) definition(db *DB) (index.Definition, index.Extractor, error) {
	d := index.Definition{
		Name: o.Name, Mode: index.Mode(o.Mode), Unique: o.Unique,
		Columns: o.Columns, Stored: slices.Clone(o.Stored), Function: o.Function, Version: o.Version,
	}
	d.Canonical()
	switch {
	case o.Keyspace == nil:
		return d, nil, optionError("an index needs a Keyspace")
	case o.Keyspace.db != db:
		return d, nil, optionError("keyspace %s is of another DB than the index", o.Keyspace.Name())
	case o.Keyspace.space.OfIndex() != "":
		return d, nil, optionError("keyspace %s has the entries of %s: index the rows", o.Keyspace.Name(), o.Keyspace.space.OfIndex())
	case (o.Extract == nil) != (o.Function == ""):
		return d, nil, optionError("Extract and Function, its name, come together")
	}
	if err := o.Keyspace.space.Check(); err != nil {
		return d, nil, err
	}
	d.Keyspace = o.Keyspace.Name()
	if n := len(d.Space()); n > partition.MaxNameBytes {
		return d, nil, optionError("%q, the name of the keyspace of its entries, has %d bytes: use at most %d", d.Space(), n, partition.MaxNameBytes)
	}
	if err := d.Validate(o.Keyspace.space.Layout); err != nil {
		return d, nil, err
	}
	if o.Extract != nil {
		return d, extractor(o.Extract), nil
	}
	x, err := index.New(&d, o.Keyspace.space.Layout)
	return d, x, err
}

// extractor makes a function of a program one that the index understands.
func extractor(f func(IndexRow) ([]IndexEntry, error)) index.Extractor {
	return index.Func(func(r *index.Row) ([]index.Made, error) {
		entries, err := f(*publicRow(r))
		made := make([]index.Made, len(entries))
		for i, e := range entries {
			made[i] = index.Made{Tuple: e.Entry, Value: e.Value}
		}
		return made, err
	})
}

// Index is an index on a keyspace. Its methods may be called by any goroutine.
type Index struct {
	db      *DB
	rows    *Keyspace
	entries *Keyspace
	name    string
}

func (db *DB) indexOf(x *node.Index) *Index {
	return &Index{
		db: db, name: x.Name, rows: &Keyspace{db: db, space: x.Rows},
		entries: &Keyspace{db: db, space: x.Entries, inner: true},
	}
}

// now returns the index as it is now.
func (ix *Index) now() (*node.Index, error) {
	x, err := ix.db.node.Index(ix.rows.Name(), ix.name)
	if err == nil && x.Entries != ix.entries.space {
		err = fmt.Errorf("%w: %q of keyspace %q was dropped", node.ErrNoIndex, ix.name, ix.rows.Name())
	}
	return x, err
}

// CreateIndex makes an index. When it returns, writes maintain it, if it is
// transactional; the rows that are there already get their entries in the background,
// while writes go on, also over a restart: see [Index.Wait]. If the name is taken the
// error is ErrIndexExists.
func (db *DB) CreateIndex(ctx context.Context, o IndexOptions) (*Index, error) {
	d, extract, err := o.definition(db)
	if err != nil {
		return nil, public(err)
	}
	x, err := db.node.CreateIndex(ctx, o.Keyspace.space, d, extract)
	if x != nil { // also if the caller did not wait for the end
		db.keepers.start(db, x)
	}
	if err != nil {
		return nil, public(err)
	}
	return db.indexOf(x), nil
}

// OpenIndex returns the index of a name, and makes it if there is none. If there is
// one with other options, the error is ErrIndexExists. It declares the function of an
// index that has one.
func (db *DB) OpenIndex(ctx context.Context, o IndexOptions) (*Index, error) {
	d, extract, err := o.definition(db)
	if err == nil {
		err = db.node.Closed()
	}
	if err != nil {
		return nil, public(err)
	}
	for {
		x, err := db.node.Index(d.Keyspace, d.Name)
		if errors.Is(err, node.ErrNoIndex) {
			made, err := db.CreateIndex(ctx, o)
			if errors.Is(err, ErrIndexExists) {
				continue // somebody else was faster
			}
			return made, err
		}
		if err != nil {
			return nil, public(err)
		}
		if !x.Same(&d) {
			return nil, fmt.Errorf("%w with other options: %q of keyspace %q is %s, not %s: drop it first", ErrIndexExists, d.Name, d.Keyspace, says(&x.Definition), says(&d))
		}
		if d.Function != "" && x.Extract == nil {
			x, err = db.node.DeclareIndex(x, extract)
			if errors.Is(err, node.ErrNoIndex) {
				continue // dropped meanwhile: look again
			}
			if err != nil {
				return nil, public(err)
			}
			db.keepers.start(db, x)
		}
		return db.indexOf(x), nil
	}
}

// says describes what an index is about.
func says(d *index.Definition) string {
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
	x, err := db.node.Index(keyspace, name)
	if err != nil {
		return nil, public(err)
	}
	return db.indexOf(x), nil
}

// Indexes returns all indexes by keyspace and name.
func (db *DB) Indexes() (all []*Index) {
	for _, x := range db.node.AllIndexes() {
		all = append(all, db.indexOf(x))
	}
	return all
}

// DropIndex removes an index. Nobody finds its entries when it returns; the room that
// they took is given back in the background. Dropping a keyspace drops its indexes.
func (db *DB) DropIndex(ctx context.Context, keyspace, name string) error {
	err := db.node.DropIndex(ctx, keyspace, name)
	db.keepers.forget()
	return public(err)
}

// Name is the name of the index.
func (ix *Index) Name() string { return ix.name }

// Keyspace is the keyspace that it is about.
func (ix *Index) Keyspace() *Keyspace { return ix.rows }

// Entries is the keyspace of its entries, named "index/", the keyspace, "/" and the
// index. It splits and moves like others, and takes no writes but those of the index.
func (ix *Index) Entries() *Keyspace { return &Keyspace{db: ix.db, space: ix.entries.space} }

// Options returns what the index was created with. A function is told by its name.
func (ix *Index) Options() (IndexOptions, error) {
	x, err := ix.now()
	if err != nil {
		return IndexOptions{}, public(err)
	}
	return IndexOptions{
		Name: x.Name, Keyspace: ix.rows, Mode: IndexMode(x.Mode), Unique: x.Unique, Columns: x.Columns,
		Stored: slices.Clone(x.Stored), Function: x.Function, Version: x.Version,
	}, nil
}

// undeclared says that a function is missing.
func undeclared(x *node.Index) error {
	return fmt.Errorf("%w: index %q of keyspace %q needs function %q of version %q: use OpenIndex with it, or drop the index",
		ErrUndeclared, x.Name, x.Keyspace, x.Function, x.Version)
}
