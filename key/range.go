package key

import (
	"bytes"
	"fmt"
)

// Range is the keys from Begin, included, to End, excluded. An empty End means
// that there is no upper bound, so the zero Range is every key.
type Range struct {
	Begin, End []byte
}

// Contains reports whether key lies in r.
func (r Range) Contains(key []byte) bool {
	return bytes.Compare(key, r.Begin) >= 0 && (len(r.End) == 0 || bytes.Compare(key, r.End) < 0)
}

// Empty reports whether no key can lie in r.
func (r Range) Empty() bool {
	return len(r.End) > 0 && bytes.Compare(r.Begin, r.End) >= 0
}

// String returns the bounds in quotes, half open: ["a", "b").
func (r Range) String() string {
	if len(r.End) == 0 {
		return fmt.Sprintf("[%q, ∞)", r.Begin)
	}
	return fmt.Sprintf("[%q, %q)", r.Begin, r.End)
}

// PrefixRange returns the range of the keys whose bytes start with prefix. It
// knows nothing of tuples: for those that start with given elements use
// [TupleRange], since a string's bytes can start with another string's.
func PrefixRange(prefix []byte) Range {
	return Range{Begin: bytes.Clone(prefix), End: prefixEnd(prefix)}
}

// prefixEnd returns the first key after all those that start with prefix, or
// nil if there is none because prefix has no byte below 0xff.
func prefixEnd(prefix []byte) []byte {
	end := bytes.TrimRight(prefix, "\xff")
	if len(end) == 0 {
		return nil
	}
	end = bytes.Clone(end)
	end[len(end)-1]++
	return end
}

// TupleRange returns the range of the tuples that start with the elements of
// t and have more of them: t itself is not in it. This is the range of
// FoundationDB's tuple layer. It fails as [Encode] does.
func TupleRange(t Tuple) (Range, error) {
	prefix, err := Encode(t)
	if err != nil {
		return Range{}, err
	}
	// An element starts with a type code, and those lie below 0xff.
	end := append(bytes.Clone(prefix), escape)
	return Range{Begin: append(prefix, codeNil), End: end}, nil
}
