// Package rowtable answers one question: on what do the tests of deciding code evaluate commands?
//
// A Table is the rows of a store in memory, in the order of their keys. It has no log, and is for one
// goroutine.
package rowtable

import (
	"maps"
	"slices"

	"github.com/cleavekv/cleave/internal/shard/effect"
)

// Table is a [command.Reader].
type Table struct {
	Keys []string // of all rows, sorted
	Rows map[string]string
}

// New returns a table without rows.
func New() *Table { return &Table{Rows: map[string]string{}} }

// Get appends the value of a key to dst, and reports whether there is one.
func (s *Table) Get(key, dst []byte) ([]byte, bool, error) {
	value, ok := s.Rows[string(key)]
	return append(dst, value...), ok, nil
}

// Scan visits the rows from start up to end until visit returns false. The visitor may change the table.
func (s *Table) Scan(start, end []byte, reverse bool, visit func(key, value []byte) bool) error {
	from, _ := slices.BinarySearch(s.Keys, string(start))
	to, _ := slices.BinarySearch(s.Keys, string(end))
	keys := slices.Clone(s.Keys[from:max(from, to)])
	if reverse {
		slices.Reverse(keys)
	}
	for _, key := range keys {
		if !visit([]byte(key), []byte(s.Rows[key])) {
			return nil
		}
	}
	return nil
}

// Apply carries out a change.
func (s *Table) Apply(op effect.Op) {
	i, found := slices.BinarySearch(s.Keys, string(op.Key))
	switch {
	case op.Delete && found:
		s.Keys = slices.Delete(s.Keys, i, i+1)
	case !op.Delete && !found:
		s.Keys = slices.Insert(s.Keys, i, string(op.Key))
	}
	if delete(s.Rows, string(op.Key)); !op.Delete {
		s.Rows[string(op.Key)] = string(op.Value)
	}
}

// Clone returns a copy.
func (s *Table) Clone() *Table { return &Table{slices.Clone(s.Keys), maps.Clone(s.Rows)} }

// Count returns how many rows belong to a table of effects.
func (s *Table) Count(t effect.Table) (n int) {
	for _, key := range s.Keys {
		if key[0] == byte(t) {
			n++
		}
	}
	return n
}
