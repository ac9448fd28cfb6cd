package sketch

import (
	"math"
	"slices"
)

// distinctKept is how many values a Distinct keeps. The standard error of its count is one over the
// square root of it: 1.6 %. Half would make 2.2 %, double would double the 128 KiB that each column
// takes.
const distinctKept = 4096

// Distinct counts distinct values, and samples how often each of them comes.
//
// It keeps the values with the smallest hashes (a KMV sketch: Bar-Yossef and others 2002), which are
// a uniform sample of all distinct values. The bound below which hashes are kept only falls, so a
// value that is kept was kept from its first occurrence on: its count is exact.
type Distinct struct {
	// bound is above every hash that is kept. Invariant: bound never grows.
	bound uint64
	// slots is a hash table with open addressing; a count of 0 is a free slot. Invariant: at most half
	// of the slots are taken.
	slots []distinctSlot
	used  int
	// overflowed means that values were dropped: the count is an estimate.
	overflowed bool
}

type distinctSlot struct{ hash, count uint64 }

// NewDistinct returns a sketch that has seen nothing.
func NewDistinct() *Distinct {
	return &Distinct{bound: math.MaxUint64, slots: make([]distinctSlot, 64)}
}

// Add records a value by its hash.
func (d *Distinct) Add(hash uint64) { d.AddCount(hash, 1) }

// AddCount records a value that came a number of times. In which order values are recorded makes no
// difference to Count and Repeats.
func (d *Distinct) AddCount(hash, count uint64) {
	if hash >= d.bound {
		return
	}
	mask := uint64(len(d.slots) - 1)
	i := hash & mask
	for d.slots[i].count != 0 {
		if d.slots[i].hash == hash {
			d.slots[i].count += count
			return
		}
		i = (i + 1) & mask
	}
	d.slots[i] = distinctSlot{hash, count}
	if d.used++; d.used > len(d.slots)/2 {
		d.makeRoom()
	}
}

// makeRoom doubles the table while it is small, and drops the larger half of the hashes after that.
func (d *Distinct) makeRoom() {
	old := d.list()
	if len(d.slots) < 4*distinctKept {
		d.slots = make([]distinctSlot, 2*len(d.slots))
	} else {
		d.bound, d.overflowed = old[distinctKept].hash, true
		old = old[:distinctKept]
		clear(d.slots)
	}
	mask := uint64(len(d.slots) - 1)
	for _, s := range old {
		i := s.hash & mask
		for d.slots[i].count != 0 {
			i = (i + 1) & mask
		}
		d.slots[i] = s
	}
	d.used = len(old)
}

// list returns what is kept, by ascending hash.
func (d *Distinct) list() []distinctSlot {
	var kept []distinctSlot
	for _, s := range d.slots {
		if s.count != 0 {
			kept = append(kept, s)
		}
	}
	slices.SortFunc(kept, func(a, b distinctSlot) int {
		if a.hash < b.hash {
			return -1
		}
		return 1
	})
	return kept
}

// Count returns how many distinct values there were. It is exact until values are dropped. After
// that it rests on the k-th smallest hash: the number of values times that hash, as a fraction of
// all hashes, follows a gamma distribution of shape k.
func (d *Distinct) Count() Interval {
	if !d.overflowed {
		return Exactly(float64(d.used))
	}
	const k = distinctKept
	fraction := (float64(d.list()[k-1].hash) + 1) / math.Exp2(64)
	return Interval{
		Low:   gammaQuantile(k, 0.025) / fraction,
		Value: (k - 1) / fraction,
		High:  gammaQuantile(k, 0.975) / fraction,
	}
}

// Repeats returns how often the value in the middle comes, if values are ordered by how often they
// come: half of them come at most so often. The interval is that of the order statistics.
func (d *Distinct) Repeats() Interval {
	kept := d.list()
	if d.overflowed {
		kept = kept[:distinctKept]
	}
	n := len(kept)
	if n == 0 {
		return Interval{}
	}
	counts := make([]uint64, n)
	for i, s := range kept {
		counts[i] = s.count
	}
	slices.Sort(counts)
	median := float64(counts[(n-1)/2])
	if !d.overflowed {
		return Exactly(median)
	}
	half := z95 * math.Sqrt(float64(n)) / 2
	low := max(0, int(math.Floor(float64(n)/2-half))-1)
	high := min(n-1, int(math.Ceil(float64(n)/2+half)))
	return Interval{float64(counts[low]), median, float64(counts[high])}
}
