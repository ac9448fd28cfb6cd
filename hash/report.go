package hash

import (
	"fmt"
	"math"
)

// Report is what was measured about one function.
type Report struct {
	Name      string    `json:"name"`
	Kind      Kind      `json:"kind"`
	Verdict   Verdict   `json:"verdict"`
	Avalanche Avalanche `json:"avalanche"`
	// Spreads has one entry for each corpus and each way to choose a bucket.
	Spreads []Spread `json:"spreads"`
	// LimitZ is how many standard deviations from the ideal chance explains.
	LimitZ float64 `json:"limit_z"`
}

// Measure reports how close f comes to a random function: whether each bit of
// a key reaches each bit of the hash, and whether keys of the usual shapes
// fill buckets as evenly as chance would. It is a pure function: equal
// arguments give equal reports, if f's own values do not change.
//
// A good report is necessary for placing data, not sufficient for anything
// else: it says nothing about an attacker.
func Measure(f Function, o MeasureOptions) (Report, error) {
	o = o.withDefaults()
	if err := o.check(f); err != nil {
		return Report{}, err
	}
	corpora := o.corporaFor(f)
	// Three tests are made on the avalanche matrix and one on each spread.
	tests := avalancheTests + len(corpora)*len(bucketings)
	limit := zLimit(o.Alpha / float64(tests))
	r := Report{Name: f.Name, Kind: f.Kind, LimitZ: limit}
	r.Avalanche = newMatrix(f, o).judge(o.Alpha / float64(tests))
	r.Verdict = r.Avalanche.Verdict
	for _, c := range corpora {
		for _, s := range spreads(f, c, o) {
			s.judge(limit, c.Enumerable)
			r.Verdict = max(r.Verdict, s.Verdict)
			r.Spreads = append(r.Spreads, s)
		}
	}
	return r, nil
}

// MeasureAll measures every one of [Functions].
func MeasureAll(o MeasureOptions) ([]Report, error) {
	functions := Functions()
	for _, f := range functions { // all before the first is measured, which takes a while
		if err := o.withDefaults().check(f); err != nil {
			return nil, fmt.Errorf("measure %s: %w", f.Name, err)
		}
	}
	var all []Report
	for _, f := range functions {
		r, err := Measure(f, o)
		if err != nil {
			return nil, fmt.Errorf("measure %s: %w", f.Name, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// Furthest returns the spread of that corpus that is furthest from chance,
// and whether the report has one.
func (r Report) Furthest(corpus string) (Spread, bool) {
	var worst Spread
	found := false
	for _, s := range r.Spreads {
		if s.Corpus == corpus && (!found || s.worseThan(worst)) {
			worst, found = s, true
		}
	}
	return worst, found
}

// Verdict is a judgement on one test or on a function.
type Verdict uint8

// The verdicts, from best to worst.
const (
	// VerdictGood means that chance explains what was seen.
	VerdictGood Verdict = iota
	// VerdictEven means that enumerable keys fell more evenly than chance would have
	// it. That does no harm to those keys; it shows that the function keeps
	// some of their structure, and other keys may meet the other side of it.
	VerdictEven
	// VerdictBad means that chance does not explain what was seen.
	VerdictBad
)

// String returns the verdict as a word.
func (v Verdict) String() string {
	switch v {
	case VerdictGood:
		return "good"
	case VerdictEven:
		return "even"
	case VerdictBad:
		return "bad"
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// MarshalText writes the word, so that reports read well as JSON.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// zLimit returns the z that a standard normal variable exceeds, on either
// side, with probability p.
func zLimit(p float64) float64 {
	// math.Erfcinv goes through 1-p and is infinite below 1e-16, where nothing
	// would be a fault any more. Erfc itself holds down to 1e-300: bisect it.
	low, high := 0., 40.
	for range 64 {
		if mid := (low + high) / 2; math.Erfc(mid/math.Sqrt2) > p {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}
