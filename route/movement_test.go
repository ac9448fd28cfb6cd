package route

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/cleavekv/cleave/hash"
)

// sigmas is how many standard errors a measured fraction may be off. A right
// implementation is off by more with probability 6e-7; the sample never
// changes, so a test that passes once passes always.
const sigmas = 5

// isWithinError reports whether a fraction measured over n keys agrees with a true one.
func isWithinError(got, want float64, n int) bool {
	return math.Abs(got-want) <= sigmas*math.Sqrt(want*(1-want)/float64(n))
}

// mustKind returns the kind of that name.
func mustKind(t testing.TB, name string) Kind {
	kinds := Kinds()
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		t.Fatalf("no kind %q", name)
	}
	return kinds[i]
}

// sampleKeys is how many keys a statistical test routes. More of them, under
// CLEAVE_SOAK=1, narrow what it tolerates to a quarter.
var sampleKeys = func() int {
	if os.Getenv("CLEAVE_SOAK") == "1" {
		return 1 << 20
	}
	return 1 << 16
}()

func TestMovementOnGrowthByOneHasItsClosedForm(t *testing.T) {
	least := func(n float64) float64 { return 1 / (n + 1) }
	for _, c := range []struct {
		kind string
		want func(n float64) float64
	}{
		{"modulo", func(n float64) float64 { return n / (n + 1) }},
		{"interval", func(float64) float64 { return 0.5 }},
		{"interval-relabelled", relabelledShare},
		{"jump", least},
		{"binomial", least},
		{"anchor", least},
		{"rendezvous", least},
	} {
		k := mustKind(t, c.kind)
		for _, n := range []int{1, 2, 3, 8, 9, 32, 100} {
			r := must(k.New(newNodes(n)))
			m := Compare(r, must(k.With(r, Node{Name: "new"})), Sample(sampleKeys))
			want := c.want(float64(n))
			if !isWithinError(m.Moved, want, sampleKeys) {
				t.Errorf("%s: %d nodes and one more move %.5f ± %.5f, want %.5f", c.kind, n, m.Moved, m.StdErr, want)
			}
			if stdErr := math.Sqrt(want * (1 - want) / float64(sampleKeys)); m.StdErr < 0.9*stdErr || m.StdErr > 1.1*stdErr {
				t.Errorf("%s: %d nodes and one more have standard error %v, want about %v", c.kind, n, m.StdErr, stdErr)
			}
		}
	}
}

// relabelledShare is what intervals with relabelling move from n to n+1 nodes.
func relabelledShare(n float64) float64 {
	if math.Mod(n, 2) == 0 {
		return (n + 2) / (4 * (n + 1))
	}
	return (n + 1) / (4 * n)
}

// TestRingMovesWhatTheNewNodeOwns differs from the others: a ring's nodes have
// their shares only on average over rings, so the law is about what the new
// node gets in this one, and that it is about its share.
func TestRingMovesWhatTheNewNodeOwns(t *testing.T) {
	for _, n := range []int{3, 8, 100} {
		r := must(NewRing(newNodes(n), RingOptions{}))
		with := must(r.With(Node{Name: "new"}))
		m := Compare(r, with, Sample(sampleKeys))
		owned := 0
		for _, i := range sampleOwners(with, sampleKeys) {
			if i == n {
				owned++
			}
		}
		if m.Moved != float64(owned)/float64(sampleKeys) {
			t.Errorf("%d nodes: %v moved, but the new node owns %v", n, m.Moved, float64(owned)/float64(sampleKeys))
		}
		// The share of a node with v virtual nodes varies by 1/sqrt(v).
		share := 1 / float64(n+1)
		if off := math.Abs(m.Moved - share); off > sigmas*(share/math.Sqrt(defaultRingPoints)+m.StdErr) {
			t.Errorf("%d nodes: %v moved, want about %v", n, m.Moved, share)
		}
	}
}

func TestMultiplyingTheNodesOfAModuloMovesAllButOneInD(t *testing.T) {
	for _, n := range []int{1, 3, 8} {
		for _, d := range []int{2, 3, 5} {
			r := must(NewModulo(newNodes(n)))
			m := Compare(r, must(NewModulo(newNodes(n*d))), Sample(sampleKeys))
			want := float64(d-1) / float64(d)
			if !isWithinError(m.Moved, want, sampleKeys) || math.Abs(m.Minimum-want) > 1e-12 {
				t.Errorf("%d nodes times %d move %.5f with minimum %.5f, want %.5f", n, d, m.Moved, m.Minimum, want)
			}
			for _, f := range m.Flows {
				if slices.Contains(r.Nodes(), Node{Name: f.To}) {
					t.Errorf("%d nodes times %d move keys to %s, an old node", n, d, f.To)
				}
			}
		}
	}
}

