package servercells

import (
	"math"
	"math/rand/v2"
)

// zipf draws numbers below n, small ones more often: the k-th with a chance of about
// 1/k^skew. It is the method of Gray and others ("Quickly generating billion-record
// synthetic databases") that YCSB uses too.
type zipf struct {
	n                 int
	alpha, eta, zetaN float64
	half              float64 // where the second number ends
}

// skew is that of YCSB.
const skew = 0.99

func newZipf(n int) *zipf {
	zeta := 0.0
	for i := 1; i <= n; i++ {
		zeta += math.Pow(float64(i), -skew)
	}
	two := 1 + math.Pow(0.5, skew)
	return &zipf{
		n: n, zetaN: zeta, alpha: 1 / (1 - skew), half: two,
		eta: (1 - math.Pow(2/float64(n), 1-skew)) / (1 - two/zeta),
	}
}

func (z *zipf) next(r *rand.Rand) int {
	u := r.Float64()
	switch uz := u * z.zetaN; {
	case uz < 1:
		return 0
	case uz < z.half:
		return 1
	}
	return min(z.n-1, int(float64(z.n)*math.Pow(z.eta*u-z.eta+1, z.alpha)))
}
