package ident

import "math"

// maxChance is the largest probability at which a pattern still counts as
// more than luck: one column in a million.
const maxChance = 1e-6

// binomialTail returns the probability of m or more successes in n trials of
// probability p.
func binomialTail(n, m int, p float64) float64 {
	switch {
	case m <= 0 || p >= 1:
		return 1
	case p <= 0:
		return 0
	case float64(m) <= float64(n)*p:
		return 1 // at or below the mean: no evidence, and no need to be exact
	}
	lg := func(x int) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
	// log1p keeps the precision when p is tiny.
	term := math.Exp(lg(n) - lg(m) - lg(n-m) + float64(m)*math.Log(p) + float64(n-m)*math.Log1p(-p))
	sum := 0.
	for k := m; k <= n && term > sum*1e-12; k++ {
		sum += term
		term *= float64(n-k) / float64(k+1) * p / (1 - p)
	}
	return min(sum, 1)
}

// inversionTail returns the probability that a random order of n items has
// at most inv pairs out of order. It is exact: the number of inversions is
// the sum of independent uniform draws from {0}, {0, 1}, … {0, …, n-1}. But
// within two standard deviations of the mean it answers 1: that is no evidence,
// and most samples end there.
func inversionTail(n, inv int) float64 {
	mean := float64(n*(n-1)) / 4
	deviation := math.Sqrt(float64(n*(n-1)*(2*n+5)) / 72)
	if float64(inv) >= mean-2*deviation {
		return 1
	}
	prob := make([]float64, inv+1)
	next := make([]float64, inv+1)
	prob[0] = 1
	for i := 2; i <= n; i++ {
		window := 0.
		for k := range next {
			window += prob[k]
			if k >= i {
				window -= prob[k-i]
			}
			next[k] = window / float64(i)
		}
		prob, next = next, prob
	}
	sum := 0.
	for _, p := range prob {
		sum += p
	}
	return min(sum, 1)
}

// combine returns the probability that two independent pieces of evidence
// are together as strong as this by luck. It is more than the product: the
// product of two uniform numbers is below c with probability c - c*ln c.
func combine(p, q float64) float64 {
	c := p * q
	if c <= 0 {
		return 0
	}
	return min(c-c*math.Log(c), 1)
}

// allDistinctChance returns the probability that n draws out of size values
// never repeat.
func allDistinctChance(n int, size float64) float64 {
	log := 0.
	for i := range n {
		left := 1 - float64(i)/size
		if left <= 0 {
			return 0
		}
		log += math.Log(left)
	}
	return math.Exp(log)
}

// lowerBound returns the share that, with 97.5 % confidence, is exceeded by
// the population from which m of n were drawn (Wilson's interval).
func lowerBound(m, n int) float64 {
	if n == 0 {
		return 0
	}
	const z = 1.96
	share, size := float64(m)/float64(n), float64(n)
	mid := share + z*z/(2*size)
	half := z * math.Sqrt(share*(1-share)/size+z*z/(4*size*size))
	return max(0, (mid-half)/(1+z*z/size))
}

// trend says how a list of distinct values follows its order of arrival.
type trend struct {
	up, steps   int     // neighbours that rise, of all
	concordance float64 // share of all pairs that rise
	chance      float64 // of following arrival that well, up or down, by luck
}

// follows reports whether arrival and order agree, up or down, so well that
// new values lie at one end.
func (t trend) follows() bool {
	return t.chance <= maxChance && (t.concordance >= 0.75 || t.concordance <= 0.25)
}

func (t trend) rising() float64 {
	if t.steps == 0 {
		return 0
	}
	return float64(t.up) / float64(t.steps)
}

// maxTrend bounds the values compared pair by pair; more are thinned evenly.
const maxTrend = 128

func trendOf(values []*specimen) trend {
	n := len(values)
	t := trend{chance: 1, steps: n - 1}
	if n < 2 {
		return trend{chance: 1}
	}
	for i := 1; i < n; i++ {
		if values[i-1].compare(values[i]) < 0 {
			t.up++
		}
	}

	m := min(n, maxTrend)
	inversions, pairs := 0, m*(m-1)/2
	for i := range m {
		for j := range i {
			if values[j*n/m].compare(values[i*n/m]) > 0 {
				inversions++
			}
		}
	}
	t.concordance = 1 - float64(inversions)/float64(pairs)
	// Two-sided: a column may also count down.
	t.chance = min(1, 2*inversionTail(m, min(inversions, pairs-inversions)))
	return t
}