func TestIntervalsAreComparedExactly(t *testing.T) {
	for n := 1; n <= 64; n++ {
		r := must(NewInterval(newNodes(n)))
		last := Compare(r, must(r.With(Node{Name: "new"})), nil)
		middle := Compare(r, must(r.WithRelabelled(Node{Name: "new"})), nil)
		for _, c := range []struct {
			m    Movement
			want float64
		}{{last, 0.5}, {middle, relabelledShare(float64(n))}} {
			if !c.m.Exact || c.m.StdErr != 0 || math.Abs(c.m.Moved-c.want) > 1e-12 {
				t.Errorf("%d nodes: %v moved (exact: %v), want %v", n, c.m.Moved, c.m.Exact, c.want)
			}
		}
	}
}

func TestExactAndSampledComparisonsAgree(t *testing.T) {
	interval := must(NewInterval(newNodes(7)))
	maglev := must(NewMaglev(newNodes(7), MaglevOptions{}))
	for _, c := range []struct{ before, after Router }{
		{interval, must(interval.With(Node{Name: "new"}))},
		{maglev, must(maglev.With(Node{Name: "new"}))},
		{maglev, must(maglev.Without("node-3"))},
		{interval, maglev},
		{&Interval{}, maglev},
	} {
		exact, sampled := Compare(c.before, c.after, nil), Compare(c.before, c.after, Sample(sampleKeys))
		if !exact.Exact || sampled.Exact {
			t.Errorf("%T to %T: exact is %v and %v", c.before, c.after, exact.Exact, sampled.Exact)
		}
		if !isWithinError(sampled.Moved, exact.Moved, sampleKeys) {
			t.Errorf("%T to %T: %v moved in the sample, exactly %v", c.before, c.after, sampled.Moved, exact.Moved)
		}
		for _, f := range exact.Flows {
			got := 0.0
			for _, s := range sampled.Flows {
				if s.From == f.From && s.To == f.To {
					got = s.Fraction
				}
			}
			if !isWithinError(got, f.Fraction, sampleKeys) {
				t.Errorf("%T to %T: %v from %s to %s in the sample, exactly %v", c.before, c.after, got, f.From, f.To, f.Fraction)
			}
		}
	}
}

func TestFlowsAddUpToWhatMovedAndComeSorted(t *testing.T) {
	forKinds(t, func(t *testing.T, k Kind) {
		r := must(k.New(newNodes(4)))
		m := Compare(r, must(k.With(r, newNodes(8)[4:]...)), Sample(10000))
		sum := 0.0
		for _, f := range m.Flows {
			if f.From == f.To {
				t.Errorf("%s gives to itself", f.From)
			}
			sum += f.Fraction
		}
		if math.Abs(sum-m.Moved) > 1e-9 {
			t.Errorf("the flows add up to %v of %v", sum, m.Moved)
		}
		if !slices.IsSortedFunc(m.Flows, func(a, b Flow) int { return cmp.Compare(b.Fraction, a.Fraction) }) {
			t.Error("the flows are not sorted by what they move")
		}
	})
}

func TestMinimumFollowsTheWeights(t *testing.T) {
	weighted := func(weights ...float64) Router {
		nodes := newNodes(len(weights))
		for i, w := range weights {
			nodes[i].Weight = w
		}
		return must(NewMaglev(nodes, MaglevOptions{Entries: 65537}))
	}
	for _, c := range []struct {
		before, after Router
		want          float64
	}{
		{weighted(1, 1), weighted(1, 1), 0},
		{weighted(1, 1), weighted(1, 1, 2), 0.5},
		{weighted(1, 1, 2), weighted(1, 1), 0.5},
		{weighted(1, 1), weighted(1, 3), 0.25},
		{weighted(1, 1), weighted(math.MaxFloat64, math.MaxFloat64), 0},
		{weighted(1, 1), weighted(math.MaxFloat64, 0, math.MaxFloat64), 0.5},
		{&Maglev{}, weighted(1), 1},
		{weighted(1), &Maglev{}, 1},
		{&Maglev{}, &Maglev{}, 0},
		{nil, weighted(1, 1), 1},
	} {
		m := Compare(c.before, c.after, nil)
		if math.Abs(m.Minimum-c.want) > 1e-12 {
			t.Errorf("%v to %v: minimum %v, want %v", c.before, c.after.Nodes(), m.Minimum, c.want)
		}
		// Entries are a ten-thousandth: a share is met to that, and the
		// table then moves at least the minimum.
		if m.Excess() < -0.001 || m.Moved > 1 || math.IsNaN(m.Moved) {
			t.Errorf("%v to %v: %v moved, minimum %v", c.before, c.after.Nodes(), m.Moved, m.Minimum)
		}
	}
}

