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
	read func(s *sampleValue) (time.Time, bool)
	// fitChance is the probability that a value without meaning fits, given the
	// largest that did.
	fitChance func(largest uint64) float64
	// filledChance is luck in the range that the largest of all values just fills.
	// It is nil for readings that look at a few bits only.
	filledChance func(largest uint64) float64
	// structure looks for traces in the fitting values that other readings
	// would not leave, and returns them in words with the chance that luck left
	// them: "" and 1 if there are none. It may be nil.
	structure func(fits []*sampleValue) (string, float64)
}

// maxUnix is the last second of the year 9999, where times in text end too.
const maxUnix = 253402300799

const secondsPerDay = 24 * 60 * 60

// timeWindow is the span of plausible times.
type timeWindow struct{ from, to time.Time }

func (w timeWindow) contains(t time.Time) bool { return !t.Before(w.from) && !t.After(w.to) }

func (w timeWindow) lengthSeconds() float64 { return w.to.Sub(w.from).Seconds() }

// intReading is a reading of integers as count units since an epoch, with
// shift low bits that are not time.
func intReading(kind Kind, epoch time.Time, unit time.Duration, shift uint, w timeWindow) hypothesis {
	perSecond := uint64(time.Second / unit)
	read := func(s *sampleValue) (time.Time, bool) {
		n := s.num >> shift
		seconds := n / perSecond
		if s.negative || seconds > maxUnix {
			return time.Time{}, false
		}
		// Added as seconds: a Duration would overflow after 292 years.
		t := time.Unix(epoch.Unix()+int64(seconds), int64(epoch.Nanosecond())+int64(n%perSecond)*int64(unit))
		return t.UTC(), w.contains(t)
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
		fitChance: func(largest uint64) float64 {
			return max(part(math.Exp2(63)), part(ceilPower2(largest)), part(ceilPower10(largest)))
		},
		filledChance: func(largest uint64) float64 { return part(float64(largest) + 1) },
	}
}

func intHypotheses(w timeWindow, epochs []Epoch) []hypothesis {
	unix := time.Unix(0, 0)
	nanos := intReading(UnixNanos, unix, 1, 0, w)
	nanos.structure = func(fits []*sampleValue) (string, float64) {
		return describeRare(fits, 1e-3, "values are whole microseconds", func(s *sampleValue) bool { return s.num%1000 == 0 })
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
		h.structure = func(fits []*sampleValue) (string, float64) {
			return describeRare(fits, 16./4096, "values have a sequence below 16 in the low 12 bits",
				func(s *sampleValue) bool { return s.num&0xfff < 16 })
		}
		hs = append(hs, h)
	}
	return hs
}

