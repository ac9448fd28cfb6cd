package key

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"time"
	"unicode/utf8"
)

// appendTyped appends v as a column of type typ.
func appendTyped(dst []byte, typ Type, v any) ([]byte, error) {
	switch typ {
	case TypeAny:
		return appendUntyped(dst, v)
	case TypeString:
		if s, ok := v.(string); ok {
			return appendUTF8(dst, s)
		}
	case TypeBytes:
		if b, ok := v.([]byte); ok {
			return AppendBytes(dst, b), nil
		}
	case TypeInt:
		if i, u, ok := integer(v); ok && i < 0 {
			return AppendInt(dst, i), nil
		} else if ok {
			return AppendUint(dst, u), nil
		}
		if b, ok := v.(*big.Int); ok {
			return AppendBigInt(dst, b)
		}
	case TypeFloat:
		switch f := v.(type) {
		case float64:
			return AppendFloat64(dst, f), nil
		case float32:
			return AppendFloat64(dst, float64(f)), nil
		}
	case TypeBool:
		if b, ok := v.(bool); ok {
			return AppendBool(dst, b), nil
		}
	case TypeUUID:
		switch u := v.(type) {
		case UUID:
			return AppendUUID(dst, u), nil
		case [16]byte:
			return AppendUUID(dst, u), nil
		}
	case TypeTime:
		if t, ok := v.(time.Time); ok {
			return appendTime(dst, t)
		}
	}
	return nil, fmt.Errorf("want %v, got %T", typ, v)
}

func appendUntyped(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case string:
		return appendUTF8(dst, v)
	case Tuple:
		return nil, errors.New("a tuple; make its elements columns")
	case time.Time:
		// It would come back as a number.
		return nil, errors.New("a time.Time in a column without a type; declare it with :time")
	default:
		return AppendElement(dst, v)
	}
}

// appendUTF8 appends s if it is text that decoders of every language take.
func appendUTF8(dst []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, errors.New("a string that is not UTF-8; use bytes")
	}
	return AppendString(dst, s), nil
}

// typeKinds are the kinds that the typed columns decode from.
var typeKinds = [...]Kind{
	TypeString: KindString, TypeBytes: KindBytes, TypeInt: KindInt, TypeFloat: KindFloat64,
	TypeBool: KindBool, TypeUUID: KindUUID, TypeTime: KindInt,
}

// checkTyped reports whether appendTyped could have written e.
func checkTyped(typ Type, e Element) error {
	kind := e.Kind()
	if typ != TypeAny && kind != typeKinds[typ] {
		return fmt.Errorf("want %v, found %v", typ, kind)
	}
	switch {
	case kind == KindTuple:
		return errors.New("a nested tuple")
	case kind == KindString && !validUTF8(e):
		return errors.New("a string that is not UTF-8")
	case typ == TypeTime:
		_, err := elementTime(e)
		return err
	}
	return nil
}

// validUTF8 checks a string between its zero bytes, without unescaping it: a
// zero byte is a character of its own, so none spans the cut.
func validUTF8(e Element) bool {
	b := e.payload()
	if e.escapes == 0 {
		return utf8.Valid(b)
	}
	for {
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			return utf8.Valid(b)
		}
		if !utf8.Valid(b[:i]) {
			return false
		}
		b = b[i+2:]
	}
}
