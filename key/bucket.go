package key

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrBucket means that a bucket, or a time given to one, cannot be used; the
// message says what to write instead.
var ErrBucket = errors.New("key: bad time bucket")

// A Bucket says how time is cut into consecutive pieces, so that one entity's
// records are spread over partitions that stop growing: (device, day) and not
// device alone. [Minute], [Hour], [Day] and [Month] are the usual ones, [Every]
// makes others. All cuts are in UTC: a local day is 23 or 25 hours long twice a
// year, and two processes with different zones would disagree about a key.
//
// The zero Bucket is not valid; using it is an error.
type Bucket int64 // width in seconds, or the calendar marker Month

const (
	// Minute cuts at every full minute.
	Minute Bucket = 60
	// Hour cuts at every full hour.
	Hour Bucket = 60 * Minute
	// Day cuts at midnight UTC.
	Day Bucket = 24 * Hour
	// Month cuts at midnight UTC on the first of each month; it is the one
	// bucket whose pieces differ in length (28 to 31 days).
	Month Bucket = -1
)

const (
	// Times are limited to what RFC 3339 can write, so that the text form of a
	// span always has the same length and therefore sorts.
	minUnix = -62135596800 // 0001-01-01T00:00:00Z, the zero time.Time
	maxUnix = 253402300799 // 9999-12-31T23:59:59Z

	// A wider bucket bounds nothing worth bounding; it also keeps every span
	// within the years 0 to 9999.
	maxWidth = 366 * Day
)

// Every returns the bucket that cuts time every d, counted from the Unix
// epoch: widths that divide a day start at midnight, seven days start on a
// Thursday. d is a whole number of seconds, at most 366 days.
func Every(d time.Duration) (Bucket, error) {
	switch {
	case d <= 0:
		return 0, fmt.Errorf("%w: width %v; it must be positive, for instance 15m", ErrBucket, d)
	case d%time.Second != 0:
		return 0, fmt.Errorf("%w: width %v is not a whole number of seconds", ErrBucket, d)
	case Bucket(d/time.Second) > maxWidth:
		return 0, fmt.Errorf("%w: width %v is over %d days", ErrBucket, d, maxWidth/Day)
	}
	return Bucket(d / time.Second), nil
}

// namedBuckets are those that layouts call by a name of their own.
var namedBuckets = [...]Bucket{Minute, Hour, Day, Month}

// ParseBucket reads what [Bucket.String] prints: minute, hour, day, month, or a
// width such as 15m or 1h30m.
func ParseBucket(s string) (Bucket, error) {
	for _, b := range namedBuckets {
		if s == b.String() {
			return b, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%w: %q; want minute, hour, day, month or a width such as 15m", ErrBucket, s)
	}
	return Every(d)
}

// String returns the bucket's name; [ParseBucket] reads it back.
func (b Bucket) String() string {
	switch {
	case b == Minute:
		return "minute"
	case b == Hour:
		return "hour"
	case b == Day:
		return "day"
	case b == Month:
		return "month"
	case b.Validate() != nil:
		return fmt.Sprintf("Bucket(%d)", int64(b))
	}
	s := (time.Duration(b) * time.Second).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Validate reports whether the bucket cuts time at all.
func (b Bucket) Validate() error {
	if b == Month || b > 0 && b <= maxWidth {
		return nil
	}
	return fmt.Errorf("%w: width %d s; use Minute, Hour, Day, Month or Every", ErrBucket, int64(b))
}

// Of returns the span that t falls into. Times from year 1 to year 9999 have
// one.
func (b Bucket) Of(t time.Time) (Span, error) {
	if err := b.Validate(); err != nil {
		return Span{}, err
	}
	if sec := t.Unix(); sec < minUnix || sec > maxUnix {
		return Span{}, fmt.Errorf("%w: time %v is outside the years 1 to 9999", ErrBucket, t)
	}
	return Span{b, b.indexOf(t)}, nil
}

// At returns the span with the given index, the inverse of [Span.Index].
func (b Bucket) At(index int64) (Span, error) {
	if err := b.Validate(); err != nil {
		return Span{}, err
	}
	lo, hi := b.indexOf(time.Unix(minUnix, 0)), b.indexOf(time.Unix(maxUnix, 0))
	if index < lo || index > hi {
		return Span{}, fmt.Errorf("%w: %v number %d is outside %d to %d", ErrBucket, b, index, lo, hi)
	}
	return Span{b, index}, nil
}

// Parse reads what [Span.String] prints for a span of this bucket.
func (b Bucket) Parse(s string) (Span, error) {
	if err := b.Validate(); err != nil {
		return Span{}, err
	}
	t, err := time.Parse(b.timeFormat(), s)
	if err != nil {
		return Span{}, fmt.Errorf("%w: %v %q is not of the form %s", ErrBucket, b, s, b.timeFormat())
	}
	// A wide bucket may begin shortly before year 1, where Of would refuse.
	span := Span{b, b.indexOf(t)}
	if span.String() != s {
		return Span{}, fmt.Errorf("%w: %q is inside a %v, not its start %v", ErrBucket, s, b, span)
	}
	return b.At(span.index)
}

// indexOf counts buckets from the one that holds the Unix epoch, rounding down
// so that times before the epoch tile like the ones after it.
func (b Bucket) indexOf(t time.Time) int64 {
	if b == Month {
		year, month, _ := t.UTC().Date()
		return int64(year-1970)*12 + int64(month-1)
	}
	return floorDiv(t.Unix(), int64(b))
}

// timeFormat is the shortest text form, in package time's notation, that names
// the start of any of the bucket's spans.
func (b Bucket) timeFormat() string {
	switch {
	case b == Month:
		return "2006-01"
	case b%Day == 0:
		return time.DateOnly
	case b%Hour == 0:
		return "2006-01-02T15"
	}
	return "2006-01-02T15:04:05"
}

// floorDiv divides by a positive n and rounds toward minus infinity.
func floorDiv(a, n int64) int64 {
	q := a / n
	if a%n < 0 {
		q--
	}
	return q
}

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
func (s Span) Start() time.Time { return s.bucket.startOf(s.index) }

// End returns the first instant after the span, which is the next one's Start.
func (s Span) End() time.Time { return s.bucket.startOf(s.index + 1) }

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

func (b Bucket) startOf(index int64) time.Time {
	if b == Month {
		// Date carries months beyond December, and before January, into years.
		return time.Date(1970, time.Month(index+1), 1, 0, 0, 0, 0, time.UTC)
	}
	return time.Unix(index*int64(b), 0).UTC()
}
