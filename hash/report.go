package hash

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// ErrOptions means a report was asked for with figures that it cannot use:
// the text says which, and what is allowed.
var ErrOptions = errors.New("hash: bad report options")

// ErrFunction means a [Function] does not describe a hash function.
var ErrFunction = errors.New("hash: bad function")

// Options says how a function is measured. The zero value works. More samples
// and keys show smaller faults, in proportion to their square root.
type Options struct {
	// Samples is the number of random keys whose bits are flipped. Default
	// 1024: a pair of bits is then known to 0.016. From 64 to 2^20.
	Samples int
	// KeyBytes is the length of those keys, unless the function takes one
	// length only. Default 16, a common key. From 1 to 256.
	KeyBytes int
	// Keys is how many keys of each corpus are put into buckets. Default
	// 64 x Buckets. At least 8 x Buckets, or chi-squared is no approximation;
	// at most 2^24.
	Keys int
	// Buckets is the number of buckets, a power of two from 2 to 65536.
	// Default 1024. By modulo there is one fewer, an odd number, or it would
	// be the mask again.
	Buckets int
	// Alpha is the chance that a truly random function is called anything but
	// good. It is shared among all tests of a report. Default one in a million.
	Alpha float64
	// Seed makes the random keys. Equal seeds make equal reports.
	Seed uint64
	// Corpora are the kinds of keys that are put into buckets. Default
	// [Corpora] of Seed.
	Corpora []Corpus
}

func (o Options) withDefaults() Options {
	orElse := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	orElse(&o.Samples, 1024)
	orElse(&o.KeyBytes, 16)
	orElse(&o.Buckets, 1024)
	orElse(&o.Keys, 64*o.Buckets)
	if o.Alpha == 0 {
		o.Alpha = 1e-6
	}
	if o.Corpora == nil {
		o.Corpora = Corpora(o.Seed)
	}
	return o
}

// check validates options that have their defaults and a function together.
func (o Options) check(f Function) error {
	var errs []error
	refuse := func(bad bool, sentinel error, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("%w: "+format, append([]any{sentinel}, args...)...))
		}
	}
	refuse(o.Samples < 64 || o.Samples > 1<<20, ErrOptions, "Samples is %d, want 64 to %d", o.Samples, 1<<20)
	refuse(o.KeyBytes < 1 || o.KeyBytes > 256, ErrOptions, "KeyBytes is %d, want 1 to 256", o.KeyBytes)
	refuse(o.Buckets < 2 || o.Buckets > 1<<16 || o.Buckets&(o.Buckets-1) != 0, ErrOptions, "Buckets is %d, want a power of two from 2 to 65536", o.Buckets)
	refuse(o.Keys < 8*o.Buckets || o.Keys > 1<<24, ErrOptions, "Keys is %d, want 8 x Buckets to %d", o.Keys, 1<<24)
	refuse(!(o.Alpha > 0 && o.Alpha < 0.5), ErrOptions, "Alpha is %v, want above 0 and below 0.5", o.Alpha)
	for i, c := range o.Corpora {
		refuse(c.Append == nil, ErrOptions, "corpus %d (%q) has no Append", i, c.Name)
	}
	refuse(f.Sum == nil, ErrFunction, "%q has no Sum", f.Name)
	refuse(f.KeyBytes < 0 || f.KeyBytes > 256, ErrFunction, "%q has KeyBytes %d, want 0 (any) to 256", f.Name, f.KeyBytes)
	refuse(f.Bits < 0 || f.Bits > 64, ErrFunction, "%q has Bits %d, want 0 (64) to 64", f.Name, f.Bits)
	refuse(f.Bits > 0 && f.Bits < bits.Len(uint(o.Buckets-1)), ErrOptions, "Buckets is %d, but %q has %d bits only", o.Buckets, f.Name, f.Bits)
	return errors.Join(errs...)
}

// Verdict is a judgement on one test or on a function.
type Verdict uint8

// The verdicts, from best to worst.
const (
	// Good means that chance explains what was seen.
	Good Verdict = iota
	// Even means that enumerable keys fell more evenly than chance would have
	// it. That does no harm to those keys; it shows that the function keeps
	// some of their structure, and other keys may meet the other side of it.
	Even
	// Bad means that chance does not explain what was seen.
	Bad
)

// String returns the verdict as a word.
func (v Verdict) String() string {
	switch v {
	case Good:
		return "good"
	case Even:
		return "even"
	case Bad:
		return "bad"
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// MarshalText writes the word, so that reports read well as JSON.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

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
func Measure(f Function, o Options) (Report, error) {
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
func MeasureAll(o Options) ([]Report, error) {
	var all []Report
	for _, f := range Functions() {
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

// zLimit returns the z that a standard normal variable exceeds, on either
// side, with probability p.
func zLimit(p float64) float64 { return math.Sqrt2 * math.Erfcinv(p) }
