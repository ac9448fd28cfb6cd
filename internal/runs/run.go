package runs

import (
	"bytes"
	"cmp"
	"slices"
)

// run is entries sorted by key, one per key. It is never changed.
type run []entry

// compare orders two entries. Their words were taken at depth, and up to there
// all keys are the same.
func compare(log opLog, a, b entry, depth int) int {
	if a.word != b.word || endsIn(a.word) {
		return cmp.Compare(a.word, b.word)
	}
	rest := depth + pieceBytes
	return bytes.Compare(log.key(a)[rest:], log.key(b)[rest:])
}

// join merges two runs; of a key that both have, the newer's entry remains.
func join(log opLog, a, newer run, depth int) run {
	b := newer
	out := make(run, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch c := compare(log, a[0], b[0], depth); {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			out, a, b = append(out, b[0]), a[1:], b[1:]
		}
	}
	out = append(out, a...)
	return append(out, b...)
}

// at returns the run with words taken at another depth.
func (r run) at(log opLog, depth int) run {
	r = slices.Clone(r)
	for i := range r {
		r[i].word = wordOf(log.key(r[i]), depth)
	}
	return r
}

// search returns the first entry whose key is at least key, and whether it is key.
func (r run) search(log opLog, key []byte, depth int) (at int, found bool) {
	shared := log.key(r[0])[:depth]
	if c := bytes.Compare(key[:min(len(key), depth)], shared); c != 0 {
		if c < 0 {
			return 0, false
		}
		return len(r), false
	}
	word, rest := wordOf(key, depth), depth+pieceBytes
	return slices.BinarySearchFunc(r, word, func(e entry, word uint64) int {
		if e.word != word || endsIn(word) {
			return cmp.Compare(e.word, word)
		}
		return bytes.Compare(log.key(e)[rest:], key[rest:])
	})
}
