package key

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestRoundRobinVisitsEverySaltInTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, MaxSalts).Draw(t, "n")
		start := rapid.Uint64().Draw(t, "start")
		r, err := NewRoundRobin(n, start)
		if err != nil {
			t.Fatal(err)
		}
		want := int(start % uint64(n))
		for range 50 {
			if got := r.Salt(nil); got != want {
				t.Fatalf("got salt %d, want %d of %d", got, want, n)
			}
			want = (want + 1) % n
		}
	})
}

func TestConcurrentRoundRobinIsExactlyEven(t *testing.T) {
	// So many rounds that the writers do meet.
	const salts, writers, rounds = 7, 4, 700_000
	r, err := NewRoundRobin(salts, math.MaxUint64)
	if err != nil {
		t.Fatal(err)
	}
	counts := make([][salts]int, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for range rounds {
				counts[w][r.Salt(nil)]++
			}
		})
	}
	wg.Wait()
	for s := range salts {
		total := 0
		for w := range writers {
			total += counts[w][s]
		}
		if total != writers*rounds/salts {
			t.Errorf("salt %d was given %d times, want %d", s, total, writers*rounds/salts)
		}
	}
}

// chiSquared returns the statistic of counts against a flat distribution.
func chiSquared(counts []int) float64 {
	total := 0
	for _, c := range counts {
		total += c
	}
	want, sum := float64(total)/float64(len(counts)), 0.
	for _, c := range counts {
		sum += (float64(c) - want) * (float64(c) - want) / want
	}
	return sum
}

func TestRandomAndDerivedSaltsSpreadEvenly(t *testing.T) {
	const draws = 20_000
	random := func(n int) Salter {
		s, err := NewRandomSalt(n, rand.New(rand.NewPCG(1, 2)).Uint64)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	derived := func(n int) Salter {
		s, err := NewDerivedSalt(n)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, n := range []int{2, 3, 16, 100} {
		for _, s := range []Salter{random(n), derived(n)} {
			counts := make([]int, n)
			for i := range draws {
				counts[s.Salt(fmt.Appendf(nil, "user-%d", i))]++
			}
			// Seven standard deviations above the mean; the inputs are fixed, so
			// this does not flicker.
			df := float64(n - 1)
			if x := chiSquared(counts); x > df+7*math.Sqrt(2*df) {
				t.Errorf("%T over %d salts: chi-squared %.1f", s, n, x)
			}
			if s.Salts() != n {
				t.Errorf("%T says %d salts, want %d", s, s.Salts(), n)
			}
		}
	}
}

// The values are part of stored keys: a change here loses data.
func TestDerivedSaltsNeverChange(t *testing.T) {
	d, err := NewDerivedSalt(100)
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, column := range []string{"", "a", "user-1", "user-2", "device/17"} {
		got = append(got, d.Salt([]byte(column)))
	}
	if want := []int{17, 90, 48, 12, 98}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestDoublingSplitsEverySaltInTwo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, MaxSalts/2).Draw(t, "n")
		column := rapid.SliceOf(rapid.Byte()).Draw(t, "column")
		small, _ := NewDerivedSalt(n)
		large, _ := NewDerivedSalt(2 * n)
		if got, was := large.Salt(column), small.Salt(column); got/2 != was {
			t.Fatalf("salt %d of %d became %d of %d", was, n, got, 2*n)
		}
	})
}

func TestBadSaltsAreRefused(t *testing.T) {
	source := func() uint64 { return 0 }
	for _, n := range []int{0, -1, MaxSalts + 1, math.MinInt, math.MaxInt} {
		_, a := NewRoundRobin(n, 0)
		_, b := NewRandomSalt(n, source)
		_, c := NewDerivedSalt(n)
		_, d := SaltCount(n)
		for _, err := range []error{a, b, c, d, checkSalts(n)} {
			if !errors.Is(err, ErrSalt) {
				t.Errorf("%d salts: got %v, want ErrSalt", n, err)
			}
		}
	}
	if _, err := NewRandomSalt(4, nil); !errors.Is(err, ErrSalt) {
		t.Errorf("no source: got %v", err)
	}
	for _, n := range []int{1, MaxSalts} {
		if err := checkSalts(n); err != nil {
			t.Errorf("%d salts: %v", n, err)
		}
	}
}

func TestZeroSaltersHaveOneSalt(t *testing.T) {
	for _, s := range []Salter{&RoundRobin{}, RandomSalt{}, DerivedSalt{}} {
		if s.Salts() != 1 || s.Salt([]byte("x")) != 0 || s.Salt(nil) != 0 {
			t.Errorf("%T: %d salts", s, s.Salts())
		}
	}
}

func TestSaltCountCoversTheNodesWithAPowerOfTwo(t *testing.T) {
	for nodes, want := range map[int]int{1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 50: 64, 64: 64, 65: 128, MaxSalts: MaxSalts} {
		a, err := SaltCount(nodes)
		if err != nil || a.Salts != want || a.Price == "" {
			t.Errorf("%d nodes: got %+v, %v; want %d salts", nodes, a, err, want)
		}
	}
}
