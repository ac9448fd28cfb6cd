package table

import (
	"slices"

	"github.com/cleavekv/cleave/key"
)

// A key without its salt is a place. Places sort as rows are to be read: by all of
// the fields but the salt. A bound of a read is a place as well, with fields missing
// at its end, and perhaps beyond at the end, which comes after all that begin with
// what is before it.
//
// The fields before the salt are the stem, and those behind it the rest. Rows with one
// stem lie in as many stretches of keys as there are salts, each in the order of places.
//
// All of this relies on two properties of tuples: their bytes sort as their elements
// do, one after another, and no element begins with the byte of beyond.

// beyond sorts after every element.
const beyond = 0xff

// cut takes the salt out of a key of the layout.
func (t *Table) cut(k []byte) (stem, rest []byte) {
	stem, tail, _ := t.stem(k)
	r := key.NewReader(tail)
	r.Next()
	return stem, tail[r.Offset():]
}

// stem divides a key or a place before the salt. whole is false if it ends before that:
// then all of it is returned as the stem.
func (t *Table) stem(p []byte) (stem, rest []byte, whole bool) {
	r := key.NewReader(p)
	for range t.salt {
		if !r.Next() {
			return p, nil, false
		}
	}
	at := r.Offset()
	return p[:at:at], p[at:], true
}

// join makes the key, or the bound of keys, with a salt between a stem and a rest.
func join(stem []byte, salt int, rest []byte) []byte {
	var room [9]byte
	return slices.Concat(stem, key.AppendInt(room[:0], int64(salt)), rest)
}

// saltOf returns the salt of a key of the layout.
func (t *Table) saltOf(k []byte) int {
	_, tail, _ := t.stem(k)
	r := key.NewReader(tail)
	if !r.Next() {
		return 0
	}
	salt, _ := r.Element().Int()
	return int(salt)
}
