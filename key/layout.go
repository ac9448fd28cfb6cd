package key

import (
	"fmt"
	"slices"
	"strings"
)

// Layout is the declared shape of a keyspace's keys: which columns they are
// made of, in which order, and which of them are kept together.
//
//	(region, hour(ts)) | id
//	salt(16) | ts:time
//	(tenant:string, month(ts)) | ts, id:uuid
//
// What stands before the first bar is the partition: records that agree on it
// are kept together, so they are found together, and are hot together. What
// follows orders the records within a partition. Without a bar all of it is
// the partition; further bars mean no more than commas.
//
// The grammar, with blanks allowed between any two tokens:
//
//	layout  = section { "|" section } .
//	section = list | "(" list ")" .
//	list    = field { "," field } .
//	field   = column | bucket | salt .
//	column  = name [ ":" type ] .
//	type    = "string" | "bytes" | "int" | "float" | "bool" | "uuid" | "time" .
//	bucket  = ( "hour" | "day" | "month" ) "(" name ")"
//	        | "every" "(" width "," name ")" .
//	salt    = "salt" "(" number [ "," name ] ")" .
//	name    = ( letter | "_" ) { letter | digit | "_" } .    ASCII only
//	width   = a duration such as 15m, see [Every] .
//
// A key is the tuple of its fields, so any decoder of FoundationDB's tuple
// layer reads it. The fields are encoded as follows.
//
//   - A column with a type is encoded as that type, and takes no other and no
//     nil. One without a type takes any element but a tuple or a time.Time,
//     and gives back what it was given; integers sort apart from strings.
//   - A time is its nanoseconds since 1970 as an integer, which is exact. It
//     is from the years 1 to 9999 and is not the zero time.Time. Its zone is
//     not kept: decoding gives UTC.
//   - A bucket is the number of the [Span] that the column's time is in. Its
//     column is a time everywhere in the layout.
//   - A salt is a number from 0 up to, not including, its argument. With a
//     column it is [DerivedSalt] of the column's encoding; without one it is
//     picked by the [Salter] of [Layout.WithSalter]. A layout has at most one
//     salt, and it is in the partition.
//
// A Layout is immutable and safe for concurrent use, as far as its Salter is.
// Get one from [ParseLayout]: the zero Layout is the shape of the empty key. The
// methods of a nil *Layout fail with [ErrLayout]; those that return no error
// answer as the zero Layout does.
type Layout struct {
	fields    []Field
	columns   []column
	partition int // how many fields are the partition
	salt      int // index of the salt field, -1 if there is none
	derived   DerivedSalt
	salter    Salter
}

// MaxFields bounds how many fields a layout may have. Every field is decoded
// for every key that is explained; real keys have fewer than ten.
const MaxFields = 64

// column is one distinct input of a layout.
type column struct {
	name    string
	typ     Type
	bare    int   // the field that is the column itself, -1 if there is none
	buckets []int // the fields that are buckets of it
}

// Fields returns the fields in key order.
func (l *Layout) Fields() []Field {
	if l == nil {
		return nil
	}
	return slices.Clone(l.fields)
}

// Columns returns the names of the distinct columns that a key is made of, in
// the order in which the layout first names them.
func (l *Layout) Columns() []string {
	if l == nil {
		return nil
	}
	names := make([]string, len(l.columns))
	for i, c := range l.columns {
		names[i] = c.name
	}
	return names
}

// Salts returns how many salts the layout spreads a partition over: 1 if it
// has none.
func (l *Layout) Salts() int {
	if f := l.saltField(); f != nil {
		return f.Salts
	}
	return 1
}

// saltField returns the salt, or nil.
func (l *Layout) saltField() *Field {
	if l == nil || l.salt < 0 || l.salt >= len(l.fields) {
		return nil // the last is the zero Layout
	}
	return &l.fields[l.salt]
}

// WithSalter returns the layout with s to pick its salts when it encodes. It
// fails with [ErrSalt] if the layout has no salt to pick, because there is
// none or it is derived, or if s picks from another number of salts.
func (l *Layout) WithSalter(s Salter) (*Layout, error) {
	f := l.saltField()
	switch {
	case l == nil:
		return nil, errNilLayout
	case f == nil:
		return nil, fmt.Errorf("%w: layout %v has none", ErrSalt, l)
	case f.Column != "":
		return nil, fmt.Errorf("%w: %v is derived from its column and needs no Salter", ErrSalt, f.Name())
	case s == nil:
		return nil, fmt.Errorf("%w: nil Salter", ErrSalt)
	case s.Salts() != f.Salts:
		return nil, fmt.Errorf("%w: the Salter has %d salts, %v has %d", ErrSalt, s.Salts(), f.Name(), f.Salts)
	}
	salted := *l
	salted.salter = s
	return &salted, nil
}

// String returns the layout in its one canonical form, which [ParseLayout]
// reads back: single blanks, the partition in parentheses if it has several
// fields, and no type where a bucket implies it. The zero Layout's is empty
// and is not read back.
func (l *Layout) String() string {
	if l == nil || l.partition == 0 {
		return ""
	}
	var b strings.Builder
	if l.partition > 1 {
		b.WriteByte('(')
	}
	for i := range l.fields {
		switch {
		case i == 0:
		case i == l.partition:
			b.WriteString(" | ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(l.fields[i].String())
		if i == l.partition-1 && l.partition > 1 {
			b.WriteByte(')')
		}
	}
	return b.String()
}

// MarshalText returns [Layout.String].
func (l *Layout) MarshalText() ([]byte, error) {
	if l == nil {
		return nil, errNilLayout
	}
	return []byte(l.String()), nil
}

// UnmarshalText is [ParseLayout].
func (l *Layout) UnmarshalText(text []byte) error {
	if l == nil {
		return errNilLayout
	}
	parsed, err := ParseLayout(string(text))
	if err != nil {
		return err
	}
	*l = *parsed
	return nil
}

// columnIndex returns the index of the named column, or -1. Layouts are so
// short that a walk beats a map.
func (l *Layout) columnIndex(name string) int {
	for i := range l.columns {
		if l.columns[i].name == name {
			return i
		}
	}
	return -1
}

// fieldIndex returns the index of the bucket or salt with that name, or -1.
func (l *Layout) fieldIndex(name string) int {
	for i := range l.fields {
		if f := &l.fields[i]; f.name == name && !f.isColumn() {
			return i
		}
	}
	return -1
}
