package table

import (
	"fmt"
	"slices"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/key"
)

// Row is a row of a table.
type Row struct {
	// Item is the row as the keyspace has it: its key, value, version and expiry.
	cleave.Item
	// Columns are those that the key holds. They are views of the key.
	Columns key.Values
}

// Column returns a column, or an error if the key does not hold one of that name and
// type. Integers are int64 and times are in UTC, see [key.Values.Value].
func Column[T any](r Row, name string) (T, error) {
	var zero T
	v, ok := r.Columns.Value(name)
	if !ok {
		return zero, fmt.Errorf("%w: the key does not hold %q", key.ErrColumn, name)
	}
	typed, ok := v.(T)
	if !ok {
		return zero, fmt.Errorf("%w: %s is %T, not %T", key.ErrColumn, name, v, zero)
	}
	return typed, nil
}

// row makes a row of an item. ok is false if its key is foreign and passed over.
func (t *Table) row(item cleave.Item) (r Row, ok bool, err error) {
	r = Row{Item: item}
	if err := t.layout.DecodeInto(&r.Columns, item.Key); err != nil {
		return Row{}, false, t.stray(item.Key, err)
	}
	return r, true, nil
}

// stray says what to do about a key that is not of the layout: nil is to pass over it.
func (t *Table) stray(k []byte, cause error) error {
	if t.skip {
		t.foreign.Add(1)
		return nil
	}
	return &ForeignKeyError{Keyspace: t.ks.Name(), Key: slices.Clone(k), Cause: cause}
}

// Key returns the key that [Table.Append] would store a row under, for writes of other
// kinds: those of a [cleave.Batch], or of fields of a hash. With a salt that is picked,
// every call picks one.
func (t *Table) Key(columns key.Columns) ([]byte, error) {
	if err := t.check(columns); err != nil {
		return nil, err
	}
	k, err := t.layout.Append(nil, columns)
	if err != nil {
		return nil, t.named(err)
	}
	return k, nil
}

// keys returns all keys that the row of these columns can be under: several if nothing
// tells its salt.
func (t *Table) keys(columns key.Columns) ([][]byte, error) {
	if t.picks(columns) {
		return t.saltedKeys(columns)
	}
	k, err := t.Key(columns)
	return [][]byte{k}, err
}

// picks tells whether nothing but the Salter tells the salt of a row.
func (t *Table) picks(columns key.Columns) bool {
	if !t.picked {
		return false
	}
	_, given := columns[t.fields[t.salt].Name()]
	return !given
}

func (t *Table) saltedKeys(columns key.Columns) ([][]byte, error) {
	one, err := t.Key(columns)
	if err != nil {
		return nil, err
	}
	stem, rest := t.cut(one)
	keys := make([][]byte, t.layout.Salts())
	for salt := range keys {
		keys[salt] = join(stem, salt, rest)
	}
	return keys, nil
}

// check refuses columns that the layout does not name: what was meant by them would
// be lost.
func (t *Table) check(columns key.Columns) error {
	for name := range columns {
		if !t.known[name] {
			return t.named(fmt.Errorf("%w: %q is not among %v", key.ErrColumn, name, t.layout.Columns()))
		}
	}
	return nil
}

// named says which table and layout an error is about.
func (t *Table) named(err error) error {
	return fmt.Errorf("table %s, %v: %w", t.ks.Name(), t.layout, err)
}
