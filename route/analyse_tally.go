package route

import (
	"cmp"
	"math"
	"slices"
)

// A tally adds up what is where before and after. Amounts are keys, or
// fractions of the space of hashes.
type tally struct {
	before, after side
	// same maps a node after to the node before that has its name, or to
	// None.
	same   []int
	total  float64
	stayed float64
	flows  map[[2]int]float64 // by index before and after
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
		t.same = append(t.same, i)
	}
	return t
}

func newSide(nodes []Node) side {
	return side{nodes: nodes, shares: shares(nodes), loads: make([]float64, len(nodes))}
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
	if t.stays(from, to) {
		t.stayed += amount
	} else {
		t.flows[[2]int{from, to}] += amount
	}
}

// stays reports whether from before and to after are the same node, or none.
func (t *tally) stays(from, to int) bool {
	if from == None || to == None {
		return from == to
	}
	return t.same[to] == from
}

func (t *tally) movement() Movement {
	m := Movement{Minimum: t.minimum()}
	if t.total == 0 {
		return m
	}
	for ends, amount := range t.flows {
		m.Flows = append(m.Flows, Flow{
			From:     t.before.name(ends[0]),
			To:       t.after.name(ends[1]),
			Fraction: amount / t.total,
		})
	}
	slices.SortFunc(m.Flows, func(a, b Flow) int {
		return cmp.Or(-cmp.Compare(a.Fraction, b.Fraction), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	m.Moved = (t.total - t.stayed) / t.total
	m.Before, m.After = t.before.balance(t.total), t.after.balance(t.total)
	return m
}

// minimum is what the nodes that grow must gain.
func (t *tally) minimum() float64 {
	if len(t.before.nodes) == 0 || len(t.after.nodes) == 0 {
		if len(t.before.nodes) == len(t.after.nodes) {
			return 0
		}
		return 1 // every key finds an owner, or loses it
	}
	gain := 0.0
	for i, share := range t.after.shares {
		if was := t.same[i]; was != None {
			share -= t.before.shares[was]
		}
		gain += max(0, share)
	}
	return gain
}

func (s side) name(i int) string {
	if i == None {
		return ""
	}
	return s.nodes[i].Name
}

// leastShare is that of one hash. Less than that, the share of a weight that
// vanishes beside the others, is none, and no load can be measured by it.
const leastShare = 0x1p-64

func (s side) balance(total float64) Balance {
	var b Balance
	for i, share := range s.shares {
		if share < leastShare {
			continue // no share to exceed
		}
		over := s.loads[i] / (share * total)
		b.Imbalance = max(b.Imbalance, over)
		b.CV += share * (over - 1) * (over - 1)
	}
	b.CV = math.Sqrt(b.CV)
	return b
}

// evenRouter returns what n keys show of a router that is even. The load over
// share of a node has variance (1-share)/(share*n). The largest of k such
// deviations is on average at most sqrt(2 ln k) times the largest deviation.
func evenRouter(shares []float64, n int) (imbalance, cv float64) {
	if len(shares) == 0 {
		return 0, 0
	}
	deviation := 0.0
	for _, share := range shares {
		if share >= leastShare {
			deviation = max(deviation, math.Sqrt((1-share)/(share*float64(n))))
		}
	}
	imbalance = 1 + deviation*math.Sqrt(2*math.Log(float64(len(shares))))
	return imbalance, math.Sqrt(float64(len(shares)-1) / float64(n))
}

// shares returns the nodes' weights over their sum. Dividing by the largest
// first keeps the sum finite.
func shares(nodes []Node) []float64 {
	largest, sum := 0.0, 0.0
	for _, n := range nodes {
		largest = max(largest, n.weight())
	}
	parts := make([]float64, len(nodes))
	for i, n := range nodes {
		parts[i] = n.weight() / largest
		sum += parts[i]
	}
	for i := range parts {
		parts[i] /= sum
	}
	return parts
}
