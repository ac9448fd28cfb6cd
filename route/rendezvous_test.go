package route

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/cleavekv/cleave/hash"
	"pgregory.net/rapid"
)

// TestRendezvousPicksTheBestScore compares with the definition: every node's
// cost, no bounds, no vectors.
func TestRendezvousPicksTheBestScore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := newNodes(rapid.IntRange(1, 300).Draw(t, "nodes"))
		if rapid.Bool().Draw(t, "weighted") {
			for i := range nodes {
				nodes[i].Weight = rapid.SampledFrom([]float64{1e-9, 0.3, 1, 1.5, 7, 1e9}).Draw(t, "weight")
			}
		}
		r := must(NewRendezvous(nodes))
		for _, h := range drawKeys(t, 20) {
			want, least := None, math.Inf(1)
			for at, id := range r.ids {
				score := r.groups[at/groupNodes].score(at%groupNodes, newDraw(h))
				if c := scoreCost(score, nodes[id].weightOrDefault()); c < least {
					want, least = int(id), c
				}
			}
			if got := r.Route(h); got != want {
				t.Fatalf("hash %#x goes to %d, want %d", h.Uint64(), got, want)
			}
			if got := r.findWinner(newDraw(h), nil); got != want {
				t.Fatalf("hash %#x is won by %d, want %d", h.Uint64(), got, want)
			}
		}
	})
}

// TestAllWaysToOrderNodesAgree: which one is taken depends on how many nodes and
// answers there are, but the answers do not.
func TestAllWaysToOrderNodesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := must(NewRendezvous(drawNodes(t, Kind{Weighted: rapid.Bool().Draw(t, "weighted")}, 40)))
		n := rapid.IntRange(1, len(r.ids)).Draw(t, "n")
		for _, h := range drawKeys(t, 5) {
			d := newDraw(h)
			a, b, c := r.appendBySelection(nil, d, n), r.appendByScan(nil, d, n), r.appendBySort(nil, d, n)
			if !slices.Equal(a, b) || !slices.Equal(a, c) {
				t.Fatalf("hash %#x: %v, %v and %v", h.Uint64(), a, b, c)
			}
		}
	})
}

func TestManyNodesAreOrderedWhateverTheNumberOfAnswers(t *testing.T) {
	for _, nodes := range []int{maxStackNodes, maxStackNodes + 1, 300} {
		r := must(NewRendezvous(newNodes(nodes)))
		for h := range Sample(50) {
			all := r.RouteN(nil, h, nodes)
			for _, n := range []int{1, maxScanAnswers, maxScanAnswers + 1} {
				if got := r.RouteN(nil, h, n); !slices.Equal(got, all[:n]) {
					t.Fatalf("hash %#x among %d: first %d are %v, want %v", h.Uint64(), nodes, n, got, all[:n])
				}
			}
		}
	}
}

// chiSquared returns how many standard deviations the counts are off what is
// expected of them. The keys are fixed, so a test that passes keeps passing.
func chiSquared(counts, expected []float64) float64 {
	sum := 0.0
	for i, e := range expected {
		sum += (counts[i] - e) * (counts[i] - e) / e
	}
	df := float64(len(counts) - 1)
	return (sum - df) / math.Sqrt(2*df)
}

func TestRendezvousLoadsFollowTheWeights(t *testing.T) {
	const keys = 200000
	for _, n := range []int{2, 9, 64, 500} {
		for _, weights := range [][]float64{{1}, {0.25, 3, 1}, {1, 50}} {
			nodes := newNodes(n)
			for i := range nodes {
				nodes[i].Weight = weights[i%len(weights)]
			}
			r := must(NewRendezvous(nodes))
			counts, expected := make([]float64, n), weightShares(nodes)
			for i := range expected {
				expected[i] *= keys
			}
			for h := range Sample(keys) {
				counts[r.Route(h)]++
			}
			if off := chiSquared(counts, expected); math.Abs(off) > 4 {
				t.Errorf("%d nodes, weights %v: loads are off by %.1f standard deviations", n, weights, off)
			}
		}
	}
}

// TestKeysOfALostNodeSpreadEvenly: second choices are independent of first.
func TestKeysOfALostNodeSpreadEvenly(t *testing.T) {
	const n, keys = 12, 200000
	r := must(NewRendezvous(newNodes(n)))
	var counts, expected []float64
	seconds := [n][n]float64{}
	for h := range Sample(keys) {
		two := r.RouteN(nil, h, 2)
		seconds[two[0]][two[1]]++
	}
	for i := range n {
		for j := range n {
			if i != j {
				counts = append(counts, seconds[i][j])
				expected = append(expected, float64(keys)/n/(n-1))
			}
		}
	}
	if off := chiSquared(counts, expected); math.Abs(off) > 4 {
		t.Errorf("off by %.1f standard deviations", off)
	}
}

