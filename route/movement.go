package route

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/cleavekv/cleave/hash"
)

// Movement is what a change from one router to another moves. Fractions are
// of all keys.
type Movement struct {
	// Moved is the fraction of keys that change their owner.
	Moved float64
	// StdErr is the standard error of Moved: the truth is within two of
	// them in 95 of 100 cases. 0 if Exact.
	StdErr float64
	// Keys is the number of keys that were routed. 0 if Exact.
	Keys int
	// Exact reports whether the routers' intervals were compared, not a sample.
	Exact bool
	// Minimum is the least fraction that any router must move to turn the
	// shares of the old nodes into those of the new ones.
	Minimum float64
	// Before and After are how evenly the routers load their nodes.
	Before, After Balance
	// Flows lists how much each node gives to each other, the most first.
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

// Balance is how evenly nodes are loaded, in proportion to their weights.
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
// returns what differs. Nodes are the same if their names are. A nil router is an
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
		visitOverlaps(b, a, t.add)
		m := t.toMovement()
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
	m := t.toMovement()
	m.Keys = n
	if n > 0 {
		m.StdErr = math.Sqrt(m.Moved * (1 - m.Moved) / float64(n))
		m.Before.EvenImbalance, m.Before.EvenCV = evenBalance(t.before.shares, n)
		m.After.EvenImbalance, m.After.EvenCV = evenBalance(t.after.shares, n)
	}
	return m
}

// A Change is a change of topology.
type Change struct {
	// Remove has the names of nodes that leave, in that order.
	Remove []string
	// Add has nodes that join after that, in that order.
	Add []Node
}

// A Comparison is what a change moves under one kind of router.
type Comparison struct {
	Kind     Kind
	Movement Movement
	// Err is why the kind cannot have these nodes or make this change. The
	// movement is then zero.
	Err error
}

// CompareKinds makes the same change under every kind and returns what moves,
// the least first, kinds that cannot make the change last. Keys are those of
// [Compare], gone through once a kind.
func CompareKinds(kinds []Kind, nodes []Node, change Change, keys iter.Seq[hash.Stable]) []Comparison {
	list := make([]Comparison, 0, len(kinds))
	for _, k := range kinds {
		c := Comparison{Kind: k}
		before, after, err := change.applyTo(k, nodes)
		if err != nil {
			c.Err = fmt.Errorf("%s: %w", k.Name, err)
		} else {
			c.Movement = Compare(before, after, keys)
		}
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b Comparison) int {
		switch {
		case a.Err != nil && b.Err != nil:
			return 0
		case a.Err != nil:
			return 1
		case b.Err != nil:
			return -1
		}
		return cmp.Compare(a.Movement.Moved, b.Movement.Moved)
	})
	return list
}

// applyTo returns routers of one kind before and after the change.
func (c Change) applyTo(k Kind, nodes []Node) (before, after Router, err error) {
	if k.New == nil {
		return nil, nil, k.newUnlistedError()
	}
	if before, err = k.New(nodes); err != nil {
		return nil, nil, err
	}
	after = before
	if len(c.Remove) > 0 {
		if after, err = k.Without(after, c.Remove...); err != nil {
			return nil, nil, err
		}
	}
	if len(c.Add) > 0 {
		if after, err = k.With(after, c.Add...); err != nil {
			return nil, nil, err
		}
	}
	return before, after, nil
}

// partitioned is a router that cuts the space of hashes into intervals.
type partitioned interface {
	Router
	// intervalCount returns how many there are: none if the router is empty.
	intervalCount() int
	// intervalAt returns the first hash and the owner of the i-th, in the
	// order of hashes from 0.
	intervalAt(i int) (first uint64, owner int)
}

