package ident

import "fmt"

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

// kinds holds what is the same for every column of a kind.
var kinds = [...]struct {
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
	timeAdvice = "Every new key lies at the end: pair a high-cardinality column with a time bucket, or put a salt in front, or use a hash keyspace."
	calmAdvice = "The values are times, but not times of arrival: as a key they cluster wherever records share a time."
	risesWords = "The sample follows arrival, so new keys lie at one end: put a salt or a high-cardinality column in front, or use a hash keyspace."
)

// String returns the kind's name.
func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k].name
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}
