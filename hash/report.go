package hash

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
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
	if err := o.checkFor(f); err != nil {
		return Report{}, err
	}
	corpora := o.corporaFor(f)
	// Three tests are made on the avalanche matrix and one on each spread.
	tests := avalancheTests + len(corpora)*len(bucketings)
	limit := zLimit(o.Alpha / float64(tests))
	r := Report{Name: f.Name, Kind: f.Kind, LimitZ: limit}
	r.Avalanche = newFlipMatrix(f, o).toAvalanche(o.Alpha / float64(tests))
	r.Verdict = r.Avalanche.Verdict
	for _, c := range corpora {
		for _, s := range measureSpreads(f, c, o) {
			s.setVerdict(limit, c.Enumerable)
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
		if err := o.withDefaults().checkFor(f); err != nil {
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
		if s.Corpus == corpus && (!found || s.isWorseThan(worst)) {
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

// ErrOptions means a report was asked for with figures that it cannot use:
// the text says which, and what is allowed.
var ErrOptions = errors.New("hash: bad report options")

// ErrFunction means a [Function] does not describe a hash function: the text
// says what is missing or out of range.
var ErrFunction = errors.New("hash: bad function")

// MeasureOptions specifies how a function is measured. The zero value works. More
// samples and keys show smaller faults, in proportion to their square root.
type MeasureOptions struct {
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
	// good. It is shared among all tests of a report. Default one in a
	// million. Above 0 and below 0.5.
	Alpha float64
	// Seed makes the random keys. Equal seeds make equal reports.
	Seed uint64
	// Corpora are the kinds of keys that are put into buckets. Default
	// [Corpora] of Seed.
	Corpora []Corpus
}

func (o MeasureOptions) withDefaults() MeasureOptions {
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

// checkFor validates options that have their defaults and a function together.
func (o MeasureOptions) checkFor(f Function) error {
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

// Kind is what a function's values may be used for.
type Kind uint8

// The kinds of function, one for each value type.
const (
	KindStable Kind = iota // returns Stable: may be persisted
	KindSeeded             // returns Local: resists flooding, valid in one process
	KindWeak               // returns Weak: kept to be shown bad
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case KindStable:
		return "stable"
	case KindSeeded:
		return "seeded"
	case KindWeak:
		return "weak"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// MarshalText writes the kind's name, so that reports read well as JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Function describes a hash function to [Measure]: one of [Functions] or
// the caller's own.
type Function struct {
	Name string
	Kind Kind
	// Bits is how many low bits of Sum's result are the hash. 0 means 64.
	Bits int
	// KeyBytes is the only key length that Sum takes. 0 means any.
	KeyBytes int
	// Sum hashes a key. It must not keep the slice.
	Sum func(key []byte) uint64
}

// hashBits returns Bits with the default filled in.
func (f Function) hashBits() int {
	if f.Bits == 0 {
		return 64
	}
	return f.Bits
}

// referenceKey is the key of SipHash's published vectors. The table of
// functions uses it so that a report is the same in every process.
var referenceKey = [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// Functions lists every function of this package. SipHash comes with a fixed,
// public key; Maphash with this process's secret seed, so its figures differ
// a little from run to run.
func Functions() []Function {
	var m Maphash
	sip := NewSipHash(referenceKey)
	return []Function{
		{Name: "xxh3", Kind: KindStable, Sum: func(b []byte) uint64 { return XXH3(b).Uint64() }},
		{Name: "xxhash64", Kind: KindStable, Sum: func(b []byte) uint64 { return XXHash64(b).Uint64() }},
		{Name: "murmur3", Kind: KindStable, Sum: func(b []byte) uint64 { return Murmur3(b).Uint64() }},
		{Name: "uint64", Kind: KindStable, KeyBytes: 8, Sum: func(b []byte) uint64 { return Uint64(binary.BigEndian.Uint64(b)).Uint64() }},
		{Name: "crc16-slot", Kind: KindStable, Bits: 14, Sum: func(b []byte) uint64 { return uint64(SlotOf(b)) }},
		{Name: "maphash", Kind: KindSeeded, Sum: func(b []byte) uint64 { return m.Sum(b).Uint64() }},
		{Name: "siphash", Kind: KindSeeded, Sum: func(b []byte) uint64 { return sip.Sum(b).Uint64() }},
		{Name: "fnv1a", Kind: KindWeak, Sum: func(b []byte) uint64 { return FNV1a(b).Uint64() }},
		{Name: "fx", Kind: KindWeak, Sum: func(b []byte) uint64 { return Fx(b).Uint64() }},
	}
}

// Corpus is a kind of keys.
type Corpus struct {
	Name string
	// KeyBytes is the length of every key. 0 means that lengths vary.
	KeyBytes int
	// Enumerable keys follow from their number. A function may then spread
	// them more evenly than chance, which is noted and no fault. With keys
	// that are random themselves it is a fault.
	Enumerable bool
	// Append appends the i-th key to dst. Keys must be distinct.
	Append func(dst []byte, i uint64) []byte
}

// Corpora returns the kinds of keys that real tables have: sequential
// integers, strings with a common prefix, random UUIDs (from seed), and
// timestamps a millisecond apart. Integers are 8 bytes, big-endian, as in
// ordered keys.
func Corpora(seed uint64) []Corpus {
	random := Uint64(seed)
	return []Corpus{
		{Name: "sequential", KeyBytes: 8, Enumerable: true, Append: binary.BigEndian.AppendUint64},
		{Name: "prefix", Enumerable: true, Append: func(dst []byte, i uint64) []byte {
			return strconv.AppendUint(append(dst, "tenant:eu-west:user:"...), i, 10)
		}},
		{Name: "uuid", KeyBytes: 36, Append: func(dst []byte, i uint64) []byte {
			return appendUUID(dst, random.Derive(2*i).bits, random.Derive(2*i+1).bits)
		}},
		{Name: "timestamp", KeyBytes: 8, Enumerable: true, Append: func(dst []byte, i uint64) []byte {
			const start, step = 1_700_000_000_000_000_000, 1_000_000 // nanoseconds
			return binary.BigEndian.AppendUint64(dst, start+i*step)
		}},
	}
}

// corporaFor leaves out the corpora whose keys f does not take.
func (o MeasureOptions) corporaFor(f Function) []Corpus {
	var fit []Corpus
	for _, c := range o.Corpora {
		if f.KeyBytes == 0 || f.KeyBytes == c.KeyBytes {
			fit = append(fit, c)
		}
	}
	return fit
}

// appendUUID appends the text form of a version 4 UUID with those random bits.
func appendUUID(dst []byte, hi, lo uint64) []byte {
	var u [16]byte
	binary.BigEndian.PutUint64(u[:8], hi)
	binary.BigEndian.PutUint64(u[8:], lo)
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	for i, group := range [][]byte{u[:4], u[4:6], u[6:8], u[8:10], u[10:]} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, group)
	}
	return dst
}
