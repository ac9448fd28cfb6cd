package runs

import (
	"bytes"
	"cmp"
	"math"
	"slices"
)

// run is entries sorted by key, one per key; it is never changed. Their words
// are the pieces from depth on, up to which all keys are the same.
type run struct {
	entries []entry
	depth   int
}

// compareAt orders two entries whose words were taken at the same depth.
func compareAt(log opLog, a, b entry, depth int) int {
	if a.word != b.word || endsIn(a.word) {
		return cmp.Compare(a.word, b.word)
	}
	rest := depth + pieceBytes
	return bytes.Compare(log.key(a)[rest:], log.key(b)[rest:])
}

// join merges two runs; of a key that both have, the newer's entry remains.
func join(log opLog, older, newer run) run {
	depth := sharedDepth(log, older, newer)
	a, b := older.at(log, depth), newer.at(log, depth)
	out := make([]entry, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch c := compareAt(log, a[0], b[0], depth); {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			out, a, b = append(out, b[0]), a[1:], b[1:]
		}
	}
	out = append(out, a...)
	return run{append(out, b...), depth}
}

// sharedDepth returns how many bytes all keys of both runs have in common: as
// they are sorted, those that the first and the last of all have.
func sharedDepth(log opLog, a, b run) int {
	first, last := log.key(a.entries[0]), log.key(a.entries[len(a.entries)-1])
	if k := log.key(b.entries[0]); bytes.Compare(k, first) < 0 {
		first = k
	}
	if k := log.key(b.entries[len(b.entries)-1]); bytes.Compare(k, last) > 0 {
		last = k
	}
	return sharedPrefix(first, last, math.MaxInt)
}

// at returns the entries with words taken at a lesser depth.
func (r run) at(log opLog, depth int) []entry {
	if depth == r.depth {
		return r.entries
	}
	entries := slices.Clone(r.entries)
	for i := range entries {
		entries[i].word = wordOf(log.key(entries[i]), depth)
	}
	return entries
}

// search returns the first entry whose key is at least key, and whether it is key.
func (r run) search(log opLog, key []byte) (at int, found bool) {
	shared := log.key(r.entries[0])[:r.depth]
	if c := bytes.Compare(key[:min(len(key), r.depth)], shared); c != 0 {
		if c < 0 {
			return 0, false
		}
		return len(r.entries), false
	}
	word := wordOf(key, r.depth)
	return slices.BinarySearchFunc(r.entries, word, func(e entry, word uint64) int {
		if e.word != word || endsIn(word) {
			return cmp.Compare(e.word, word)
		}
		rest := r.depth + pieceBytes
		return bytes.Compare(log.key(e)[rest:], key[rest:])
	})
}