// describeRare words the finding that far more values have a property than its
// probability p explains.
func describeRare(fits []*sampleValue, p float64, words string, has func(*sampleValue) bool) (string, float64) {
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
func compactDates(w timeWindow) hypothesis {
	return hypothesis{
		kind: Date,
		read: func(s *sampleValue) (time.Time, bool) {
			if s.negative || s.num < 1_00_00 || s.num > 9999_12_31 {
				return time.Time{}, false
			}
			month := time.Month(s.num / 100 % 100)
			t := time.Date(int(s.num/1_00_00), month, int(s.num%100), 0, 0, 0, 0, time.UTC)
			// Date carries a 31 April over into May: refuse what it carried.
			return t, t.Month() == month && w.contains(t)
		},
		fitChance: func(largest uint64) float64 {
			days := w.lengthSeconds()/secondsPerDay + 1
			return min(1, days/min(ceilPower2(largest), ceilPower10(largest)))
		},
	}
}

// uuidHypotheses read 128-bit values by their version and variant bits, six
// bits that 1 in 64 values has by luck.
func uuidHypotheses(w timeWindow) []hypothesis {
	const bits = 1. / 64
	fixed := func(p float64) func(uint64) float64 { return func(uint64) float64 { return p } }
	version := func(kind Kind, v byte, p float64, clock func(u key.UUID) time.Time) hypothesis {
		return hypothesis{kind: kind, fitChance: fixed(p), read: func(s *sampleValue) (time.Time, bool) {
			if s.bytes[6]>>4 != v || s.bytes[8]>>6 != 2 {
				return time.Time{}, false
			}
			t := clock(s.bytes)
			return t, t.IsZero() || w.contains(t)
		}}
	}
	gregorian := w.lengthSeconds() / (math.Exp2(60) / 1e7) // 60 bits of 100 ns
	return []hypothesis{
		version(UUIDv1, 1, bits*gregorian, uuidTimeV1),
		version(UUIDv4, 4, bits, func(key.UUID) time.Time { return time.Time{} }),
		version(UUIDv6, 6, bits*gregorian, uuidTimeV6),
		version(UUIDv7, 7, bits*millisChance(w), uuidTimeV7),
	}
}

// millisChance is the share of 48-bit millisecond counts that are plausible.
func millisChance(w timeWindow) float64 {
	return w.lengthSeconds() * 1000 / (1 << 48)
}

func ulidHypothesis(w timeWindow) hypothesis {
	return hypothesis{
		kind:      ULID,
		fitChance: func(uint64) float64 { return millisChance(w) },
		read: func(s *sampleValue) (time.Time, bool) {
			t := uuidTimeV7(s.bytes) // the same 48 bits
			return t, w.contains(t)
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

// maxChance is the largest probability at which a pattern still counts as
// more than luck: one column in a million.
const maxChance = 1e-6

// binomialTail returns the probability of m or more successes in n trials of
// probability p.
func binomialTail(n, m int, p float64) float64 {
	switch {
	case m <= 0 || p >= 1:
		return 1
	case p <= 0:
		return 0
	case float64(m) <= float64(n)*p:
		return 1 // at or below the mean: no evidence, and no need to be exact
	}
	lg := func(x int) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
	// log1p keeps the precision when p is tiny.
	term := math.Exp(lg(n) - lg(m) - lg(n-m) + float64(m)*math.Log(p) + float64(n-m)*math.Log1p(-p))
	sum := 0.
	for k := m; k <= n && term > sum*1e-12; k++ {
		sum += term
		term *= float64(n-k) / float64(k+1) * p / (1 - p)
	}
	return min(sum, 1)
}

// inversionTail returns the probability that a random order of n items has
// at most inv pairs out of order. It is exact: the number of inversions is
// the sum of independent uniform draws from {0}, {0, 1}, … {0, …, n-1}. But
// within two standard deviations of the mean it answers 1: that is no evidence,
// and most samples end there.
func inversionTail(n, inv int) float64 {
	mean := float64(n*(n-1)) / 4
	deviation := math.Sqrt(float64(n*(n-1)*(2*n+5)) / 72)
	if float64(inv) >= mean-2*deviation {
		return 1
	}
	prob := make([]float64, inv+1)
	next := make([]float64, inv+1)
	prob[0] = 1
	for i := 2; i <= n; i++ {
		window := 0.
		for k := range next {
			window += prob[k]
			if k >= i {
				window -= prob[k-i]
			}
			next[k] = window / float64(i)
		}
		prob, next = next, prob
	}
	sum := 0.
	for _, p := range prob {
		sum += p
	}
	return min(sum, 1)
}

// combineChances returns the probability that two independent pieces of evidence
// are together as strong as this by luck. It is more than the product: the
// product of two uniform numbers is below c with probability c - c*ln c.
func combineChances(p, q float64) float64 {
	c := p * q
	if c <= 0 {
		return 0
	}
	return min(c-c*math.Log(c), 1)
}

// allDistinctChance returns the probability that n draws out of size values
// never repeat.
func allDistinctChance(n int, size float64) float64 {
	log := 0.
	for i := range n {
		left := 1 - float64(i)/size
		if left <= 0 {
			return 0
		}
		log += math.Log(left)
	}
	return math.Exp(log)
}

// lowerBound returns the share that, with 97.5 % confidence, is exceeded by
// the population from which m of n were drawn (Wilson's interval).
func lowerBound(m, n int) float64 {
	if n == 0 {
		return 0
	}
	const z = 1.96
	share, size := float64(m)/float64(n), float64(n)
	mid := share + z*z/(2*size)
	half := z * math.Sqrt(share*(1-share)/size+z*z/(4*size*size))
	return max(0, (mid-half)/(1+z*z/size))
}

// trend is how a list of distinct values follows its order of arrival.
type trend struct {
	risingSteps, steps int     // neighbours that rise, of all
	concordance        float64 // share of all pairs that rise
	chance             float64 // of following arrival that well, up or down, by luck
}

// followsArrival reports whether arrival and order agree, up or down, so well that
// new values lie at one end.
func (t trend) followsArrival() bool {
	return t.chance <= maxChance && (t.concordance >= 0.75 || t.concordance <= 0.25)
}

func (t trend) risingShare() float64 {
	if t.steps == 0 {
		return 0
	}
	return float64(t.risingSteps) / float64(t.steps)
}

// maxTrendValues bounds the values compared pair by pair; more are thinned evenly.
const maxTrendValues = 128

func trendOf(values []*sampleValue) trend {
	n := len(values)
	t := trend{chance: 1, steps: n - 1}
	if n < 2 {
		return trend{chance: 1}
	}
	for i := 1; i < n; i++ {
		if values[i-1].compare(values[i]) < 0 {
			t.risingSteps++
		}
	}

	m := min(n, maxTrendValues)
	inversions, pairs := 0, m*(m-1)/2
	for i := range m {
		for j := range i {
			if values[j*n/m].compare(values[i*n/m]) > 0 {
				inversions++
			}
		}
	}
	t.concordance = 1 - float64(inversions)/float64(pairs)
	// Two-sided: a column may also count down.
	t.chance = min(1, 2*inversionTail(m, min(inversions, pairs-inversions)))
	return t
}
