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

// decodeRow makes a row of an item. ok is false if its key is foreign and passed over.
func (t *Table) decodeRow(item cleave.Item) (r Row, ok bool, err error) {
	r = Row{Item: item}
	if err := t.layout.DecodeInto(&r.Columns, item.Key); err != nil {
		return Row{}, false, t.handleForeignKey(item.Key, err)
	}
	return r, true, nil
}

// handleForeignKey decides what to do about a key that is not of the layout: nil is to pass over it.
func (t *Table) handleForeignKey(k []byte, cause error) error {
	if t.skipForeign {
		t.foreignCount.Add(1)
		return nil
	}
	return &ForeignKeyError{Keyspace: t.ks.Name(), Key: slices.Clone(k), Cause: cause}
}

// Key returns the key that [Table.Append] would store a row under, for writes of other
// kinds: those of a [cleave.Batch], or of fields of a hash. With a salt that is picked,
// every call picks one.
func (t *Table) Key(columns key.Columns) ([]byte, error) {
	if err := t.checkColumns(columns); err != nil {
		return nil, err
	}
	k, err := t.layout.Append(nil, columns)
	if err != nil {
		return nil, t.withTableName(err)
	}
	return k, nil
}

// candidateKeys returns all keys that the row of these columns can be under: several if nothing
// tells its salt.
func (t *Table) candidateKeys(columns key.Columns) ([][]byte, error) {
	if t.needsSaltPick(columns) {
		return t.saltedKeys(columns)
	}
	k, err := t.Key(columns)
	return [][]byte{k}, err
}

// needsSaltPick reports whether only the Salter determines the salt of a row.
func (t *Table) needsSaltPick(columns key.Columns) bool {
	if !t.saltPicked {
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
	stem, rest := t.cutSalt(one)
	keys := make([][]byte, t.layout.Salts())
	for salt := range keys {
		keys[salt] = joinKey(stem, salt, rest)
	}
	return keys, nil
}

// checkColumns refuses columns that the layout does not name: what was meant by them would
// be lost.
func (t *Table) checkColumns(columns key.Columns) error {
	for name := range columns {
		if !t.knownNames[name] {
			return t.withTableName(fmt.Errorf("%w: %q is not among %v", key.ErrColumn, name, t.layout.Columns()))
		}
	}
	return nil
}

// withTableName adds which table and layout an error is about.
func (t *Table) withTableName(err error) error {
	return fmt.Errorf("table %s, %v: %w", t.ks.Name(), t.layout, err)
}

// A key without its salt is a place. Places sort as rows are to be read: by all of
// the fields but the salt. A bound of a read is a place as well, with fields missing
// at its end, and perhaps beyond at the end, which comes after all that begin with
// what is before it.
//
// The fields before the salt are the stem, and those behind it the rest. Rows with one
// stem lie in as many stretches of keys as there are salts, each in the order of places.
//
// All of this relies on two properties of tuples: their bytes sort as their elements
// do, one after another, and no element begins with the byte of beyond.

// endByte sorts after every element.
const endByte = 0xff

// cutSalt takes the salt out of a key of the layout.
func (t *Table) cutSalt(k []byte) (stem, rest []byte) {
	stem, tail, _ := t.splitAtSalt(k)
	r := key.NewReader(tail)
	r.Next()
	return stem, tail[r.Offset():]
}

// splitAtSalt divides a key or a place before the salt. whole is false if it ends before that:
// then all of it is returned as the stem.
func (t *Table) splitAtSalt(p []byte) (stem, rest []byte, whole bool) {
	r := key.NewReader(p)
	for range t.salt {
		if !r.Next() {
			return p, nil, false
		}
	}
	at := r.Offset()
	return p[:at:at], p[at:], true
}

// joinKey makes the key, or the bound of keys, with a salt between a stem and a rest.
func joinKey(stem []byte, salt int, rest []byte) []byte {
	var room [9]byte
	return slices.Concat(stem, key.AppendInt(room[:0], int64(salt)), rest)
}

// saltOf returns the salt of a key of the layout.
func (t *Table) saltOf(k []byte) int {
	_, tail, _ := t.splitAtSalt(k)
	r := key.NewReader(tail)
	if !r.Next() {
		return 0
	}
	salt, _ := r.Element().Int()
	return int(salt)
}