// visitOverlaps calls add with the owners before and after, and the fraction of the
// space, of every piece that no cut of either router divides.
func visitOverlaps(before, after partitioned, add func(from, to int, fraction float64)) {
	b, a := newIntervalCursor(before), newIntervalCursor(after)
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
type intervalCursor struct {
	router partitioned
	index  int // of the current interval
	owner  int
	end    float64
}

func newIntervalCursor(of partitioned) *intervalCursor {
	c := &intervalCursor{router: of, index: -1}
	c.passTo(0)
	return c
}

// passTo makes the interval that goes on beyond place at the current one.
func (c *intervalCursor) passTo(at float64) {
	for c.end <= at && at < 1 {
		c.index++
		c.owner, c.end = None, 1
		if c.index < c.router.intervalCount() {
			_, c.owner = c.router.intervalAt(c.index)
		}
		if c.index+1 < c.router.intervalCount() {
			first, _ := c.router.intervalAt(c.index + 1)
			c.end = math.Ldexp(float64(first), -64)
		}
	}
}

// A tally adds up what is where before and after. Amounts are keys, or
// fractions of the space of hashes.
type tally struct {
	before, after side
	// nodeBefore maps a node after to the node before that has its name, or to
	// None.
	nodeBefore []int
	total      float64
	stayed     float64
	flows      map[[2]int]float64 // by index before and after
}

// A side is one of the two topologies and its loads.
type side struct {
	nodes         []Node
	shares, loads []float64
}

func newTally(before, after []Node) *tally {
	index := make(map[string]int, len(before))
	for i, n := range before {
		index[n.Name] = i
	}
	t := &tally{before: newSide(before), after: newSide(after), flows: make(map[[2]int]float64)}
	for _, n := range after {
		i, ok := index[n.Name]
		if !ok {
			i = None
		}
		t.nodeBefore = append(t.nodeBefore, i)
	}
	return t
}

func newSide(nodes []Node) side {
	return side{nodes: nodes, shares: weightShares(nodes), loads: make([]float64, len(nodes))}
}

// add counts an amount that is owned by from before and by to after.
func (t *tally) add(from, to int, amount float64) {
	t.total += amount
	if from != None {
		t.before.loads[from] += amount
	}
	if to != None {
		t.after.loads[to] += amount
	}
	if t.isSameNode(from, to) {
		t.stayed += amount
	} else {
		t.flows[[2]int{from, to}] += amount
	}
}

// isSameNode reports whether from before and to after are the same node, or none.
func (t *tally) isSameNode(from, to int) bool {
	if from == None || to == None {
		return from == to
	}
	return t.nodeBefore[to] == from
}

func (t *tally) toMovement() Movement {
	m := Movement{Minimum: t.computeMinimumMoved()}
	if t.total == 0 {
		return m
	}
	for ends, amount := range t.flows {
		m.Flows = append(m.Flows, Flow{
			From:     t.before.nodeName(ends[0]),
			To:       t.after.nodeName(ends[1]),
			Fraction: amount / t.total,
		})
	}
	slices.SortFunc(m.Flows, func(a, b Flow) int {
		return cmp.Or(-cmp.Compare(a.Fraction, b.Fraction), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	m.Moved = (t.total - t.stayed) / t.total
	m.Before, m.After = t.before.toBalance(t.total), t.after.toBalance(t.total)
	return m
}

// computeMinimumMoved is what the nodes that grow must gain.
func (t *tally) computeMinimumMoved() float64 {
	if len(t.before.nodes) == 0 || len(t.after.nodes) == 0 {
		if len(t.before.nodes) == len(t.after.nodes) {
			return 0
		}
		return 1 // every key finds an owner, or loses it
	}
	gain := 0.0
	for i, share := range t.after.shares {
		if was := t.nodeBefore[i]; was != None {
			share -= t.before.shares[was]
		}
		gain += max(0, share)
	}
	return gain
}

func (s side) nodeName(i int) string {
	if i == None {
		return ""
	}
	return s.nodes[i].Name
}

// minShare is that of one hash. Less than that, the share of a weight that
// vanishes beside the others, is none, and no load can be measured by it.
const minShare = 0x1p-64

func (s side) toBalance(total float64) Balance {
	var b Balance
	for i, share := range s.shares {
		if share < minShare {
			continue // no share to exceed
		}
		over := s.loads[i] / (share * total)
		b.Imbalance = max(b.Imbalance, over)
		b.CV += share * (over - 1) * (over - 1)
	}
	b.CV = math.Sqrt(b.CV)
	return b
}

// evenBalance returns what n keys show of a router that is even. The load over
// share of a node has variance (1-share)/(share*n). The largest of k such
// deviations is on average at most sqrt(2 ln k) times the largest deviation.
func evenBalance(shares []float64, n int) (imbalance, cv float64) {
	if len(shares) == 0 {
		return 0, 0
	}
	deviation := 0.0
	for _, share := range shares {
		if share >= minShare {
			deviation = max(deviation, math.Sqrt((1-share)/(share*float64(n))))
		}
	}
	imbalance = 1 + deviation*math.Sqrt(2*math.Log(float64(len(shares))))
	return imbalance, math.Sqrt(float64(len(shares)-1) / float64(n))
}

// weightShares returns the nodes' weights over their sum. Dividing by the largest
// first keeps the sum finite.
func weightShares(nodes []Node) []float64 {
	largest, sum := 0.0, 0.0
	for _, n := range nodes {
		largest = max(largest, n.weightOrDefault())
	}
	parts := make([]float64, len(nodes))
	for i, n := range nodes {
		parts[i] = n.weightOrDefault() / largest
		sum += parts[i]
	}
	for i := range parts {
		parts[i] /= sum
	}
	return parts
}
