package ident

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/cleavekv/cleave/key"
)

// A hypothesis is one reading of values of one shape.
type hypothesis struct {
	kind  Kind
	epoch string // of a Snowflake
	// read returns the time that the value carries, and whether the value fits
	// the reading at all. Kinds without a clock return the zero time.
	read func(s *specimen) (time.Time, bool)
	// luck is the probability that a value without meaning fits, given the
	// largest that did.
	luck func(largest uint64) float64
	// filled is luck in the range that the largest of all values just fills.
	// It is nil for readings that look at a few bits only.
	filled func(largest uint64) float64
	// structure looks for traces in the fitting values that other readings
	// would not leave, and returns them in words with the chance that luck left
	// them: "" and 1 if there are none. It may be nil.
	structure func(fits []*specimen) (string, float64)
}

// maxUnix is the last second of the year 9999, where times in text end too.
const maxUnix = 253402300799

const secondsPerDay = 24 * 60 * 60

// window is the span of plausible times.
type window struct{ from, to time.Time }

func (w window) has(t time.Time) bool { return !t.Before(w.from) && !t.After(w.to) }

func (w window) seconds() float64 { return w.to.Sub(w.from).Seconds() }

// intReading is a reading of integers as count units since an epoch, with
// shift low bits that are not time.
func intReading(kind Kind, epoch time.Time, unit time.Duration, shift uint, w window) hypothesis {
	perSecond := uint64(time.Second / unit)
	read := func(s *specimen) (time.Time, bool) {
		n := s.num >> shift
		seconds := n / perSecond
		if s.negative || seconds > maxUnix {
			return time.Time{}, false
		}
		// Added as seconds: a Duration would overflow after 292 years.
		t := time.Unix(epoch.Unix()+int64(seconds), int64(epoch.Nanosecond())+int64(n%perSecond)*int64(unit))
		return t.UTC(), w.has(t)
	}
	// The fitting integers are one interval, so luck is the part of it that lies
	// in the range drawn from, over that range. Which range is not known: whole
	// words, bits and digits are tried, and what favours luck most is taken.
	place := func(t time.Time) float64 {
		return max(0, t.Sub(epoch).Seconds()) * float64(perSecond) * math.Exp2(float64(shift))
	}
	from, to := place(w.from), place(w.to)
	part := func(size float64) float64 { return max(0, (min(to, size)-from)/size) }
	return hypothesis{
		kind: kind, read: read,
		luck: func(largest uint64) float64 {
			return max(part(math.Exp2(63)), part(ceilPower2(largest)), part(ceilPower10(largest)))
		},
		filled: func(largest uint64) float64 { return part(float64(largest) + 1) },
	}
}

func intHypotheses(w window, epochs []Epoch) []hypothesis {
	unix := time.Unix(0, 0)
	nanos := intReading(UnixNanos, unix, 1, 0, w)
	nanos.structure = func(fits []*specimen) (string, float64) {
		return rare(fits, 1e-3, "values are whole microseconds", func(s *specimen) bool { return s.num%1000 == 0 })
	}
	hs := []hypothesis{
		intReading(UnixSeconds, unix, time.Second, 0, w),
		intReading(UnixMillis, unix, time.Millisecond, 0, w),
		intReading(UnixMicros, unix, time.Microsecond, 0, w),
		nanos,
		compactDates(w),
	}
	for _, e := range epochs {
		h := intReading(Snowflake, e.Start, time.Millisecond, 22, w)
		h.epoch = e.Name
		h.structure = func(fits []*specimen) (string, float64) {
			return rare(fits, 16./4096, "values have a sequence below 16 in the low 12 bits",
				func(s *specimen) bool { return s.num&0xfff < 16 })
		}
		hs = append(hs, h)
	}
	return hs
}

