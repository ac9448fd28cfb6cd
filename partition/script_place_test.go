package partition

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// place reads a place of a script:
//
//	begin, end           of the space
//	users, users+        the edges of a keyspace
//	default@5            the start of a slot
//	users/"m"            the own row of a key
//	users/"m"."email"    an element of its collection
//	users/"m"+           behind all its elements
//	users/"m"*           before all keys that begin so
func place(s string) Position {
	if s == "begin" || s == "end" {
		return nil
	}
	if name, slot, ok := strings.Cut(s, "@"); ok {
		return spaceNamed(name).SlotSpan(uint16(number(slot))).Start
	}
	name, rest, inside := strings.Cut(s, "/")
	if !inside {
		name, end := strings.CutSuffix(s, "+")
		if span := spaceNamed(name).Span(); end {
			return span.End
		}
		return spaceNamed(name).Span().Start
	}
	k := spaceNamed(name)
	quoted := must(strconv.QuotedPrefix(rest))
	key := []byte(must(strconv.Unquote(quoted)))
	switch rest = rest[len(quoted):]; {
	case rest == "+":
		return k.KeySpan(key).End
	case rest == "*":
		return k.PrefixSpan(key).Start
	case rest != "":
		return append(k.AppendPosition(nil, key), must(strconv.Unquote(rest[1:]))...)
	}
	return k.AppendPosition(nil, key)
}

// placeName is the reverse of place for the boundaries that maps have.
func placeName(p Position, edge string) string {
	if len(p) == 0 {
		return edge
	}
	for _, k := range scriptSpaces {
		if bytes.Equal(p, k.Span().Start) {
			return k.Name
		}
		if !k.Span().Contains(p) {
			continue
		}
		if key, element, err := k.Split(nil, p); err == nil && len(element) == 0 {
			return fmt.Sprintf("%s/%q", k.Name, key)
		}
		if k.Kind == Hash && len(p) == 3 {
			return fmt.Sprintf("%s@%d", k.Name, k.SlotAt(p))
		}
		row := bytes.Clone(p)
		if row[len(row)-1]--; len(p) > 2 {
			if key, element, err := k.Split(nil, row); err == nil && len(element) == 0 {
				return fmt.Sprintf("%s/%q+", k.Name, key)
			}
		}
		return fmt.Sprintf("%s/%q*", k.Name, p[1:])
	}
	for _, k := range scriptSpaces {
		if bytes.Equal(p, k.Span().End) {
			return k.Name + "+"
		}
	}
	return fmt.Sprintf("%x", []byte(p))
}

// scriptSpaces are the keyspaces that scripts can name.
var scriptSpaces = []*Keyspace{{ID: 0, Name: "system", Kind: Range}, {ID: 1, Name: "default", Kind: Hash}, {ID: 5, Name: "users", Kind: Range}}

func spaceNamed(name string) *Keyspace {
	for _, k := range scriptSpaces {
		if k.Name == name {
			return k
		}
	}
	panic("no keyspace " + name)
}

// spaceOf returns the keyspace of the first place that is inside one.
func spaceOf(words []string) *Keyspace {
	for _, word := range words {
		if i := strings.IndexAny(word, "/@"); i >= 0 {
			return spaceNamed(word[:i])
		}
	}
	return nil
}

func places(words []string) (at []Position) {
	for _, word := range words {
		at = append(at, place(word))
	}
	return at
}

func spanNamed(s string) Span {
	start, end, _ := strings.Cut(s, "..")
	return Span{place(start), place(end)}
}
