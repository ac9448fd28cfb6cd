package runs

import (
	"bytes"
	"slices"
)

// run is entries sorted by key, one per key. It is never changed.
type run []entry

// compare orders two entries. Their words were taken at depth, and up to there
// all keys are the same.
func compare(log opLog, a, b *entry, depth int) int {
	if a.words != b.words || a.end() {
		return a.compare(b.words)
	}
	return compareRest(log, a, log, b, depth)
}

// compareRest is compare for entries of two logs with equal words that go on.
func compareRest(logA opLog, a *entry, logB opLog, b *entry, depth int) int {
	rest := depth + pieceBytes
	return bytes.Compare(logA.key(a)[rest:], logB.key(b)[rest:])
}

// join merges two runs; of a key that both have, the newer's entry remains.
func join(log opLog, older, newer run, depth int) run {
	out := make(run, len(older)+len(newer))
	n, i, j := 0, 0, 0
	for ; i < len(older) && j < len(newer); n++ {
		a, b := &older[i], &newer[j]
		c := compare(log, a, b, depth)
		if c < 0 {
			out[n] = *a
			i++
			continue
		}
		out[n] = *b
		j++
		if c == 0 {
			i++
		}
	}
	n += copy(out[n:], older[i:])
	n += copy(out[n:], newer[j:])
	return out[:n]
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
		r[i].words = wordsOf(log.key(&r[i]), depth)
	}
	return r
}

// target is a key to look for in the runs of a View.
type target struct {
	key   []byte
	words     // if side is 0
	side  int // -1 or 1 if the key is before or behind all keys by their shared beginning
	depth int
}

// targetOf prepares to look for key among keys that begin like shared.
func targetOf(key, shared []byte) target {
	to := target{key: key, depth: len(shared)}
	if to.side = bytes.Compare(key[:min(len(key), len(shared))], shared); to.side == 0 {
		to.words = wordsOf(key, len(shared))
	}
	return to
}

// order compares the key of an entry with the target.
func (to *target) order(log opLog, e *entry) int {
	if to.side != 0 {
		return -to.side
	}
	if e.words != to.words || to.end() {
		return e.compare(to.words)
	}
	rest := to.depth + pieceBytes
	return bytes.Compare(log.key(e)[rest:], to.key[rest:])
}

// search returns the first entry at or behind the target, and whether it is the
// target.
func (r run) search(log opLog, to *target) (at int, found bool) {
	// Bounds of scans often are outside of a run.
	if len(r) == 0 || to.order(log, &r[len(r)-1]) < 0 {
		return len(r), false
	}
	end := len(r) - 1 // is at or behind it
	for at < end {
		if half := int(uint(at+end) / 2); to.order(log, &r[half]) < 0 {
			at = half + 1
		} else {
			end = half
		}
	}
	return at, to.order(log, &r[at]) == 0
}
