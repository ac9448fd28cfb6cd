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

// Options specify which times are plausible. The zero value works.
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
	// Advice is what to do about it.
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

// Recognise determines what kind of identifier a column holds, from a sample in
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
	if err := o.checkRanges(now); err != nil {
		return Recognition{}, err
	}
	// The shape is part of the identity: 8 bytes may spell another value's text.
	type identity struct {
		shape shape
		text  string
	}
	index := make(map[identity]*sampleValue, len(values))
	var distinct []*sampleValue
	for _, v := range values {
		s := newSampleValue(v)
		id := identity{s.shape, s.text}
		if seen, ok := index[id]; ok {
			seen.count++
			continue
		}
		s.first, s.count = len(distinct), 1
		index[id] = s
		distinct = append(distinct, s)
	}
	j := classifier{opts: o, now: now, window: timeWindow{now.Add(-o.Back), now.Add(o.Ahead)}, values: len(values)}
	return j.buildRecognition(distinct), nil
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

// checkRanges validates options that have their defaults, and the present.
func (o Options) checkRanges(now time.Time) error {
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

// Kind is what a column's values turned out to be.
type Kind uint8

const (
	// Unknown means that the sample is too small to say.
	Unknown Kind = iota
	// Mixed means that no kind covers nine tenths of the sample.
	Mixed
	// Snowflake is a 64-bit integer with 41 bits of milliseconds above 10
	// bits of worker and 12 bits of sequence.
	Snowflake
	// ULID is 48 bits of milliseconds and 80 random bits, as 26 characters
	// or 16 bytes.
	ULID
	// UUIDv1 is a UUID with a clock, low bits first.
	UUIDv1
	// UUIDv4 is a random UUID.
	UUIDv4
	// UUIDv6 is a UUID with a clock, high bits first.
	UUIDv6
	// UUIDv7 is a UUID that starts with milliseconds.
	UUIDv7
	// UUIDOther is a UUID of another version, the nil UUID, or one whose
	// content contradicts its version.
	UUIDOther
	// UnixSeconds is a count of seconds since 1970.
	UnixSeconds
	// UnixMillis is a count of milliseconds since 1970.
	UnixMillis
	// UnixMicros is a count of microseconds since 1970.
	UnixMicros
	// UnixNanos is a count of nanoseconds since 1970.
	UnixNanos
	// TimeText is a time such as 2026-03-01T12:00:00Z.
	TimeText
	// Date is a day such as 2026-03-01 or 20260301.
	Date
	// AutoIncrement is a counter.
	AutoIncrement
	// OrderedInt is an integer that follows arrival in large steps: a
	// time-ordered identifier of a format or epoch that is not known here.
	OrderedInt
	// RandomInt is an integer without a pattern.
	RandomInt
	// LowCardinality is a column with few distinct values.
	LowCardinality
	// Opaque is text or bytes without a pattern.
	Opaque
)

// kindInfo holds what is the same for every column of a kind.
var kindInfo = [...]struct {
	name string
	// ordered kinds follow the clock or a counter by construction.
	ordered bool
	// clock kinds are times; they follow arrival only if they are times of
	// arrival.
	clock  bool
	advice string
}{
	Unknown:        {name: "unknown", advice: "Take a larger sample, in arrival order."},
	Mixed:          {name: "mixed", advice: "Look at the shares: several kinds of key live in one column."},
	Snowflake:      {name: "Snowflake", ordered: true, advice: timeAdvice},
	ULID:           {name: "ULID", ordered: true, advice: timeAdvice},
	UUIDv1:         {name: "UUIDv1", ordered: true, advice: "Every new key lies beside the last one, in a place that sweeps the keyspace every 7 minutes: use a hash keyspace, or UUIDv4."},
	UUIDv4:         {name: "UUIDv4", advice: "Spreads writes over a range-partitioned keyspace; scans by time need another index."},
	UUIDv6:         {name: "UUIDv6", ordered: true, advice: timeAdvice},
	UUIDv7:         {name: "UUIDv7", ordered: true, advice: timeAdvice},
	UUIDOther:      {name: "UUID of another kind", advice: "Check how these are made: spread depends on their leading bytes."},
	UnixSeconds:    {name: "Unix seconds", clock: true, advice: timeAdvice},
	UnixMillis:     {name: "Unix milliseconds", clock: true, advice: timeAdvice},
	UnixMicros:     {name: "Unix microseconds", clock: true, advice: timeAdvice},
	UnixNanos:      {name: "Unix nanoseconds", clock: true, advice: timeAdvice},
	TimeText:       {name: "time text", clock: true, advice: timeAdvice},
	Date:           {name: "date", clock: true, advice: timeAdvice},
	AutoIncrement:  {name: "auto-increment", ordered: true, advice: "Every new key lies at the end: put a salt or a high-cardinality column in front, or use a hash keyspace."},
	OrderedInt:     {name: "ordered integer", ordered: true, advice: timeAdvice},
	RandomInt:      {name: "random integer", advice: "Spreads writes over a range-partitioned keyspace."},
	LowCardinality: {name: "low cardinality", advice: "Cannot spread over more shards than it has values: put a high-cardinality column beside it."},
	Opaque:         {name: "opaque", advice: "Spread depends on the leading bytes; measure it."},
}

const (
	timeAdvice       = "Every new key lies at the end: pair a high-cardinality column with a time bucket, or put a salt in front, or use a hash keyspace."
	notArrivalAdvice = "The values are times, but not times of arrival: as a key they cluster wherever records share a time."
	risingAdvice     = "The sample follows arrival, so new keys lie at one end: put a salt or a high-cardinality column in front, or use a hash keyspace."
)

// String returns the kind's name.
func (k Kind) String() string {
	if int(k) < len(kindInfo) {
		return kindInfo[k].name
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}
