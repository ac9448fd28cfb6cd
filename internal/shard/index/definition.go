// Package index computes the entries that a row has in an index.
//
// A [Definition] describes an index. An [Extractor] made of it turns a [Row] into entries: each
// is an ordered tuple of package key, followed by the key of the row, so that entries sort by
// the tuple and two rows never share one. [Diff] returns what has to be written when a row
// changes.
//
// Everything here is pure: equal rows give equal entries in every process, so the entries of an
// old row can be computed from the row. A caller's own function has to keep to that.
//
// Nothing here decides when entries are written. An index that is Transactional is maintained by
// the transaction that writes the row, one that is Asynchronous by a reader of the feed;
// DESIGN.md has both, with the bytes.
//
// Limits: a row has at most [MaxEntries] entries, and an entry's key, tuple and row
// key together, at most [MaxKeyBytes].
package index

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cleavekv/cleave/key"
)

// Mode is when the entries of a row are written.
type Mode uint8

// The modes.
const (
	// Transactional entries commit with their row.
	Transactional Mode = iota
	// Asynchronous entries follow their row, by the feed.
	Asynchronous
)

// String is the word for m.
func (m Mode) String() string {
	switch m {
	case Transactional:
		return "transactional"
	case Asynchronous:
		return "asynchronous"
	default:
		return fmt.Sprintf("Mode(%d)", uint8(m))
	}
}

// ErrDefinition means that an index cannot be like that: the text has what to change.
var ErrDefinition = errors.New("index: bad definition")

// The limits of a definition.
const (
	// MaxNameBytes bounds a name: it is typed, printed and stored.
	MaxNameBytes = 64
	// MaxStoredFields bounds the fields that are stored with an entry.
	MaxStoredFields = 64
)

// Definition describes an index. It is kept in the catalog.
type Definition struct {
	// Name is unique among the indexes of Keyspace.
	Name     string `json:"name"`
	Keyspace string `json:"keyspace"`
	Mode     Mode   `json:"mode"`
	// Unique refuses a second row with the same tuple.
	Unique bool `json:"unique,omitempty"`
	// Columns is what entries are made of, in the notation of key.Layout: parts of
	// the row's key, and fields of the hash that it holds. Empty for a function.
	Columns string `json:"columns,omitempty"`
	// Stored are fields of the hash that are kept with the entry.
	Stored []string `json:"stored,omitempty"`
	// Function names the function that makes the entries, and Version which one of
	// that name it is. Invariant: either it or Columns is set.
	Function string `json:"function,omitempty"`
	Version  string `json:"version,omitempty"`
	// Ready reports whether all rows have their entries.
	Ready bool `json:"ready,omitempty"`
}

// Validate reports everything that is wrong with the definition of an index on rows
// whose keys have a layout, empty for none.
func (d *Definition) Validate(layout string) error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("%w: %s", ErrDefinition, fmt.Sprintf(format, args...)))
		}
	}
	refuse(d.Name == "" || len(d.Name) > MaxNameBytes, "name of %d bytes: use 1 to %d", len(d.Name), MaxNameBytes)
	refuse(strings.ContainsFunc(d.Name, func(r rune) bool { return r < '!' || r > '~' || r == '/' }),
		"name %q: use printable ASCII without spaces and slashes", d.Name)
	refuse(d.Mode > Asynchronous, "%v: use Transactional or Asynchronous", d.Mode)
	refuse(d.Unique && d.Mode != Transactional, "an index that follows its rows cannot refuse one: a unique index is Transactional")
	refuse((d.Columns == "") == (d.Function == ""), "use one of columns and a function")
	refuse(d.Function == "" && d.Version != "", "a version without a function: leave it out")
	refuse(d.Function != "" && len(d.Stored) > 0, "a function says itself what is stored: leave Stored out")
	refuse(len(d.Stored) > MaxStoredFields, "%d stored fields: use at most %d", len(d.Stored), MaxStoredFields)
	sorted := slices.Sorted(slices.Values(d.Stored))
	refuse(len(slices.Compact(sorted)) < len(d.Stored), "stored fields %q: name each once", d.Stored)
	if d.Columns != "" {
		if _, err := newColumnExtractor(d, layout); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// IsSame reports whether two definitions are of the same index, whatever its state.
func (d *Definition) IsSame(o *Definition) bool {
	return d.Name == o.Name && d.Keyspace == o.Keyspace && d.Mode == o.Mode && d.Unique == o.Unique &&
		d.Columns == o.Columns && slices.Equal(d.Stored, o.Stored) && d.Function == o.Function && d.Version == o.Version
}

// NormalizeColumns writes the columns in their one form, if they are columns at all.
func (d *Definition) NormalizeColumns() {
	if l, err := key.ParseLayout(d.Columns); err == nil {
		d.Columns = l.String()
	}
}

// Encode returns the bytes of the definition in the catalog.
func (d *Definition) Encode() ([]byte, error) { return json.Marshal(d) }

// DecodeDefinition takes the bytes of a definition apart.
func DecodeDefinition(b []byte) (*Definition, error) {
	d := new(Definition)
	if err := json.Unmarshal(b, d); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDefinition, err)
	}
	if d.Name == "" || d.Keyspace == "" || d.Mode > Asynchronous {
		return nil, fmt.Errorf("%w: %q on %q, %v: it is damaged, or of another version", ErrDefinition, d.Name, d.Keyspace, d.Mode)
	}
	return d, nil
}

// EntryKeyspace is the name of the keyspace that has the entries.
func (d *Definition) EntryKeyspace() string { return KeyspacePrefix + d.Keyspace + "/" + d.Name }

// KeyspacePrefix begins the names of keyspaces that have entries.
const KeyspacePrefix = "index/"