// rare words the finding that far more values have a property than its
// probability p explains.
func rare(fits []*specimen, p float64, words string, has func(*specimen) bool) (string, float64) {
	n := 0
	for _, s := range fits {
		if has(s) {
			n++
		}
	}
	chance := binomialTail(len(fits), n, p)
	if chance > 1e-3 {
		return "", 1
	}
	return fmt.Sprintf("%d of %d %s", n, len(fits), words), chance
}

// compactDates reads integers such as 20260301.
func compactDates(w window) hypothesis {
	return hypothesis{
		kind: Date,
		read: func(s *specimen) (time.Time, bool) {
			if s.negative || s.num < 1_00_00 || s.num > 9999_12_31 {
				return time.Time{}, false
			}
			month := time.Month(s.num / 100 % 100)
			t := time.Date(int(s.num/1_00_00), month, int(s.num%100), 0, 0, 0, 0, time.UTC)
			// Date carries a 31 April over into May: refuse what it carried.
			return t, t.Month() == month && w.has(t)
		},
		luck: func(largest uint64) float64 {
			days := w.seconds()/secondsPerDay + 1
			return min(1, days/min(ceilPower2(largest), ceilPower10(largest)))
		},
	}
}

// uuidHypotheses read 128-bit values by their version and variant bits, six
// bits that 1 in 64 values has by luck.
func uuidHypotheses(w window) []hypothesis {
	const bits = 1. / 64
	fixed := func(p float64) func(uint64) float64 { return func(uint64) float64 { return p } }
	version := func(kind Kind, v byte, p float64, clock func(u key.UUID) time.Time) hypothesis {
		return hypothesis{kind: kind, luck: fixed(p), read: func(s *specimen) (time.Time, bool) {
			if s.raw[6]>>4 != v || s.raw[8]>>6 != 2 {
				return time.Time{}, false
			}
			t := clock(s.raw)
			return t, t.IsZero() || w.has(t)
		}}
	}
	gregorian := w.seconds() / (math.Exp2(60) / 1e7) // 60 bits of 100 ns
	return []hypothesis{
		version(UUIDv1, 1, bits*gregorian, uuidTimeV1),
		version(UUIDv4, 4, bits, func(key.UUID) time.Time { return time.Time{} }),
		version(UUIDv6, 6, bits*gregorian, uuidTimeV6),
		version(UUIDv7, 7, bits*millisLuck(w), uuidTimeV7),
	}
}

// millisLuck is the share of 48-bit millisecond counts that are plausible.
func millisLuck(w window) float64 {
	return w.seconds() * 1000 / (1 << 48)
}

func ulidHypothesis(w window) hypothesis {
	return hypothesis{
		kind: ULID,
		luck: func(uint64) float64 { return millisLuck(w) },
		read: func(s *specimen) (time.Time, bool) {
			t := uuidTimeV7(s.raw) // the same 48 bits
			return t, w.has(t)
		},
	}
}

// uuidTimeV7 reads the 48 bits of milliseconds at the front.
func uuidTimeV7(u key.UUID) time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(u[:8]) >> 16)).UTC()
}

func uuidTimeV1(u key.UUID) time.Time {
	low := uint64(binary.BigEndian.Uint32(u[0:]))
	mid := uint64(binary.BigEndian.Uint16(u[4:]))
	high := uint64(binary.BigEndian.Uint16(u[6:]) & 0xfff)
	return gregorianTime(high<<48 | mid<<32 | low)
}

func uuidTimeV6(u key.UUID) time.Time {
	high := binary.BigEndian.Uint64(u[:8]) >> 16 // 48 bits
	low := uint64(binary.BigEndian.Uint16(u[6:]) & 0xfff)
	return gregorianTime(high<<12 | low)
}

// gregorianTime converts a count of 100 ns since 15 October 1582.
func gregorianTime(ticks uint64) time.Time {
	const perSecond, before1970 = 10_000_000, 12_219_292_800
	return time.Unix(int64(ticks/perSecond)-before1970, int64(ticks%perSecond)*100).UTC()
}
