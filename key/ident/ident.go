// Package ident answers one question: what kind of identifier does this column
// hold, and would keys that begin with it all be written in one place?
//
// [Recognise] reads a sample in order of arrival and tells Snowflakes, ULIDs,
// UUIDs by version, times and counters from values without a pattern. It names
// a kind only if luck is no explanation, says what its verdict rests on, and
// what to do about it.
//
// It judges values, not names of columns, and it cannot know what a format
// that it has never seen means: such a column is called ordered, random or
// opaque.
package ident

import (
	"errors"
	"fmt"
	"time"
)

// ErrOptions means that a sample cannot be judged with the options given; the
// message says which of them is wrong, and what is allowed.
var ErrOptions = errors.New("ident: cannot recognise")

// Sampled are the types of values that [Recognise] reads. Strings of digits
// are integers; bytes are text if printable, 8 others a big-endian integer
// and 16 others a UUID or ULID.
type Sampled interface {
	string | []byte | int | int64 | uint64
}

// Epoch is the instant that a Snowflake generator counts from.
type Epoch struct {
	Name  string
	Start time.Time
}

// KnownEpochs returns the epochs of Twitter and Discord.
func KnownEpochs() []Epoch {
	return []Epoch{
		{"Twitter", time.UnixMilli(1288834974657).UTC()},
		{"Discord", time.UnixMilli(1420070400000).UTC()},
	}
}

// Options say which times are plausible. The zero value works.
type Options struct {
	// Back is how old a record may be. Default 10 years. The shorter it is,
	// the smaller the sample that suffices.
	Back time.Duration
	// Ahead is how far clocks may run ahead. Default 24 hours.
	Ahead time.Duration
	// MinSample is how many distinct values are needed for a verdict. Default
	// and least 12: a rising run of fewer is not rare enough to be no luck.
	MinSample int
	// Epochs are the Snowflake epochs tried. Default KnownEpochs.
	Epochs []Epoch
}

// Recognition is what [Recognise] found.
type Recognition struct {
	Kind Kind
	// Epoch names the epoch of a Snowflake.
	Epoch string
	// Values and Distinct count the sample.
	Values, Distinct int
	// Share is the part of the values that fit Kind.
	Share float64
	// Confidence is the share that, with 97.5 % confidence, the whole column
	// exceeds; it is 0 for Unknown.
	Confidence float64
	// Rising is the share of steps from one distinct value to the next, in
	// order of first arrival, that go up: 1 for a counter, about 0.5 for
	// random values.
	Rising float64
	// Oldest and Newest bound the times that the values carry; zero if none.
	Oldest, Newest time.Time
	// AppendUnsafe means that on a range-partitioned keyspace new keys would
	// all go to one place.
	AppendUnsafe bool
	// Evidence says in words what the verdict rests on, and what speaks
	// against it.
	Evidence []string
	// Advice says what to do about it.
	Advice string
	// Alternatives are other kinds that the same values fit.
	Alternatives []Kind
	// Parts are the kinds found, largest first; more than one if mixed.
	Parts []Part
}

// Part is one kind within a sample.
type Part struct {
	Kind  Kind
	Count int
	Share float64
}

// Recognise says what kind of identifier a column holds, from a sample in
// order of arrival. A pattern counts only if meaningless values would show it
// less than once in a million samples; what does not reach that is called
// random, opaque or unknown.
//
// Now is the present, which plausible times lie around.
//
// It judges what it is given: of a sample sorted by key it cannot tell
// whether keys rise, and says so where it can.
func Recognise[V Sampled](values []V, now time.Time, opts Options) (Recognition, error) {
	o := opts.withDefaults()
	if err := o.check(now); err != nil {
		return Recognition{}, err
	}
	// The shape is part of the identity: 8 bytes may spell another value's text.
	type identity struct {
		shape shape
		text  string
	}
	index := make(map[identity]*specimen, len(values))
	var distinct []*specimen
	for _, v := range values {
		s := specimenOf(v)
		id := identity{s.shape, s.text}
		if seen, ok := index[id]; ok {
			seen.count++
			continue
		}
		s.first, s.count = len(distinct), 1
		index[id] = s
		distinct = append(distinct, s)
	}
	j := judge{opts: o, now: now, window: window{now.Add(-o.Back), now.Add(o.Ahead)}, values: len(values)}
	return j.verdict(distinct), nil
}

// minSample is the default of MinSample and the least it may be.
const minSample = 12

func (o Options) withDefaults() Options {
	if o.Back == 0 {
		o.Back = 10 * 365 * 24 * time.Hour
	}
	if o.Ahead == 0 {
		o.Ahead = 24 * time.Hour
	}
	if o.MinSample == 0 {
		o.MinSample = minSample
	}
	if o.Epochs == nil {
		o.Epochs = KnownEpochs()
	}
	return o
}

// check validates options that have their defaults, and the present.
func (o Options) check(now time.Time) error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrOptions}, args...)...))
	}
	// Past 2200 the nanoseconds between two times would overflow.
	const year2200 = 7258118400
	if now.Unix() < 0 || now.Unix() > year2200 {
		bad("now is %v; pass the present time", now)
	}
	const century = 100 * 365 * 24 * time.Hour
	if o.Back < 0 || o.Back > century || o.Ahead < 0 || o.Ahead > century {
		bad("Back is %v and Ahead %v; want 0 to 100 years", o.Back, o.Ahead)
	}
	if o.MinSample < minSample {
		bad("MinSample is %d; want at least %d", o.MinSample, minSample)
	}
	for _, e := range o.Epochs {
		if e.Start.Unix() < 0 || e.Start.Unix() > year2200 {
			bad("epoch %q starts at %v; want 1970 to 2200", e.Name, e.Start)
		}
	}
	return errors.Join(errs...)
}
