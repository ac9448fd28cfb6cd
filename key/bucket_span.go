package key

import "time"

// A Span is one piece of time: everything from Start up to, but not
// including, End. Spans of one bucket tile time without gap or overlap. They
// are comparable values and may be map keys.
//
// In a key, write either [Span.Index] as a tuple integer (short) or
// [Span.String] (readable); both sort as time does.
//
// The zero Span is empty. Get one from [Bucket.Of], [Bucket.At] or
// [Bucket.Parse].
type Span struct {
	bucket Bucket
	index  int64
}

// Bucket returns the bucket whose piece this is.
func (s Span) Bucket() Bucket { return s.bucket }

// Index returns the span's number: 0 holds the Unix epoch, later spans have
// larger numbers, and the next span's number is one more.
func (s Span) Index() int64 { return s.index }

// Start returns the first instant of the span, in UTC.
func (s Span) Start() time.Time { return s.bucket.start(s.index) }

// End returns the first instant after the span, which is the next one's Start.
func (s Span) End() time.Time { return s.bucket.start(s.index + 1) }

// Next returns the span that begins where this one ends.
func (s Span) Next() Span { return Span{s.bucket, s.index + 1} }

// Prev returns the span that ends where this one begins.
func (s Span) Prev() Span { return Span{s.bucket, s.index - 1} }

// Contains reports whether t is in [Start, End).
func (s Span) Contains(t time.Time) bool {
	return !t.Before(s.Start()) && t.Before(s.End())
}

// String returns the start in the shortest form that names it: 2026-03 for a
// month, 2026-03-01 for days, 2026-03-01T14 for hours, seconds otherwise. Up
// to the year 9999 the strings of one bucket sort as time does.
func (s Span) String() string {
	return s.Start().Format(s.bucket.timeFormat())
}

func (b Bucket) start(index int64) time.Time {
	if b == Month {
		// Date carries months beyond December, and before January, into years.
		return time.Date(1970, time.Month(index+1), 1, 0, 0, 0, 0, time.UTC)
	}
	return time.Unix(index*int64(b), 0).UTC()
}
