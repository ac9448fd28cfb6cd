package heat

import (
	"maps"
	"slices"
	"sort"
	"unsafe"
)

// axis is the rows of columns of a heat map. It does not change, but for the number of its users.
type axis struct {
	// keys are the first keys of all rows but the first, which begins below all keys.
	keys []string
	uses int   // columns
	half *axis // with half as many rows, nil before it is needed
}

func (a *axis) rows() int { return len(a.keys) + 1 }

func (a *axis) bytes() int {
	n := int(unsafe.Sizeof(*a))
	for _, k := range a.keys {
		n += int(unsafe.Sizeof(k)) + len(k)
	}
	return n
}

// rowOf is the row of a key.
func (a *axis) rowOf(key []byte) int {
	return sort.Search(len(a.keys), func(i int) bool { return a.keys[i] > string(key) })
}

// halve returns an axis whose rows are pairs of those of a.
func (a *axis) halve() *axis {
	if a.half == nil {
		a.half = &axis{}
		for i := 1; i < len(a.keys); i += 2 {
			a.half.keys = append(a.half.keys, a.keys[i])
		}
	}
	return a.half
}

// joinAxes returns the first keys of at most so many rows from start up to end, out of all rows that columns have,
// and the first keys that were seen in large ones. The first is start. If there are more, those that nearly all columns have come first, such as that of a hot key, and the
// others are an even choice.
func joinAxes(columns []*column, start string, end []byte, rows int) []string {
	uses, perAxis := map[string]int{}, map[*axis]int{}
	use := func(k string, n int) {
		if k > start && (end == nil || k < string(end)) {
			uses[k] += n
		}
	}
	for _, c := range columns {
		perAxis[c.axis]++
		for i := range c.bounds { // the edge has moved on since the axis was made
			use(c.bounds[i].low, 1)
		}
	}
	for a, n := range perAxis {
		for _, k := range a.keys {
			use(k, n)
		}
	}
	var lasting, others []string
	for _, k := range slices.Sorted(maps.Keys(uses)) {
		if 4*uses[k] > 3*len(columns) {
			lasting = append(lasting, k)
		} else {
			others = append(others, k)
		}
	}
	lasting = chooseEvenly(lasting, rows-1)
	keys := append(lasting, chooseEvenly(others, rows-1-len(lasting))...)
	slices.Sort(keys)
	return slices.Insert(keys, 0, start)
}

// chooseEvenly returns n of some keys, or all if they are not more.
func chooseEvenly(keys []string, n int) []string {
	if len(keys) <= n {
		return keys
	}
	chosen := make([]string, n)
	for i := range chosen {
		chosen[i] = keys[i*len(keys)/n]
	}
	return chosen
}

// weighCost is what rows of an axis have alike: operations, and bytes by what they cost.
func weighCost(l RangeLoad) float64 { return l.Ops() + (l.BytesIn+l.BytesOut)/costBytes }

// newAxis makes rows that have about the same cost in a sample. A key that has as much as a row has one of its own.
func newAxis(seen *Ranges, rows int) *axis {
	keys := seen.weighKeys(nil, nil, weighCost)
	a, total := new(axis), 0.0
	for _, k := range keys {
		total += k.weight
	}
	rows = min(rows, len(keys)/2)
	if rows < 2 {
		return a
	}
	each, inRow := total/float64(rows), 0.0
	for i, k := range keys {
		isHot := k.weight >= each
		if len(a.keys)+2 > rows-1 {
			break
		}
		switch {
		case isHot: // keys beside it that are not in the sample are not in its row
			a.keys = append(a.keys, string(k.key), string(k.key)+"\x00")
			inRow = 0
			continue
		case i > 0 && inRow >= each:
			a.keys = append(a.keys, separate(keys[i-1].key, k.key))
			inRow = 0
		}
		inRow += k.weight
	}
	a.keys = slices.Compact(a.keys) // two hot keys may be neighbours
	return a
}

// separate returns the shortest prefix of a key that is above another one, which is smaller.
func separate(smaller, key []byte) string {
	n := 0
	for n < len(smaller) && smaller[n] == key[n] {
		n++
	}
	return string(key[:n+1])
}

// isCoarseFor reports whether a row of several keys has many times its share of a sample, so that other rows would show
// more.
func (a *axis) isCoarseFor(seen *Ranges, rows int) bool {
	keys := seen.weighKeys(nil, nil, weighCost)
	total, weights, count := 0.0, make([]float64, a.rows()), make([]int, a.rows())
	for _, k := range keys {
		row := a.rowOf(k.key)
		total += k.weight
		weights[row] += k.weight
		count[row]++
	}
	limit := coarseShares * total / float64(min(rows, max(len(keys)/2, 1)))
	for row, weight := range weights {
		if weight > limit && count[row] > 1 {
			return true
		}
	}
	return false
}
