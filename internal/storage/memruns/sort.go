package memruns

import (
	"bytes"
	"cmp"
	"math"
	"slices"
)

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
