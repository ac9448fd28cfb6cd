package ident

import (
	"math"
	"math/rand/v2"
	"testing"
)

func isNear(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b)) }

func TestBinomialTailAgainstDirectSums(t *testing.T) {
	choose := func(n, k int) float64 {
		x := 1.
		for i := range k {
			x = x * float64(n-i) / float64(i+1)
		}
		return x
	}
	for _, n := range []int{1, 5, 20, 40} {
		for m := 0; m <= n; m++ {
			for _, p := range []float64{0.01, 0.2, 0.5} {
				if float64(m) <= float64(n)*p {
					continue // answered with 1, by choice
				}
				want := 0.
				for k := m; k <= n; k++ {
					want += choose(n, k) * math.Pow(p, float64(k)) * math.Pow(1-p, float64(n-k))
				}
				if got := binomialTail(n, m, p); !isNear(got, want) {
					t.Errorf("P(X >= %d | %d, %v) = %v, want %v", m, n, p, got, want)
				}
			}
		}
	}
	if binomialTail(10, 5, 0) != 0 || binomialTail(10, 5, 1) != 1 || binomialTail(10, 0, 0.1) != 1 || binomialTail(1e6, 1e6, 0.5) != 0 {
		t.Error("edges")
	}
}

// forEachPermutation calls f with every order of n items.
func forEachPermutation(n int, f func([]int)) {
	p := make([]int, 0, n)
	used := make([]bool, n)
	var walk func()
	walk = func() {
		if len(p) == n {
			f(p)
			return
		}
		for i := range n {
			if !used[i] {
				used[i] = true
				p = append(p, i)
				walk()
				p = p[:len(p)-1]
				used[i] = false
			}
		}
	}
	walk()
}

func TestInversionTailCountsPermutations(t *testing.T) {
	const n = 7 // small enough to try all orders
	counts := make([]int, n*(n-1)/2+1)
	total := 0
	forEachPermutation(n, func(p []int) {
		inv := 0
		for i := range p {
			for j := range i {
				if p[j] > p[i] {
					inv++
				}
			}
		}
		counts[inv]++
		total++
	})
	// The mean is 10.5 and the deviation 3.3: from 4 on the answer is 1.
	sum := 0
	for inv := range 4 {
		sum += counts[inv]
		if got, want := inversionTail(n, inv), float64(sum)/float64(total); !isNear(got, want) {
			t.Errorf("P(inversions <= %d) = %v, want %v", inv, got, want)
		}
	}
	for inv := 4; inv < len(counts); inv++ {
		if got := inversionTail(n, inv); got != 1 {
			t.Errorf("P(inversions <= %d) = %v, want no evidence", inv, got)
		}
	}
	lg, _ := math.Lgamma(maxTrendValues + 1)
	if got := inversionTail(maxTrendValues, 0); !isNear(math.Log(got), -lg) {
		t.Errorf("a sorted run of %d has chance %v", maxTrendValues, got)
	}
}

func TestCombinedChanceIsNoLouderThanLuck(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	const draws, level = 200_000, 0.01
	below := 0
	for range draws {
		if combineChances(r.Float64(), r.Float64()) <= level {
			below++
		}
	}
	// The expected count is 2000; six standard deviations are 267.
	if math.Abs(float64(below)-draws*level) > 267 {
		t.Errorf("%d of %d pairs of random chances combine to %v or less", below, draws, level)
	}
	if combineChances(0, 1) != 0 || combineChances(1, 1) != 1 {
		t.Error("edges")
	}
}

func TestLowerBound(t *testing.T) {
	for _, c := range []struct {
		m, n int
		want float64
	}{{0, 0, 0}, {0, 10, 0}, {10, 10, 0.7225}, {50, 100, 0.4038}, {1000, 1000, 0.9962}} {
		if got := lowerBound(c.m, c.n); math.Abs(got-c.want) > 1e-3 {
			t.Errorf("%d of %d: %v, want %v", c.m, c.n, got, c.want)
		}
	}
}

func TestAllDistinctChance(t *testing.T) {
	if got := allDistinctChance(23, 365); math.Abs(got-0.4927) > 1e-3 {
		t.Errorf("birthdays of 23 people: %v", got)
	}
	if allDistinctChance(3, 2) != 0 || allDistinctChance(0, 1) != 1 {
		t.Error("edges")
	}
}