func TestBalanceMeasuresLoadOverShare(t *testing.T) {
	// Keys chosen by hand: a modulo of 4 nodes sees 3, 1, 0 and 0 keys.
	keys := func(yield func(hash.Stable) bool) {
		for _, bits := range []uint64{0, 4, 8, 1} {
			if !yield(hash.Restore(bits)) {
				return
			}
		}
	}
	r := must(NewModulo(newNodes(4)))
	m := Compare(r, r, keys)
	if m.Keys != 4 || m.Moved != 0 || m.Before.Imbalance != 3 {
		t.Errorf("got %+v, want 4 keys, 0 moved, imbalance 3", m)
	}
	// Loads over shares are 3, 1, 0, 0: deviations 2, 0, -1, -1.
	if want := math.Sqrt(6.0 / 4); math.Abs(m.Before.CV-want) > 1e-12 {
		t.Errorf("CV %v, want %v", m.Before.CV, want)
	}
}

func TestEvenFiguresAreThoseOfAnEvenRouter(t *testing.T) {
	r := must(NewInterval(newNodes(1000)))
	b := Compare(r, r, Sample(1<<16)).Before
	// The variance of 1000 nodes' loads is known to sqrt(2/1000) of itself.
	if ratio := b.CV / b.EvenCV; math.Abs(ratio*ratio-1) > sigmas*math.Sqrt(2.0/1000) {
		t.Errorf("an even router shows a CV of %v, said to be %v", b.CV, b.EvenCV)
	}
	// A bound on the mean: the largest of 1000 is seldom beyond, and never
	// far below.
	if excess := (b.Imbalance - 1) / (b.EvenImbalance - 1); excess < 0.6 || excess > 1.4 {
		t.Errorf("an even router shows an imbalance of %v, said to be at most %v", b.Imbalance, b.EvenImbalance)
	}
	if b := Compare(r, r, nil).Before; b.EvenImbalance != 1 || b.EvenCV != 0 {
		t.Errorf("exactly, an even router shows %+v", b)
	}
	if b := Compare(nil, r, Sample(10)).Before; b != (Balance{}) {
		t.Errorf("an empty router shows %+v", b)
	}
}

func TestNoKeysMoveNothing(t *testing.T) {
	r := must(NewJump(newNodes(2)))
	m := Compare(r, r, Sample(0))
	if m.Moved != 0 || m.Keys != 0 || m.StdErr != 0 || len(m.Flows) != 0 {
		t.Errorf("got %+v", m)
	}
}

func TestMovementsSayWhatMovesAndWhatMust(t *testing.T) {
	for want, m := range map[string]Movement{
		"22.26 % ± 0.04 % of keys move; at least 22.22 % must": {Moved: 0.2226, StdErr: 0.00041, Keys: 1 << 20, Minimum: 2.0 / 9},
		"33.33 % of keys move; at least 33.33 % must":          {Moved: 1.0 / 3, Exact: true, Minimum: 1.0 / 3},
		"no keys were routed":                                  {Minimum: 0.5},
	} {
		if got := m.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestNodesAreTheSameIfTheirNamesAre(t *testing.T) {
	nodes := newNodes(9)
	r := must(NewRendezvous(nodes))
	slices.Reverse(nodes)
	if m := Compare(r, must(NewRendezvous(nodes)), Sample(1000)); m.Moved != 0 {
		t.Errorf("reordering the nodes moves %v", m.Moved)
	}
	for i := range nodes {
		nodes[i].Name = fmt.Sprintf("other-%d", i)
	}
	if m := Compare(r, must(NewRendezvous(nodes)), Sample(1000)); m.Moved != 1 || m.Minimum < 0.999 {
		t.Errorf("replacing all nodes moves %v, minimum %v", m.Moved, m.Minimum)
	}
}

func TestBalanceIsFiniteHoweverSmallAWeight(t *testing.T) {
	for _, w := range []float64{5e-324, 1e-310, 1e-200, 1e-19, 1e200, math.MaxFloat64} {
		// A maglev gives every node an entry, however small its share.
		r := must(NewMaglev([]Node{{Name: "a", Weight: w}, {Name: "b"}}, MaglevOptions{}))
		for _, m := range []Movement{Compare(r, r, nil), Compare(r, r, Sample(1)), Compare(r, r, Sample(1000))} {
			if b := m.Before; math.IsInf(b.Imbalance+b.CV+b.EvenImbalance+b.EvenCV, 0) || math.IsNaN(b.Imbalance+b.CV+b.EvenImbalance+b.EvenCV) {
				t.Errorf("weights %v and 1: %+v", w, b)
			}
		}
	}
}
