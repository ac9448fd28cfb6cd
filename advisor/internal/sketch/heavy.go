package sketch

import (
	"cmp"
	"slices"
)

// heavyKept is how many values a HeavyHitters counts. At most one in 1024 rows is then taken from a
// count, and with as many that a Block leaves out, a value that is missed has less than one in 512 of
// all rows: a sixteenth of the fair share of one of 32 shards.
const heavyKept = 2048

// MaxKeptText is how much of a value is kept to name it.
const MaxKeptText = 64

// HeavyHitters finds the values that come most often.
//
// It counts values until its table is full, and then takes the median of all counts from each: the
// algorithm of Misra and Gries (1982), in the form of Anderson and others (2017). A count is
// therefore too low by at most what was taken, and never too high.
type HeavyHitters struct {
	// entries are the values that are counted. Invariant: index has each of them, and nothing else.
	entries []heavyEntry
	index   []int32 // open addressing; 0 is free, else 1 + the place in entries
	// taken is what was subtracted from each count so far, and what was not counted of any value.
	taken uint64
	spare [][]byte // texts of entries that were dropped, to be used again
	order []uint64
}

type heavyEntry struct {
	hash, count uint64
	text        []byte
}

// Heavy is a value that comes often: at least Count times, at most Count + Missed.
type Heavy struct {
	Text          string
	Count, Missed uint64
}

// NewHeavyHitters returns a sketch that has seen nothing.
func NewHeavyHitters() *HeavyHitters {
	return &HeavyHitters{index: make([]int32, 4*heavyKept)}
}

// AddMissed records that every value may have come so much more often than Add was told.
func (h *HeavyHitters) AddMissed(count uint64) { h.taken += count }

// Add records a value that came a number of times, by its hash and its text.
func (h *HeavyHitters) Add(hash, count uint64, text []byte) {
	mask := uint64(len(h.index) - 1)
	i := hash >> 32 & mask
	for h.index[i] != 0 {
		if e := &h.entries[h.index[i]-1]; e.hash == hash {
			e.count += count
			return
		}
		i = (i + 1) & mask
	}
	if len(h.entries) == heavyKept {
		h.makeRoom()
		i = h.freeSlot(hash)
	}
	var kept []byte
	if n := len(h.spare); n > 0 {
		kept, h.spare = h.spare[n-1], h.spare[:n-1]
	}
	kept = append(kept[:0], text[:min(len(text), MaxKeptText)]...)
	h.entries = append(h.entries, heavyEntry{hash, count, kept})
	h.index[i] = int32(len(h.entries))
}

// freeSlot returns the place in the index for a hash that is not in it.
func (h *HeavyHitters) freeSlot(hash uint64) uint64 {
	mask := uint64(len(h.index) - 1)
	i := hash >> 32 & mask
	for h.index[i] != 0 {
		i = (i + 1) & mask
	}
	return i
}

// makeRoom takes the median count from each value and drops those that have none left, which is at
// least half of them.
func (h *HeavyHitters) makeRoom() {
	h.order = h.order[:0]
	for _, e := range h.entries {
		h.order = append(h.order, e.count)
	}
	slices.Sort(h.order)
	median := h.order[len(h.order)/2]
	h.taken += median
	kept := h.entries[:0]
	for _, e := range h.entries {
		if e.count <= median {
			h.spare = append(h.spare, e.text)
			continue
		}
		e.count -= median
		kept = append(kept, e)
	}
	h.entries = kept
	clear(h.index)
	for n, e := range h.entries {
		h.index[h.freeSlot(e.hash)] = int32(n + 1)
	}
}

// Top returns at most n values, the most frequent first.
func (h *HeavyHitters) Top(n int) []Heavy {
	var top []Heavy
	for _, e := range h.entries {
		top = append(top, Heavy{string(e.text), e.count, h.taken})
	}
	slices.SortFunc(top, func(a, b Heavy) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Text, b.Text))
	})
	return top[:min(n, len(top))]
}

// Missed returns how often a value can have come at most without being in Top.
func (h *HeavyHitters) Missed() uint64 { return h.taken }
