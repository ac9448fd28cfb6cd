package hash

import (
	"errors"
	"fmt"
	"math/bits"
)

// ErrOptions means a report was asked for with figures that it cannot use:
// the text says which, and what is allowed.
var ErrOptions = errors.New("hash: bad report options")

// ErrFunction means a [Function] does not describe a hash function: the text
// says what is missing or out of range.
var ErrFunction = errors.New("hash: bad function")

// MeasureOptions says how a function is measured. The zero value works. More
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

// check validates options that have their defaults and a function together.
func (o MeasureOptions) check(f Function) error {
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
