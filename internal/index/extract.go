package index

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/key"
)

// Row is a row as an extractor sees it.
type Row struct {
	Key []byte
	// Hash tells that the row holds fields, and Value is what it holds if not.
	Hash  bool
	Value []byte
	// Fields are those that the extractor needs, by name.
	Fields []Field
	// ExpiryMS is when the row expires, in Unix milliseconds; 0 means never.
	ExpiryMS int64
}

// Field is a field of a hash.
type Field struct{ Name, Value []byte }

// Field returns the value of a field.
func (r *Row) Field(name string) (value []byte, ok bool) {
	i, ok := slices.BinarySearchFunc(r.Fields, name, func(f Field, name string) int { return bytes.Compare(f.Name, []byte(name)) })
	if !ok {
		return nil, false
	}
	return r.Fields[i].Value, true
}

// Extractor makes the entries of rows. It may be used by any goroutine.
type Extractor interface {
	// Needs tells which fields of a hash it looks at, sorted; all of them if whole.
	Needs() (fields []string, whole bool)
	// Entries returns the entries of a row by their keys, none if it has none. The
	// error matches ErrEntry: then there is a mistake in the row.
	Entries(r *Row) ([]Entry, error)
}

// Func is an extractor that a program hands in.
type Func func(r *Row) ([]Made, error)

// Made is an entry as a function makes it.
type Made struct {
	Tuple key.Tuple
	Value []byte
}

// Needs implements [Extractor].
func (f Func) Needs() ([]string, bool) { return nil, true }

// Entries implements [Extractor].
func (f Func) Entries(r *Row) ([]Entry, error) {
	made, err := f.call(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEntry, err)
	}
	entries := make([]Entry, len(made))
	for i, m := range made {
		k, err := AppendKey(nil, m.Tuple, r.Key)
		if err != nil {
			return nil, err
		}
		entries[i] = Entry{k, m.Value}
	}
	if entries, err = tidy(entries); err != nil {
		return nil, err
	}
	for i := range entries { // the function may keep what it has handed out
		entries[i].Value = bytes.Clone(entries[i].Value)
	}
	return entries, nil
}

// call calls the function. A panic is an error like others: it must not take down a
// program that builds the index, now and after each restart.
func (f Func) call(r *Row) (made []Made, err error) {
	defer func() {
		if p := recover(); p != nil {
			made, err = nil, fmt.Errorf("the function has panicked: %v", p)
		}
	}()
	return f(r)
}
