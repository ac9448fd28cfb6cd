package memruns

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// run is entries sorted by key, one per key. It is never changed.
type run []entry

// compareEntries orders two entries. Their words were taken at depth, and up to there
// all keys are the same.
func compareEntries(log opLog, a, b *entry, depth int) int {
	if a.keyWords != b.keyWords || a.hasKeyEnd() {
		return a.compare(b.keyWords)
	}
	return compareTails(log, a, log, b, depth)
}

// compareTails is compare for entries of two logs with equal words that go on.
func compareTails(logA opLog, a *entry, logB opLog, b *entry, depth int) int {
	rest := depth + keyWordBytes
	return bytes.Compare(logA.keyOf(a)[rest:], logB.keyOf(b)[rest:])
}

// mergeRuns merges two runs; of a key that both have, the newer's entry remains.
func mergeRuns(log opLog, older, newer run, depth int) run {
	out := make(run, len(older)+len(newer))
	n, i, j := 0, 0, 0
	for ; i < len(older) && j < len(newer); n++ {
		a, b := &older[i], &newer[j]
		c := compareEntries(log, a, b, depth)
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

// mergeAll merges neighbouring runs, the shortest first: a long one is moved once,
// however many short ones there are.
func mergeAll(log opLog, runs []run, depth int) run {
	runs = slices.Clone(runs)
	for len(runs) > 1 {
		least := 0
		for i := 1; i < len(runs)-1; i++ {
			if len(runs[i])+len(runs[i+1]) < len(runs[least])+len(runs[least+1]) {
				least = i
			}
		}
		runs[least] = mergeRuns(log, runs[least], runs[least+1], depth)
		runs = slices.Delete(runs, least+1, least+2)
	}
	return runs[0]
}

// withDepth returns the run with words taken at another depth.
func (r run) withDepth(log opLog, depth int) run {
	r = slices.Clone(r)
	for i := range r {
		r[i].keyWords = makeKeyWords(log.keyOf(&r[i]), depth)
	}
	return r
}

// searchKey is a key to look for in the runs of a View.
type searchKey struct {
	key      []byte
	keyWords     // if side is 0
	side     int // -1 or 1 if the key is before or behind all keys by their shared beginning
	depth    int
}

// newSearchKey prepares to look for key among keys that begin like shared.
func newSearchKey(key, shared []byte) searchKey {
	to := searchKey{key: key, depth: len(shared)}
	if to.side = bytes.Compare(key[:min(len(key), len(shared))], shared); to.side == 0 {
		to.keyWords = makeKeyWords(key, len(shared))
	}
	return to
}

// compareEntry compares the key of an entry with the target.
func (to *searchKey) compareEntry(log opLog, e *entry) int {
	if to.side != 0 {
		return -to.side
	}
	if e.keyWords != to.keyWords || to.hasKeyEnd() {
		return e.compare(to.keyWords)
	}
	rest := to.depth + keyWordBytes
	return bytes.Compare(log.keyOf(e)[rest:], to.key[rest:])
}

// search returns the first entry at or behind the target, and whether it is the
// target.
func (r run) search(log opLog, to *searchKey) (at int, found bool) {
	// Bounds of scans often are outside of a run.
	if len(r) == 0 || to.compareEntry(log, &r[len(r)-1]) < 0 {
		return len(r), false
	}
	end := len(r) - 1 // is at or behind it
	for at < end {
		if half := int(uint(at+end) / 2); to.compareEntry(log, &r[half]) < 0 {
			at = half + 1
		} else {
			end = half
		}
	}
	return at, to.compareEntry(log, &r[at]) == 0
}

// entry stands for an operation in a sorted run: where it is, and a piece of
// its key.
type entry struct {
	keyWords
	op uint32
}

// keyWords are a piece of a key as three numbers that are ordered as the pieces are.
type keyWords struct{ high, mid, low uint64 }

// keyWordBytes is how much of a key words hold.
const keyWordBytes = 23

// continuesMark is the last byte of words whose key does not end in them.
const continuesMark = keyWordBytes + 1

// makeKeyWords returns the piece of key that begins at depth: as many bytes, padded
// with zeros, before one that says how many of them the key really has, or that
// it goes on. So words are ordered as their keys are, from depth on, and two equal
// ones that do not go on are equal keys.
func makeKeyWords(key []byte, depth int) keyWords {
	rest := key[depth:]
	if len(rest) > keyWordBytes {
		return keyWords{binary.BigEndian.Uint64(rest), binary.BigEndian.Uint64(rest[8:]), binary.BigEndian.Uint64(rest[16:])&^0xff | continuesMark}
	}
	var b [keyWordBytes + 1]byte
	copy(b[:], rest)
	b[keyWordBytes] = byte(len(rest))
	return keyWords{binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:])}
}

func (w keyWords) hasKeyEnd() bool { return w.low&0xff != continuesMark }

func (w keyWords) compare(v keyWords) int {
	if w.high != v.high {
		return cmp.Compare(w.high, v.high)
	}
	if w.mid != v.mid {
		return cmp.Compare(w.mid, v.mid)
	}
	return cmp.Compare(w.low, v.low)
}

