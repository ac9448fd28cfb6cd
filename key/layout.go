package key

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Layout is the declared shape of a keyspace's keys: which columns they are
// made of, in which order, and which of them are kept together.
//
//	(region, hour(ts)) | id
//	salt(16) | ts:time
//	hash(id), id
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
//	field   = column | bucket | salt | hash .
//	column  = name [ ":" type ] .
//	type    = "string" | "bytes" | "int" | "float" | "bool" | "uuid" | "time" .
//	bucket  = ( "minute" | "hour" | "day" | "month" ) "(" name ")"
//	        | "every" "(" width "," name ")" .
//	salt    = "salt" "(" number [ "," name ] ")" .
//	hash    = "hash" "(" name ")" .
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
//   - A hash is the [ColumnHash] of the column's encoding, a number of 32 bits. It
//     stands in the partition and before its column, which is in the key as well,
//     because values may share a hash. It is the salt without end: salt(n, id) is
//     hash(id) scaled to n. It spreads keys over any number of shards and costs a
//     reader that knows the column nothing, but keys are in no order of the column:
//     there are too many hashes to merge.
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
	field   int   // the field that is the column itself, -1 if there is none
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

// fieldIndex returns the index of the bucket, salt or hash with that name, or -1.
func (l *Layout) fieldIndex(name string) int {
	for i := range l.fields {
		if f := &l.fields[i]; f.name == name && !f.IsColumn() {
			return i
		}
	}
	return -1
}

// Type is what a layout declares a column to hold.
type Type uint8

// The types. The zero Type is that of a column without a declared one.
const (
	TypeAny    Type = iota // any element but a tuple
	TypeString             // string, valid UTF-8
	TypeBytes              // []byte
	TypeInt                // an integer of any Go type, or *big.Int
	TypeFloat              // float64 or float32; encoded as 64 bits
	TypeBool               // bool
	TypeUUID               // UUID or [16]byte
	TypeTime               // time.Time
)

var typeNames = [...]string{"any", "string", "bytes", "int", "float", "bool", "uuid", "time"}

// String returns the type's name in a layout; "any" for TypeAny, which is
// written by leaving the type out.
func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("Type(%d)", uint8(t))
}

// Field is one element of a layout's keys: a column, a time bucket or the hash
// of one, or a salt.
type Field struct {
	// Column is the column that the field is computed from. It is empty for
	// a salt that is picked rather than derived.
	Column string
	// Type is the column's type.
	Type Type
	// Bucket is not zero iff the field is a time bucket of the column.
	Bucket Bucket
	// Salts is not zero iff the field is a salt: how many there are.
	Salts int
	// Hash means that the field is the hash of the column.
	Hash bool
	// Partition means that the field stands before the first bar.
	Partition bool

	name   string // as Name returns it
	column int    // index into Layout.columns, -1 if Column is empty
	// implied means that the layout has a bucket of this column, so that its
	// type goes without saying.
	implied bool
}

// IsColumn reports whether the field is a column itself, and not computed from
// one.
func (f Field) IsColumn() bool { return f.Bucket == 0 && f.Salts == 0 && !f.Hash }

// Name returns the field as a printed key names it: the layout's text without
// the type, such as region, hour(ts), salt(16, user) or hash(id).
func (f Field) Name() string { return f.name }

// String returns the field as the layout's canonical form writes it.
func (f Field) String() string {
	if f.IsColumn() && f.Type != TypeAny && !f.implied {
		return f.name + ":" + f.Type.String()
	}
	return f.name
}

// fieldName computes what Name returns.
func fieldName(f *Field) string {
	switch {
	case f.Salts > 0 && f.Column == "":
		return fmt.Sprintf("salt(%d)", f.Salts)
	case f.Salts > 0:
		return fmt.Sprintf("salt(%d, %s)", f.Salts, f.Column)
	case f.Hash:
		return fmt.Sprintf("hash(%s)", f.Column)
	case f.Bucket == 0:
		return f.Column
	case slices.Contains(namedBuckets[:], f.Bucket):
		return fmt.Sprintf("%v(%s)", f.Bucket, f.Column)
	default:
		return fmt.Sprintf("every(%v, %s)", f.Bucket, f.Column)
	}
}

// ErrLayout means a text is not a layout, or a method was called on a nil
// *Layout. Every [*LayoutError] matches it.
var ErrLayout = errors.New("key: bad layout")

// errNilLayout is what a nil *Layout answers: it usually comes from a
// ParseLayout whose error was passed over.
var errNilLayout = fmt.Errorf("%w: it is nil; get one from ParseLayout and look at its error", ErrLayout)

// LayoutError reports where a layout's text is wrong and what belongs there.
type LayoutError struct {
	// Layout is the text as it was given.
	Layout string
	// Offset is the byte of Layout at which the trouble starts.
	Offset int
	// Problem is what is wrong or what was expected.
	Problem string
}

// Error quotes the text and names the byte and the problem.
func (e *LayoutError) Error() string {
	return fmt.Sprintf("%v %q: byte %d: %s", ErrLayout, e.Layout, e.Offset, e.Problem)
}

// Is reports whether target is [ErrLayout].
func (e *LayoutError) Is(target error) bool { return target == ErrLayout }

// ErrColumn means the columns given do not make a key of the layout: one is
// missing, of the wrong type, out of range, or not in the layout at all. The
// message names it and what was wanted.
var ErrColumn = errors.New("key: column does not fit the layout")

// ErrForeignKey means bytes are not a key of the layout: they belong to another
// keyspace or layout. Every [*FitError] matches it.
var ErrForeignKey = errors.New("key: not a key of this layout")

// FitError reports where a key stopped fitting a layout.
type FitError struct {
	// Offset is the byte of the key at which the field starts that does not
	// fit, or the exact byte if the key is not a tuple there.
	Offset int
	// Field is the name of that field; empty if the key goes on after the
	// last one.
	Field string
	// Cause is what is wrong. It is a [*DecodeError] if the key is not
	// even a tuple.
	Cause error
}

// Error names the byte, the field and the cause.
func (e *FitError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("%v: byte %d: %s", ErrForeignKey, e.Offset, trimPackageName(e.Cause))
	}
	return fmt.Sprintf("%v: byte %d: %s: %s", ErrForeignKey, e.Offset, e.Field, trimPackageName(e.Cause))
}

// Is reports whether target is [ErrForeignKey].
func (e *FitError) Is(target error) bool { return target == ErrForeignKey }

// Unwrap returns the cause.
func (e *FitError) Unwrap() error { return e.Cause }
