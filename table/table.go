package table

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/key"
)

// ErrNoTable means that a keyspace cannot be a table, or not with these options: the text
// says what it lacks.
var ErrNoTable = errors.New("table: the keyspace is no table")

// ErrQuery means that a read asks for what the layout cannot answer: the text says
// what to ask instead.
var ErrQuery = errors.New("table: bad query")

// Options say how a table is used. The zero value works.
type Options struct {
	// Salter picks salts that the layout does not derive, such as salt(16). It must
	// be safe for concurrent use. Default: at random.
	Salter key.Salter
	// SkipForeign passes over keys that are not of the layout, and counts them:
	// see [Table.Foreign]. By default they are an error, [ForeignKeyError].
	SkipForeign bool
}

// Table is a keyspace whose keys are made from columns, by its layout. Its methods may
// be called by any goroutine.
type Table struct {
	db     *cleave.DB
	ks     *cleave.Keyspace
	layout *key.Layout
	fields []key.Field
	// salt is the index of the salt among the fields, -1 if there is none.
	salt int
	// picked tells that nothing but the Salter says which salt a row gets.
	picked bool
	// known are the names that columns may be given by.
	known map[string]bool
	// alone are layouts of one column each, by which its values are encoded, for
	// columns that are in the key themselves.
	alone map[string]*key.Layout

	skip    bool
	foreign atomic.Uint64
}

// Open returns the table that a keyspace is. The keyspace must be of kind Range and
// have a layout, with or without salts and buckets.
func Open(db *cleave.DB, ks *cleave.Keyspace, o Options) (*Table, error) {
	if db == nil || ks == nil {
		return nil, fmt.Errorf("%w: nil store or keyspace", ErrNoTable)
	}
	declared := ks.Options()
	switch {
	case ks.DB() != db:
		return nil, fmt.Errorf("%w: keyspace %s is of another DB: use one of this", ErrNoTable, ks.Name())
	case declared.Kind != cleave.Range:
		return nil, fmt.Errorf("%w: %s is of kind hash, which has no order of keys: create it with Kind: cleave.Range", ErrNoTable, ks.Name())
	case declared.Layout == "":
		return nil, fmt.Errorf("%w: %s has no layout: create it with one, such as salt(16, id) | ts:time, id", ErrNoTable, ks.Name())
	}
	layout, err := key.ParseLayout(declared.Layout)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNoTable, ks.Name(), err)
	}
	t := &Table{db: db, ks: ks, skip: o.SkipForeign}
	if err := t.shape(layout, o.Salter); err != nil {
		return nil, fmt.Errorf("%w: %s, %v: %w", ErrNoTable, ks.Name(), layout, err)
	}
	return t, nil
}

// shape takes the layout to pieces.
func (t *Table) shape(layout *key.Layout, salter key.Salter) (err error) {
	t.fields = layout.Fields()
	t.salt = slices.IndexFunc(t.fields, func(f key.Field) bool { return f.Salts > 0 })
	t.picked = t.salt >= 0 && t.fields[t.salt].Column == ""
	if t.picked && salter == nil {
		if salter, err = key.NewRandomSalt(t.fields[t.salt].Salts, rand.Uint64); err != nil {
			return err
		}
	}
	if salter != nil {
		if layout, err = layout.WithSalter(salter); err != nil {
			return err
		}
	}
	t.layout = layout
	t.known, t.alone = map[string]bool{}, map[string]*key.Layout{}
	for _, name := range layout.Columns() {
		t.known[name] = true
	}
	for _, f := range t.fields {
		if f.Bucket != 0 || f.Salts > 0 {
			continue
		}
		text := f.Column
		if f.Type != key.TypeAny {
			text += ":" + f.Type.String()
		}
		if t.alone[f.Column], err = key.ParseLayout(text); err != nil {
			return err
		}
	}
	if t.salt >= 0 {
		// One that follows from the rest of the key may not be chosen.
		f := &t.fields[t.salt]
		t.known[f.Name()] = t.picked || t.alone[f.Column] == nil
	}
	return nil
}

// Keyspace returns the keyspace that the rows are in.
func (t *Table) Keyspace() *cleave.Keyspace { return t.ks }

// Layout returns the layout of the keys, with the Salter of the table.
func (t *Table) Layout() *key.Layout { return t.layout }

// Foreign returns how many keys that are not of the layout were passed over since Open,
// each as often as it was met.
func (t *Table) Foreign() uint64 { return t.foreign.Load() }

// ForeignKeyError says which key of the keyspace is not of the layout. It matches
// key.ErrForeignKey.
type ForeignKeyError struct {
	Keyspace string
	Key      []byte
	// Cause is a [*key.FitError].
	Cause error
}

// Error names the keyspace, the key and the cause.
func (e *ForeignKeyError) Error() string {
	return fmt.Sprintf("table: %s has the key %q: %v: delete it, or open the table with SkipForeign", e.Keyspace, e.Key, e.Cause)
}

// Unwrap returns the cause.
func (e *ForeignKeyError) Unwrap() error { return e.Cause }
