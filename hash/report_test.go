package hash

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
)

// quickOptions finds a planted fault in a tenth of the default's work.
var quickOptions = MeasureOptions{Samples: 256, KeyBytes: 8, Keys: 8192, Buckets: 256}

func mustMeasure(t *testing.T, f Function, o MeasureOptions) Report {
	t.Helper()
	r, err := Measure(f, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// measuredReports holds the report on every function: two tests read it.
var measuredReports = sync.OnceValues(func() (map[string]Report, error) {
	byName := map[string]Report{}
	all, err := MeasureAll(MeasureOptions{})
	for _, r := range all {
		byName[r.Name] = r
	}
	return byName, err
})

func reportsByName(t *testing.T) map[string]Report {
	t.Helper()
	reports, err := measuredReports()
	if err != nil {
		t.Fatal(err)
	}
	return reports
}

func TestReportsTellGoodFunctionsFromWeakOnes(t *testing.T) {
	reports := reportsByName(t)
	for _, f := range Functions() {
		r, want := reports[f.Name], VerdictGood
		if f.Kind == KindWeak || f.Name == "crc16-slot" {
			want = VerdictBad // CRC16 is linear: it spreads keys over slots and mixes nothing
		}
		if r.Verdict != want {
			t.Errorf("%s is %v, want %v:\n%+v", f.Name, r.Verdict, want, r)
		}
	}
}

func TestWeakFunctionsFailInTheWayTheirDocsSay(t *testing.T) {
	clumped := func(r Report, corpus, by string) bool {
		for _, s := range r.Spreads {
			if s.Corpus == corpus && s.By == by {
				return s.Verdict == VerdictBad && s.Z > 0
			}
		}
		return false
	}
	reports := reportsByName(t)
	if !clumped(reports["fnv1a"], "sequential", "top") || clumped(reports["fnv1a"], "sequential", "mask") {
		t.Errorf("fnv1a: sequential integers should clump in the top bits and not in the low ones: %+v", reports["fnv1a"].Spreads)
	}
	if !clumped(reports["fx"], "timestamp", "mask") || clumped(reports["fx"], "timestamp", "top") {
		t.Errorf("fx: timestamps should clump in the low bits and not in the top ones: %+v", reports["fx"].Spreads)
	}
	if s, ok := reports["crc16-slot"].Furthest("sequential"); !ok || s.Verdict != VerdictEven {
		t.Errorf("crc16-slot: sequential integers should be noted as too even, not as a fault: %+v", s)
	}
}

// Each function is random but for one planted fault.
func TestEachPlantedFaultIsFound(t *testing.T) {
	calls := uint64(0)
	seen := map[string]uint64{}
	for name, f := range map[string]func(b []byte) uint64{
		"a hash bit that is stuck":            func(b []byte) uint64 { return XXH3(b).bits | 1<<17 },
		"a hash bit that flips too rarely":    func(b []byte) uint64 { h := XXH3(b).bits; return h &^ (h >> 1 & h >> 2 & 1) },
		"a key bit that is ignored":           func(b []byte) uint64 { c := append([]byte{}, b...); c[3] |= 4; return XXH3(c).bits },
		"flips that average to 0.5 in halves": func(b []byte) uint64 { return uint64(b[0]&1)*0xffffffff ^ XXH3(b[1:]).bits },
		"random keys that fall in turn": func(b []byte) uint64 {
			if len(b) != 36 {
				return XXH3(b).bits
			}
			if _, ok := seen[string(b)]; !ok {
				seen[string(b)] = calls<<56 | calls
				calls++
			}
			return seen[string(b)]
		},
		"a constant": func([]byte) uint64 { return 7 },
		"identity":   func(b []byte) uint64 { return binary.BigEndian.Uint64(append(make([]byte, 8), b...)[len(b):]) },
	} {
		if r := mustMeasure(t, Function{Name: name, Sum: f}, quickOptions); r.Verdict != VerdictBad {
			t.Errorf("%s: %v, want bad: %+v", name, r.Verdict, r)
		}
	}
}

// If the statistics are right, the z of random functions is a standard normal
// variable: 5 % of it lies beyond 1.96, half of that on either side.
func TestChanceIsCalledChance(t *testing.T) {
	functions := 40
	if testing.Short() {
		functions = 10
	}
	var low, high, all float64
	count := func(z float64) {
		all++
		if z < -1.96 {
			low++
		} else if z > 1.96 {
			high++
		}
	}
	for i := range functions {
		sip := SipHash{uint64(i), 1}
		f := Function{Name: "random", Sum: func(b []byte) uint64 { return sip.Sum(b).local }}
		r := mustMeasure(t, f, MeasureOptions{Samples: 256, KeyBytes: 4, Keys: 2048, Buckets: 128, Alpha: 1e-9, Seed: uint64(i)})
		if r.Verdict != VerdictGood {
			t.Errorf("function %d is called %v: %+v", i, r.Verdict, r)
		}
		count(r.Avalanche.MeanZ)
		count(r.Avalanche.SpreadZ)
		for _, s := range r.Spreads {
			count(s.Z)
		}
	}
	// Five standard deviations of a binomial count around the expected 2.5 %.
	want, slack := 0.025*all, 5*math.Sqrt(0.025*all)
	if math.Abs(low-want) > slack || math.Abs(high-want) > slack {
		t.Errorf("of %v, %v are low and %v are high, want %.0f ± %.0f each", all, low, high, want, slack)
	}
}

func TestChiSquaredZAgreesWithPublishedQuantiles(t *testing.T) {
	for _, q := range []struct{ freedom, chi2, z float64 }{
		{10, 18.307, 1.6449}, {10, 2.558, -2.3263}, {100, 124.342, 1.6449}, {100, 149.449, 3.0902}, {100, 70.065, -2.3263},
	} {
		if got := computeChiSquaredZ(q.chi2, q.freedom); math.Abs(got-q.z) > 0.03 {
			t.Errorf("chi2 %v with %v degrees of freedom: z %.4f, want %.4f", q.chi2, q.freedom, got, q.z)
		}
	}
}

func TestLimitsAreTheQuantilesOfTheNormalFarIntoItsTail(t *testing.T) {
	for p, want := range map[float64]float64{0.05: 1.959964, 1e-6: 4.891638, 1e-15: 8.026859, 1e-30: 11.523884, 1e-300: 37.065788} {
		if got := zLimit(p); math.Abs(got-want) > 1e-5 {
			t.Errorf("p = %v: got %.6f, want %.6f", p, got, want)
		}
	}
}

func TestNoAlphaIsSoSmallThatWeakFunctionsPass(t *testing.T) {
	for _, f := range Functions() {
		if f.Kind != KindWeak {
			continue
		}
		for _, alpha := range []float64{1e-12, 1e-16, math.SmallestNonzeroFloat64} {
			r := mustMeasure(t, f, MeasureOptions{Alpha: alpha, Samples: 256, Keys: 8192})
			if _, err := json.Marshal(r); err != nil || r.Verdict != VerdictBad || math.IsInf(r.Avalanche.Noise, 0) {
				t.Errorf("%s at %v: %v, noise %v, %v", f.Name, alpha, r.Verdict, r.Avalanche.Noise, err)
			}
		}
	}
}

func TestAlphaIsSharedAmongAllTestsOfAReport(t *testing.T) {
	r := mustMeasure(t, Functions()[0], quickOptions)
	tests := float64(avalancheTests + len(r.Spreads))
	if want := zLimit(1e-6 / tests); r.LimitZ != want {
		t.Errorf("limit %v, want %v", r.LimitZ, want)
	}
	pairs := float64(8 * quickOptions.KeyBytes * 64)
	if want := zLimit(1e-6/tests/pairs) / (2 * math.Sqrt(float64(quickOptions.Samples))); r.Avalanche.Noise != want {
		t.Errorf("noise %v, want %v", r.Avalanche.Noise, want)
	}
}

func TestEqualSeedsMakeEqualReports(t *testing.T) {
	o := MeasureOptions{Samples: 128, Keys: 4096, Buckets: 128, Seed: 42}
	for _, f := range Functions() {
		a, b := mustMeasure(t, f, o), mustMeasure(t, f, o)
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: %+v, then %+v", f.Name, a, b)
		}
	}
	f := Functions()[0]
	other := o
	other.Seed++
	if a, b := mustMeasure(t, f, o), mustMeasure(t, f, other); a.Avalanche == b.Avalanche {
		t.Error("another seed made the same avalanche")
	}
}

func TestShortHashesAreJudgedByTheirOwnShares(t *testing.T) {
	for _, hashBits := range []int{10, 14, 32, 64} {
		for _, n := range []int{2, 1000, 1023, 1024} {
			var sum float64
			for i := range n {
				sum += bucketShare(i, n, hashBits)
			}
			if math.Abs(sum-1) > 1e-9 {
				t.Errorf("%d bits over %d buckets: shares sum to %v", hashBits, n, sum)
			}
		}
	}
	sum := func(b []byte) uint64 { return XXH3(b).bits >> 54 }
	if r := mustMeasure(t, Function{Name: "ten bits", Bits: 10, Sum: sum}, quickOptions); r.Verdict != VerdictGood {
		t.Errorf("ten good bits are %v: %+v", r.Verdict, r)
	}
}

func TestBadOptionsAreRefusedTogether(t *testing.T) {
	good := Functions()[0]
	for _, c := range []struct {
		name string
		f    Function
		o    MeasureOptions
		want error
		says []string
	}{
		{"too few samples and keys", good, MeasureOptions{Samples: 1, Keys: 10}, ErrOptions, []string{"Samples is 1", "Keys is 10"}},
		{"one key too few for chi-squared", good, MeasureOptions{Keys: 8*1024 - 1}, ErrOptions, []string{"Keys is 8191"}},
		{"buckets not a power of two", good, MeasureOptions{Buckets: 1000}, ErrOptions, []string{"Buckets is 1000"}},
		{"negative buckets", good, MeasureOptions{Buckets: -4}, ErrOptions, []string{"Buckets is -4"}},
		{"too many keys", good, MeasureOptions{Keys: 1 << 30}, ErrOptions, []string{"Keys is"}},
		{"negative key length", good, MeasureOptions{KeyBytes: -1}, ErrOptions, []string{"KeyBytes is -1"}},
		{"alpha not a probability", good, MeasureOptions{Alpha: math.NaN()}, ErrOptions, []string{"Alpha is NaN"}},
		{"corpus without keys", good, MeasureOptions{Corpora: []Corpus{{Name: "mine"}}}, ErrOptions, []string{`"mine"`}},
		{"no function", Function{Name: "none"}, MeasureOptions{}, ErrFunction, []string{`"none" has no Sum`}},
		{"too many bits", Function{Name: "wide", Bits: 65, Sum: good.Sum}, MeasureOptions{}, ErrFunction, []string{"Bits 65"}},
		{"fewer bits than buckets", Function{Name: "slim", Bits: 4, Sum: good.Sum}, MeasureOptions{}, ErrOptions, []string{`"slim" has 4 bits`}},
	} {
		_, err := Measure(c.f, c.o)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
			continue
		}
		for _, part := range c.says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", c.name, err, part)
			}
		}
	}
}

func TestReportsEncodeTheirWords(t *testing.T) {
	text, err := json.Marshal(mustMeasure(t, Functions()[0], MeasureOptions{Samples: 64, Keys: 1024, Buckets: 64}))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"name":"xxh3"`, `"kind":"stable"`, `"verdict":"good"`, `"by":"mask"`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%s does not contain %s", text, part)
		}
	}
}
