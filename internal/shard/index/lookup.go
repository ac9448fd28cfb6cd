package index

import (
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/cleavekv/cleave/key"
)

// ConvertValues returns values to look for as the entries of an extractor have them. Those of
// columns are held to their types, because a value of another type is one that no entry
// can have, and a time becomes the number that a column or a bucket of it is. Those of a
// function are what it makes, and stay as they are.
//
// upper is for a bound that is not included: a time inside of a bucket, where the values
// end, then is the next bucket, so that all before that time is below the bound.
func ConvertValues(x Extractor, values key.Tuple, upper bool) (key.Tuple, error) {
	c, ok := x.(*columnExtractor)
	if !ok || len(values) == 0 {
		return values, nil
	}
	fields := c.layout.Fields()
	if len(values) > len(fields) {
		return nil, fmt.Errorf("%w: %d values, but %v has %d columns", ErrEntry, len(values), c.layout, len(fields))
	}
	found := make(key.Tuple, len(values))
	for i, v := range values {
		e, err := c.convertValue(fields[i], v, upper && i == len(values)-1)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrEntry, fields[i].Name(), err)
		}
		found[i] = e
	}
	return found, nil
}

// ParseValues returns values to look up that were written as text, as the fields of a hash are:
// each is parsed as the type of its column. A time may also be given as the number that an entry
// shows it as. The types of the results of a function are unknown.
func ParseValues(x Extractor, words [][]byte) (key.Tuple, error) {
	c, ok := x.(*columnExtractor)
	if !ok {
		return nil, fmt.Errorf("%w: an index by a function takes values of a program, not text", ErrEntry)
	}
	fields := c.layout.Fields()
	if len(words) > len(fields) {
		return nil, fmt.Errorf("%w: %d values, but %v has %d columns", ErrEntry, len(words), c.layout, len(fields))
	}
	values := make(key.Tuple, len(words))
	for i, word := range words {
		f := fields[i]
		typ := c.columnType(f.Column)
		if f.Bucket != 0 {
			typ = key.TypeTime
		}
		v, err := parseValue(typ, word)
		if f.Salts > 0 || typ == key.TypeTime && err != nil {
			v, err = parseValue(key.TypeInt, word)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrEntry, f.Name(), err)
		}
		values[i] = v
	}
	return values, nil
}

// convertValue returns the value of one field of the layout as entries have it. Whole numbers
// are taken for times and buckets too: that is what an entry shows them as.
func (c *columnExtractor) convertValue(f key.Field, v any, upper bool) (any, error) {
	t, isTime := v.(time.Time)
	typ := c.columnType(f.Column)
	switch {
	case f.Salts > 0:
		return v, checkType(isInteger(v), "the number of a salt", v)
	case f.Bucket != 0 && isTime:
		return bucketIndex(f.Bucket, t, upper)
	case f.Bucket != 0, typ == key.TypeTime && !isTime:
		return v, checkType(isInteger(v), "a time.Time", v)
	case typ == key.TypeAny && isTime:
		typ = key.TypeTime
	case typ == key.TypeAny:
		return v, nil // the key of a row takes any
	}
	return convertToType(typ, v)
}

// columnType returns the type of a column: one that is declared in the index or in the layout
// of the rows' keys, text for a field without one.
func (c *columnExtractor) columnType(name string) key.Type {
	i := slices.IndexFunc(c.sources, func(s columnSource) bool { return s.name == name })
	switch {
	case c.sources[i].typ != key.TypeAny:
		return c.sources[i].typ
	case !c.sources[i].fromKey:
		return key.TypeString
	}
	for _, f := range c.rowLayout.Fields() {
		if f.Column == name && f.Type != key.TypeAny {
			return f.Type
		}
	}
	return key.TypeAny
}

// bucketIndex returns the number of the bucket that a time is in, or of the first that
// begins no earlier.
func bucketIndex(b key.Bucket, t time.Time, upper bool) (any, error) {
	span, err := b.Of(t)
	if err != nil {
		return nil, err
	}
	if upper && t.After(span.Start()) {
		span = span.Next()
	}
	return span.Index(), nil
}

// convertToType returns a value as a column of a type has it.
func convertToType(typ key.Type, v any) (any, error) {
	switch v := v.(type) {
	case string:
		return v, checkType(typ == key.TypeString, typ.String(), v)
	case []byte:
		return v, checkType(typ == key.TypeBytes, typ.String(), v)
	case bool:
		return v, checkType(typ == key.TypeBool, typ.String(), v)
	case float32:
		return float64(v), checkType(typ == key.TypeFloat, typ.String(), v)
	case float64:
		return v, checkType(typ == key.TypeFloat, typ.String(), v)
	case [16]byte:
		return key.UUID(v), checkType(typ == key.TypeUUID, typ.String(), v)
	case key.UUID:
		return v, checkType(typ == key.TypeUUID, typ.String(), v)
	case time.Time: // beyond the years 1678 to 2262 its nanoseconds take more than 64 bits
		ns := new(big.Int).Mul(big.NewInt(v.Unix()), big.NewInt(int64(time.Second)))
		return ns.Add(ns, big.NewInt(int64(v.Nanosecond()))), checkType(typ == key.TypeTime, typ.String(), v)
	}
	return v, checkType(typ == key.TypeInt && isInteger(v), typ.String(), v)
}

func checkType(ok bool, what string, got any) error {
	if ok {
		return nil
	}
	return fmt.Errorf("want %s, got %T", what, got)
}

func isInteger(v any) bool {
	switch v.(type) {
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, *big.Int:
		return true
	}
	return false
}
