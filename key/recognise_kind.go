package key

import "fmt"

// IDKind is what a column's values turned out to be.
type IDKind uint8

const (
	// IDUnknown means that the sample is too small to say.
	IDUnknown IDKind = iota
	// IDMixed means that no kind covers nine tenths of the sample.
	IDMixed
	// IDSnowflake is a 64-bit integer with 41 bits of milliseconds above 10
	// bits of worker and 12 bits of sequence.
	IDSnowflake
	// IDULID is 48 bits of milliseconds and 80 random bits, as 26 characters
	// or 16 bytes.
	IDULID
	// IDUUIDv1 is a UUID with a clock, low bits first.
	IDUUIDv1
	// IDUUIDv4 is a random UUID.
	IDUUIDv4
	// IDUUIDv6 is a UUID with a clock, high bits first.
	IDUUIDv6
	// IDUUIDv7 is a UUID that starts with milliseconds.
	IDUUIDv7
	// IDUUIDOther is a UUID of another version, the nil UUID, or one whose
	// content contradicts its version.
	IDUUIDOther
	// IDUnixSeconds is a count of seconds since 1970.
	IDUnixSeconds
	// IDUnixMillis is a count of milliseconds since 1970.
	IDUnixMillis
	// IDUnixMicros is a count of microseconds since 1970.
	IDUnixMicros
	// IDUnixNanos is a count of nanoseconds since 1970.
	IDUnixNanos
	// IDTimeText is a time such as 2026-03-01T12:00:00Z.
	IDTimeText
	// IDDate is a day such as 2026-03-01 or 20260301.
	IDDate
	// IDAutoIncrement is a counter.
	IDAutoIncrement
	// IDOrderedInt is an integer that follows arrival in large steps: a
	// time-ordered identifier of a format or epoch that is not known here.
	IDOrderedInt
	// IDRandomInt is an integer without a pattern.
	IDRandomInt
	// IDLowCardinality is a column with few distinct values.
	IDLowCardinality
	// IDOpaque is text or bytes without a pattern.
	IDOpaque
)

// idKinds holds what is the same for every column of a kind.
var idKinds = [...]struct {
	name string
	// ordered kinds follow the clock or a counter by construction.
	ordered bool
	// clock kinds are times; they follow arrival only if they are times of
	// arrival.
	clock  bool
	advice string
}{
	IDUnknown:        {name: "unknown", advice: "Take a larger sample, in arrival order."},
	IDMixed:          {name: "mixed", advice: "Look at the shares: several kinds of key live in one column."},
	IDSnowflake:      {name: "Snowflake", ordered: true, advice: timeAdvice},
	IDULID:           {name: "ULID", ordered: true, advice: timeAdvice},
	IDUUIDv1:         {name: "UUIDv1", ordered: true, advice: "Every new key lies beside the last one, in a place that sweeps the keyspace every 7 minutes: use a hash keyspace, or UUIDv4."},
	IDUUIDv4:         {name: "UUIDv4", advice: "Spreads writes over a range-partitioned keyspace; scans by time need another index."},
	IDUUIDv6:         {name: "UUIDv6", ordered: true, advice: timeAdvice},
	IDUUIDv7:         {name: "UUIDv7", ordered: true, advice: timeAdvice},
	IDUUIDOther:      {name: "UUID of another kind", advice: "Check how these are made: spread depends on their leading bytes."},
	IDUnixSeconds:    {name: "Unix seconds", clock: true, advice: timeAdvice},
	IDUnixMillis:     {name: "Unix milliseconds", clock: true, advice: timeAdvice},
	IDUnixMicros:     {name: "Unix microseconds", clock: true, advice: timeAdvice},
	IDUnixNanos:      {name: "Unix nanoseconds", clock: true, advice: timeAdvice},
	IDTimeText:       {name: "time text", clock: true, advice: timeAdvice},
	IDDate:           {name: "date", clock: true, advice: timeAdvice},
	IDAutoIncrement:  {name: "auto-increment", ordered: true, advice: "Every new key lies at the end: put a salt or a high-cardinality column in front, or use a hash keyspace."},
	IDOrderedInt:     {name: "ordered integer", ordered: true, advice: timeAdvice},
	IDRandomInt:      {name: "random integer", advice: "Spreads writes over a range-partitioned keyspace."},
	IDLowCardinality: {name: "low cardinality", advice: "Cannot spread over more shards than it has values: put a high-cardinality column beside it."},
	IDOpaque:         {name: "opaque", advice: "Spread depends on the leading bytes; measure it."},
}

const (
	timeAdvice = "Every new key lies at the end: pair a high-cardinality column with a time bucket, or put a salt in front, or use a hash keyspace."
	calmAdvice = "The values are times, but not times of arrival: as a key they cluster wherever records share a time."
	risesWords = "The sample follows arrival, so new keys lie at one end: put a salt or a high-cardinality column in front, or use a hash keyspace."
)

// String returns the kind's name.
func (k IDKind) String() string {
	if int(k) < len(idKinds) {
		return idKinds[k].name
	}
	return fmt.Sprintf("IDKind(%d)", uint8(k))
}
