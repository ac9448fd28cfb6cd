package route

import "math"

// partitioned is a router that cuts the space of hashes into intervals.
type partitioned interface {
	Router
	// intervals returns how many there are: none if the router is empty.
	intervals() int
	// interval returns the first hash and the owner of the i-th, in the
	// order of hashes from 0.
	interval(i int) (first uint64, owner int)
}

// overlaps calls add with the owners before and after, and the fraction of the
// space, of every piece that no cut of either router divides.
func overlaps(before, after partitioned, add func(from, to int, fraction float64)) {
	b, a := newCursor(before), newCursor(after)
	for at := 0.0; at < 1; {
		end := min(b.end, a.end)
		add(b.owner, a.owner, end-at)
		at = end
		b.passTo(at)
		a.passTo(at)
	}
}

// A cursor walks over the intervals of a router. Places are fractions of the
// space: rounding them errs by 2^-53, less than any number of keys can show.
type cursor struct {
	of    partitioned
	i     int // of the current interval
	owner int
	end   float64
}

func newCursor(of partitioned) *cursor {
	c := &cursor{of: of, i: -1}
	c.passTo(0)
	return c
}

// passTo makes the interval that goes on beyond place at the current one.
func (c *cursor) passTo(at float64) {
	for c.end <= at && at < 1 {
		c.i++
		c.owner, c.end = None, 1
		if c.i < c.of.intervals() {
			_, c.owner = c.of.interval(c.i)
		}
		if c.i+1 < c.of.intervals() {
			first, _ := c.of.interval(c.i + 1)
			c.end = math.Ldexp(float64(first), -64)
		}
	}
}
