package heat

import (
	"bytes"
	"sort"
)

// Cut is a key at which a range may be cut, for callers that choose pieces themselves.
type Cut struct {
	// Key is the first key behind the cut. It was asked for.
	Key []byte
	// Before is the share of the load of the range that lies before it.
	Before float64
}

// Cuts returns about n places to cut a range, in order, between which the load is about the same: operations, and bytes
// by what they cost. A key that has as much as a piece has a cut on both sides, if another key comes behind it. Samples
// is how many operations on the range are known: each share is off by about 0.5/sqrt(samples).
func (r *Ranges) Cuts(start, end []byte, n int) (cuts []Cut, samples int) {
	keys := r.weighKeys(start, end, weighCost)
	total := 0.0
	for _, k := range keys {
		total += k.weight
		samples += k.samples
	}
	each, before, last := total/float64(max(n, 1)), 0.0, 0.0
	for i, k := range keys {
		isBehindHot := i > 0 && keys[i-1].weight >= each
		if i > 0 && (before-last >= each || k.weight >= each || isBehindHot) {
			cuts = append(cuts, Cut{bytes.Clone(k.key), before / total})
			last = before
		}
		before += k.weight
	}
	return cuts, samples
}

// minEarlierWrites is how many keys an earlier sample must have for new writes to be found among them or between them:
// of 32 gaps that are written alike, the largest gets an eighth.
const minEarlierWrites = 32

// Edge reports which share of the writes to a range come between the same two neighbouring keys of an earlier sample, or
// behind all of them, and how many writes that is said of. Keys that come in the order of time do so, wherever in the
// range they are, and a load over many keys, or on a hot one that was written before, does not. With too few keys in the earlier sample nothing is
// known, and samples is 0.
func (r *Ranges) Edge(earlier *Ranges, start, end []byte) (share float64, samples int) {
	writes := func(l RangeLoad) float64 { return l.Writes }
	known := earlier.weighKeys(start, end, writes)
	if len(known) < minEarlierWrites {
		return 0, 0
	}
	gaps := make([]float64, len(known)+1)
	total := 0.0
	for _, k := range r.weighKeys(start, end, writes) {
		total += k.weight
		samples += k.samples
		i := sort.Search(len(known), func(i int) bool { return bytes.Compare(known[i].key, k.key) >= 0 })
		if i == len(known) || !bytes.Equal(known[i].key, k.key) {
			gaps[i] += k.weight
		}
	}
	for _, g := range gaps {
		share = max(share, g)
	}
	if total > 0 {
		share /= total
	}
	return share, samples
}