// sharedPrefix returns how many bytes a and b begin with in common, up to most.
func sharedPrefix(a, b []byte, most int) int {
	n := min(len(a), len(b), most)
	i := 0
	for ; i+8 <= n; i += 8 {
		if binary.LittleEndian.Uint64(a[i:]) != binary.LittleEndian.Uint64(b[i:]) {
			break
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

const (
	// Below so many entries simpler sorts are faster.
	maxInsertionSort  = 16
	maxComparisonSort = 256
	maxTailSort       = 8

	// wordsPerEntry is how many words an entry has.
	wordsPerEntry = 3
)

// sorter sorts the entries of one log; spare is as long as they are.
type sorter struct {
	log   opLog
	spare []entry
}

// sortRun makes a run of the operations [from, to), whose keys have the bytes up
// to depth in common.
func sortRun(log opLog, from, to uint32, depth int) run {
	entries := make([]entry, to-from)
	for i := range entries {
		op := from + uint32(i)
		entries[i] = entry{makeKeyWords(log.opAt(op).keyBytes(), depth), op}
	}
	s := sorter{log: log}
	if len(entries) > maxComparisonSort {
		s.spare = make([]entry, len(entries))
	}
	return entries[:s.sortEntries(entries, depth)]
}

// deepenWords sets the words to the pieces behind what the keys have in common, which
// is at least known bytes.
func (s *sorter) deepenWords(entries []entry, known int) (depth int) {
	first := s.log.keyOf(&entries[0])[known:]
	shared := math.MaxInt
	for i := range entries {
		shared = sharedPrefix(first, s.log.keyOf(&entries[i])[known:], shared)
	}
	depth = known + shared
	for i := range entries {
		entries[i].keyWords = makeKeyWords(s.log.keyOf(&entries[i]), depth)
	}
	return depth
}

// sortEntries orders entries by key, keeps the newest of each key at the front, and
// returns how many. Entries come in commit order with their words loaded.
func (s *sorter) sortEntries(entries []entry, depth int) int {
	s.sortByWords(entries, wordsPerEntry)
	kept := 0
	for i := 0; i < len(entries); {
		words := entries[i].keyWords
		j := i + 1
		for j < len(entries) && entries[j].keyWords == words {
			j++
		}
		// Sorting by words is stable: the last of equal keys is the newest.
		same := entries[j-1 : j]
		switch known := depth + keyWordBytes; {
		case j-i == 1 || words.hasKeyEnd():
		case j-i <= maxTailSort:
			same = entries[i:j]
			same = same[:s.sortByTails(same, known)]
		default:
			same = entries[i:j]
			same = same[:s.sortEntries(same, s.deepenWords(same, known))]
			for k := range same {
				same[k].keyWords = words
			}
		}
		kept += copy(entries[kept:], same)
		i = j
	}
	return kept
}

// sortByTails is sort for a few entries, most of which have one key: it looks at each key as seldom
// as it can. It leaves the words alone.
func (s *sorter) sortByTails(entries []entry, known int) (kept int) {
	for _, e := range entries {
		key := s.log.keyOf(&e)[known:]
		at, same := kept, false
		for ; at > 0; at-- {
			c := bytes.Compare(key, s.log.keyOf(&entries[at-1])[known:])
			if same = c == 0; c >= 0 {
				break
			}
		}
		if same {
			entries[at-1] = e // the newer one
			continue
		}
		copy(entries[at+1:kept+1], entries[at:kept])
		entries[at] = e
		kept++
	}
	return kept
}

// sortByWords orders entries by so many of their words, which are all but those that are the
// same in all; equal ones stay in commit order.
func (s *sorter) sortByWords(entries []entry, count int) {
	if len(entries) <= maxComparisonSort {
		sortByComparison(entries)
		return
	}
	s.radixSort(entries)
	if count == 1 {
		return
	}
	for i := 0; i < len(entries); {
		j := i + 1
		for j < len(entries) && entries[j].high == entries[i].high {
			j++
		}
		same := entries[i:j]
		if len(same) <= maxComparisonSort {
			sortByComparison(same)
		} else {
			for k := range same {
				w := &same[k].keyWords
				w.high, w.mid, w.low = w.mid, w.low, w.high
			}
			s.sortByWords(same, count-1)
			for k := range same {
				w := &same[k].keyWords
				w.high, w.mid, w.low = w.low, w.high, w.mid
			}
		}
		i = j
	}
}

// sortByComparison is sortByWords for a few entries.
func sortByComparison(entries []entry) {
	if len(entries) > maxInsertionSort {
		slices.SortFunc(entries, func(a, b entry) int {
			if a.keyWords != b.keyWords {
				return a.compare(b.keyWords)
			}
			return cmp.Compare(a.op, b.op)
		})
		return
	}
	for i := 1; i < len(entries); i++ {
		e, j := entries[i], i
		for ; j > 0 && e.compare(entries[j-1].keyWords) < 0; j-- {
			entries[j] = entries[j-1]
		}
		entries[j] = e
	}
}

// radixSort orders entries by their high words: it distributes them byte by byte, from
// the last to the first. Bytes that are the same in all words cost nothing.
func (s *sorter) radixSort(entries []entry) {
	var counts [8][256]uint32
	for i := range entries {
		w := entries[i].high
		for b := range counts {
			counts[b][byte(w>>(8*b))]++
		}
	}
	from, to := entries, s.spare[:len(entries)]
	for b := range counts {
		count := &counts[b]
		if count[byte(from[0].high>>(8*b))] == uint32(len(entries)) {
			continue
		}
		at := uint32(0)
		for i, n := range count {
			count[i], at = at, at+n
		}
		for _, e := range from {
			c := &count[byte(e.high>>(8*b))]
			to[*c] = e
			*c++
		}
		from, to = to, from
	}
	if &from[0] != &entries[0] {
		copy(entries, from)
	}
}
