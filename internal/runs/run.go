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
func join(log opLog, older, newer run, depth int) run {
	a, b := older, newer
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

// joinAll merges neighbouring runs, the shortest first: a long one is moved once,
// however many short ones there are.
func joinAll(log opLog, runs []run, depth int) run {
	runs = slices.Clone(runs)
	for len(runs) > 1 {
		least := 0
		for i := 1; i < len(runs)-1; i++ {
			if len(runs[i])+len(runs[i+1]) < len(runs[least])+len(runs[least+1]) {
				least = i
			}
		}
		runs[least] = join(log, runs[least], runs[least+1], depth)
		runs = slices.Delete(runs, least+1, least+2)
	}
	return runs[0]
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
