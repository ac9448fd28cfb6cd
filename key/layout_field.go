package key

import "fmt"

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

// Field is one element of a layout's keys: a column, a time bucket of one, or
// a salt.
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
	// Partition says that the field stands before the first bar.
	Partition bool

	name   string // as Name returns it
	column int    // index into Layout.columns, -1 if Column is empty
	// implied says that the layout has a bucket of this column, so that its
	// type goes without saying.
	implied bool
}

func (f *Field) isColumn() bool { return f.Bucket == 0 && f.Salts == 0 }

// Name returns the field as a printed key names it: the layout's text without
// the type, such as region, hour(ts) or salt(16, user).
func (f Field) Name() string { return f.name }

// String returns the field as the layout's canonical form writes it.
func (f Field) String() string {
	if f.isColumn() && f.Type != TypeAny && !f.implied {
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
	case f.Bucket == 0:
		return f.Column
	case f.Bucket == Hour || f.Bucket == Day || f.Bucket == Month:
		return fmt.Sprintf("%v(%s)", f.Bucket, f.Column)
	default:
		return fmt.Sprintf("every(%v, %s)", f.Bucket, f.Column)
	}
}
