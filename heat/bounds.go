package heat

import (
	"cmp"
	"slices"
	"strings"
)

// rowBounds say where in a row nearly all of its load is.
type rowBounds struct {
	row       int
	low, high string
}

// loadPiece is load from one key to another.
type loadPiece struct {
	low, high string
	weight    float64
}

// findBounds notes the bounds of the rows with most, if they have many times their share. The row of a moving edge reaches
// up to the next key that stays where it is: spread over all of it, its load would be seen far from where it was.
func (c *column) findBounds(piecesOf func(row int) []loadPiece) {
	total, weights, heavy := 0.0, make([]float64, c.axis.rows()), []int(nil)
	for row := range weights {
		weights[row] = c.weighRow(row)
		total += weights[row]
	}
	least := total / max(min(float64(len(weights))/coarseShares, fewRows), 1)
	for row, weight := range weights {
		if weight > 0 && weight >= least {
			heavy = append(heavy, row)
		}
	}
	slices.SortStableFunc(heavy, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
	for _, row := range slices.Sorted(slices.Values(heavy[:min(len(heavy), maxBounds)])) {
		if low, high := boundPieces(piecesOf(row)); low < high {
			c.bounds = append(c.bounds, rowBounds{row, strings.Clone(low), strings.Clone(high)})
		}
	}
}

// weighRow is how many operations a row has in a second.
func (c *column) weighRow(row int) float64 {
	return rateOf(c.row(MetricReads)[row]) + rateOf(c.row(MetricWrites)[row])
}

// boundPieces returns the first and the last key of those that begin as the keys in the middle do: a few others of the row
// are neighbours of what it is about.
func boundPieces(pieces []loadPiece) (low, high string) {
	if len(pieces) == 0 {
		return "", ""
	}
	total := 0.0
	for i := range pieces {
		total += pieces[i].weight
	}
	reach := func(end func(p *loadPiece) string, sign int) string {
		slices.SortStableFunc(pieces, func(a, b loadPiece) int { return sign * strings.Compare(end(&a), end(&b)) })
		left := total * outerShare
		for i := range pieces {
			if left -= pieces[i].weight; left < 0 {
				return end(&pieces[i])
			}
		}
		return end(&pieces[len(pieces)-1])
	}
	high = reach(func(p *loadPiece) string { return p.high }, -1)
	low = reach(func(p *loadPiece) string { return p.low }, 1)
	n := 0
	for n < min(len(low), len(high)) && low[n] == high[n] {
		n++
	}
	prefix := low[:n]
	for i := range pieces {
		if strings.HasPrefix(pieces[i].low, prefix) {
			low = min(low, pieces[i].low)
		}
		if strings.HasPrefix(pieces[i].high, prefix) {
			high = max(high, pieces[i].high)
		}
	}
	return low, high
}

// extent returns the first key that a row may have been asked for, and the last. The last may be the first of the row
// behind.
func (c *column) extent(row int) (first, last string) {
	first, last = c.low, c.high
	if row > 0 {
		first = max(first, c.axis.keys[row-1])
	}
	if row < len(c.axis.keys) {
		last = min(last, c.axis.keys[row])
	}
	for i := range c.bounds {
		if b := &c.bounds[i]; b.row == row {
			first, last = max(first, b.low), min(last, b.high)
		}
	}
	return first, last
}

// appendPieces appends the load of a column that is in a row of an axis.
func (c *column) appendPieces(pieces []loadPiece, on *axis, row int) []loadPiece {
	for i := range c.axis.rows() {
		weight := c.weighRow(i)
		if weight == 0 {
			continue
		}
		first, last := c.extent(i)
		from, to := on.rowOf([]byte(first)), on.rowOf([]byte(last))
		if row < from || row > to {
			continue
		}
		if row > from {
			first = on.keys[row-1]
		}
		if row < to {
			last = on.keys[row]
		}
		pieces = append(pieces, loadPiece{first, last, weight / float64(to-from+1)})
	}
	return pieces
}
