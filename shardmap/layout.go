package shardmap

import "reflect"

// layoutKind tells how a map stores its entries. It is chosen once, by the
// types of key and value.
type layoutKind uint8

const (
	layoutEntry layoutKind = iota // buckets of pointers to entries: any type
	layoutWord                    // keys and values of a word inside the buckets
)

// layoutOf chooses the layout for keys of type k and values of type v.
func layoutOf(k, v reflect.Type) layoutKind {
	if k.Size() <= wordBytes && v.Size() <= wordBytes && bitwise(k) && pointerFree(v) {
		return layoutWord
	}
	return layoutEntry
}

// bitwise tells whether == on t is the equality of all its bytes. That is
// wrong for floats (-0 == 0, NaN != NaN), for padding and blank fields, which
// == does not look at, and for whatever points elsewhere.
func bitwise(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.Uintptr,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	case reflect.Array:
		return t.Size() == 0 || bitwise(t.Elem())
	case reflect.Struct:
		size := uintptr(0)
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Name == "_" || !bitwise(f.Type) {
				return false
			}
			size += f.Type.Size()
		}
		return size == t.Size()
	default:
		return false
	}
}

// pointerFree tells whether values of t may live in memory that the garbage
// collector does not scan.
func pointerFree(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return true
	case reflect.Array:
		return t.Len() == 0 || pointerFree(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !pointerFree(t.Field(i).Type) {
				return false
			}
		}
		return true
	default:
		return bitwise(t)
	}
}
