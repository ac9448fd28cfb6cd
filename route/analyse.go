package route

import (
	"fmt"
	"iter"
	"math"

	"github.com/cleavekv/cleave/hash"
)

// Movement tells what a change from one router to another moves. Fractions are
// of all keys.
type Movement struct {
	// Moved is the fraction of keys that change their owner.
	Moved float64
	// StdErr is the standard error of Moved: the truth is within two of
	// them in 95 of 100 cases. 0 if Exact.
	StdErr float64
	// Keys is the number of keys that were routed. 0 if Exact.
	Keys int
	// Exact says that the routers' intervals were compared, not a sample.
	Exact bool
	// Minimum is the least fraction that any router must move to turn the
	// shares of the old nodes into those of the new ones.
	Minimum float64
	// Before and After tell how evenly the routers load their nodes.
	Before, After Balance
	// Flows tells who gives how much to whom, the most first.
	Flows []Flow
}

// Excess returns what is moved in vain: Moved less Minimum. It is below 0 for
// a router that gives a new node less than its share.
func (m Movement) Excess() float64 { return m.Moved - m.Minimum }

// String returns what moves and what must, such as
//
//	22.26 % ± 0.04 % of keys move; at least 22.22 % must
//
// where ± is StdErr. It is left out if Exact.
func (m Movement) String() string {
	if !m.Exact && m.Keys == 0 {
		return "no keys were routed"
	}
	moved := fmt.Sprintf("%.2f %%", 100*m.Moved)
	if !m.Exact {
		moved += fmt.Sprintf(" ± %.2f %%", 100*m.StdErr)
	}
	return fmt.Sprintf("%s of keys move; at least %.2f %% must", moved, 100*m.Minimum)
}

// A Flow is the fraction of all keys that moves from one node to another. A
// name is empty where a router is.
type Flow struct {
	From, To string
	Fraction float64
}

// Balance tells how evenly nodes are loaded, in proportion to their weights.
// Nodes whose share is less than one hash, 2^-64, are left out.
type Balance struct {
	// Imbalance is the load of the most loaded node over its share: 1 is even.
	Imbalance float64
	// CV is the coefficient of variation of load over share: 0 is even.
	CV float64
	// EvenImbalance and EvenCV are what an even router would show in this
	// sample on average, the former at most. Figures near them say nothing
	// about the router; more keys lower them. 1 and 0 if exact.
	EvenImbalance, EvenCV float64
}

// DefaultSample is the number of keys that [Compare] routes unless it is given
// some. Moved then has a standard error below 0.0005.
const DefaultSample = 1 << 20

// Sample returns n hashes that are spread like those of real keys: distinct,
// without pattern, and the same ones every time.
func Sample(n int) iter.Seq[hash.Stable] {
	return func(yield func(hash.Stable) bool) {
		for i := range n {
			if !yield(hash.Uint64(uint64(i))) {
				return
			}
		}
	}
}

// Compare routes keys with both routers, which may be of different kinds, and
// tells what differs. Nodes are the same if their names are. A nil router is an
// empty one.
//
// If keys is nil, it compares two routers that cut the space of hashes into
// intervals exactly ([Interval], [Maglev], [Ring], [BoundedRing]), and others by
// a [Sample] of [DefaultSample] keys.
func Compare(before, after Router, keys iter.Seq[hash.Stable]) Movement {
	if before == nil {
		before = &Interval{}
	}
	if after == nil {
		after = &Interval{}
	}
	t := newTally(before.Nodes(), after.Nodes())
	b, ok1 := before.(partitioned)
	a, ok2 := after.(partitioned)
	if keys == nil && ok1 && ok2 {
		overlaps(b, a, t.add)
		m := t.movement()
		m.Exact = true
		m.Before.EvenImbalance, m.After.EvenImbalance = 1, 1
		return m
	}
	if keys == nil {
		keys = Sample(DefaultSample)
	}
	n := 0
	for h := range keys {
		t.add(before.Route(h), after.Route(h), 1)
		n++
	}
	m := t.movement()
	m.Keys = n
	if n > 0 {
		m.StdErr = math.Sqrt(m.Moved * (1 - m.Moved) / float64(n))
		m.Before.EvenImbalance, m.Before.EvenCV = evenRouter(t.before.shares, n)
		m.After.EvenImbalance, m.After.EvenCV = evenRouter(t.after.shares, n)
	}
	return m
}
