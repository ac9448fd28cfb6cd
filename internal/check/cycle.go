package check

import (
	"math"
	"slices"
)

// cycle is a list of arcs, each of which begins where the one before ends, and
// the first where the last ends. Its arcs join transactions: what leads through a
// node of another sort is one arc here.
type cycle []arc

// class is a kind of cycle and how to find it: one arc of the kind close, the
// rest from path.
type class struct {
	kind        Kind
	close, path edges
}

// classes has those of few ingredients first: what a cycle can do without, it
// does without.
var classes = []class{
	{G0, ww, ww},
	{G1c, wr, ww | wr},
	{GSingle, rw, ww | wr},
	{G2, rw, ww | wr | rw},
	{G0RealTime, ww, ww | rt},
	{G1cRealTime, wr, ww | wr | rt},
	{GSingleRealTime, rw, ww | wr | rt},
	{G2RealTime, rw, anyEdge},
}

// kind tells what a cycle is by what it has.
func (c cycle) kind() Kind {
	var has edges
	reads := 0
	for _, a := range c {
		has |= a.kind
		if a.kind == rw {
			reads++
		}
	}
	i := 0
	switch {
	case reads > 1:
		i = 3
	case reads == 1:
		i = 2
	case has&wr != 0:
		i = 1
	}
	if has&rt != 0 {
		i += len(classes) / 2
	}
	return classes[i].kind
}

// is tells whether there is a cycle and it is of the kind.
func (c cycle) is(k Kind) bool { return len(c) > 0 && c.kind() == k }

// name is what the shape is widely called, or empty.
func (c cycle) name(l *lists) string {
	shape := make([]edges, len(c))
	for i, a := range c {
		shape[i] = a.kind
	}
	is := func(want ...edges) bool {
		return len(shape) == len(want) && (slices.Equal(shape, want) ||
			slices.Equal(append(slices.Clone(shape[1:]), shape[0]), want))
	}
	oneKey := func() bool { return l.elements[c[0].about].key == l.elements[c[1].about].key }
	switch {
	case is(ww, rw) && oneKey(), is(rw, rw) && oneKey(): // in the latter, nobody knows whose update
		return "lost update"
	case is(wr, rw):
		return "fractured read"
	case is(rw, rw):
		return "write skew"
	case is(wr, rw, wr, rw):
		return "long fork"
	case c.kind() == GSingleRealTime:
		return "stale read"
	}
	return ""
}

// members returns the transactions of the cycle.
func (c cycle) members() []int32 {
	m := make([]int32, len(c))
	for i, a := range c {
		m[i] = a.from
	}
	return m
}

// searchSteps is how many arcs the search for short cycles may look at before it
// takes what it has. So a knot of 100,000 transactions costs a second, not hours.
const searchSteps = 50_000_000

// noLimit is a length that no path has.
const noLimit = math.MaxInt32