// TestScoresOfThreeNodesAreInAnyOrder would see nodes whose scores go together.
func TestScoresOfThreeNodesAreInAnyOrder(t *testing.T) {
	const keys = 6000
	r := must(NewRendezvous(newNodes(24)))
	for a := range 24 {
		for b := range a {
			for c := b % 5; c < b; c += 5 {
				var orders [8]float64
				for h := range Sample(keys) {
					d := newDraw(h)
					score := func(i int) uint32 { return r.groups[i/groupNodes].score(i%groupNodes, d) }
					x, y, z := score(a), score(b), score(c)
					orders[toBit(x < y)|toBit(y < z)<<1|toBit(x < z)<<2]++
				}
				six := slices.DeleteFunc(orders[:], func(n float64) bool { return n == 0 })
				if off := chiSquared(six, slices.Repeat([]float64{keys / 6}, 6)); len(six) != 6 || off > 7 {
					t.Errorf("nodes %d, %d, %d: orders are off by %.1f standard deviations", a, b, c, off)
				}
			}
		}
	}
}

func toBit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestLogarithmIsRightAndStrictlyRises(t *testing.T) {
	for _, start := range []uint64{1, 1 << 20, 1<<32 - 500, 1 << 32, 1<<32 + 1<<25 - 500, 3<<31 - 500, 1<<33 - 2000} {
		before := math.Inf(-1)
		for x := start; x < start+1000 && x < 1<<33; x++ {
			got, want := fixedLog(x), math.Log1p(-math.Ldexp(1<<33-float64(x), -33))
			if math.Abs(got-want) > 1e-13*math.Abs(want) {
				t.Fatalf("logarithm of %d/2^33 is %v, want %v", x, got, want)
			}
			if got <= before {
				t.Fatalf("logarithm does not rise at %d/2^33", x)
			}
			before = got
		}
	}
}

// TestFloorsAndCeilingsHold: they decide what is not looked at. They are
// tightest for high scores.
func TestFloorsAndCeilingsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weight := rapid.Float64Range(1e-9, 1e9).Draw(t, "weight")
		heaviest := rapid.Float64Range(weight, 1e9).Draw(t, "heaviest")
		handicap := float32(heaviest / weight)
		for _, score := range []uint32{
			math.MaxUint32 - rapid.Uint32Range(0, 1<<18).Draw(t, "high"),
			rapid.Uint32().Draw(t, "any"),
		} {
			c := scoreCost(score, weight)
			if floor, bound := costFloor(score, handicap), float32(c*heaviest*boundScale); floor >= bound {
				t.Fatalf("score %d: floor %v of cost %v", score, floor, bound)
			}
			if ceiling := costCeiling(score, weight); ceiling < c {
				t.Fatalf("score %d: ceiling %v of cost %v", score, ceiling, c)
			}
		}
	})
}

func TestRendezvousRefusesWeightsItCannotHonour(t *testing.T) {
	for _, w := range []float64{1e-10, 1e10, -1, math.NaN(), math.Inf(1)} {
		r, err := NewRendezvous([]Node{{Name: "a"}, {Name: "b", Weight: w}})
		if r != nil || !errors.Is(err, ErrWeight) {
			t.Errorf("weight %v: router %v and error %v, want %v", w, r, err, ErrWeight)
		}
	}
}

func TestRendezvousRefusesNamesThatScoreAlike(t *testing.T) {
	// Found by undoing XXH3 for two hashes that differ in the ignored bit.
	alike := []Node{
		{Name: "\x27\xc5\xfb\x69\xc2\x9e\xc8\x93\x3a\x52\x96\x09\x3b\xbc\x56\xaf"},
		{Name: "\x33\x50\x12\xf4\xa5\xa8\x6f\xe6\x3a\x52\x96\x09\x3b\xbc\x56\xaf"},
	}
	a, b := hash.XXH3String(alike[0].Name).Uint64(), hash.XXH3String(alike[1].Name).Uint64()
	if a^b != ignoredBit {
		t.Fatalf("hashes %#x and %#x, want them to differ in bit %#x alone", a, b, uint64(ignoredBit))
	}
	if _, err := NewRendezvous(alike); !errors.Is(err, ErrNameHash) {
		t.Errorf("error %v, want %v", err, ErrNameHash)
	}
	if _, err := NewRing(alike, RingOptions{}); err != nil {
		t.Errorf("a ring tells them apart, but: %v", err)
	}
}

// TestTiesAreSettledByName: equal scores are too rare to meet, so look at what
// decides them.
func TestTiesAreSettledByName(t *testing.T) {
	r := must(NewRendezvous([]Node{{Name: "c"}, {Name: "a"}, {Name: "d"}, {Name: "b"}}))
	if want := []int32{1, 3, 0, 2}; !slices.Equal(r.ids, want) {
		t.Errorf("order is %v, want %v", r.ids, want)
	}
}
