package key

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// DefaultPartitionBytes is the partition size that [SizeBucket] stays under
// when the load names none: 250 MB, half of the largest shard Cleave keeps
// (500 MB), so that a bucket twice as full as expected still fits in one.
const DefaultPartitionBytes = 250_000_000

// Load describes one entity: one device, one user's messages, one tenant.
// Where entities differ widely, describe a heavy one.
type Load struct {
	// RecordsPerSecond is how fast the entity writes, averaged over its busy
	// hours. Positive, at most 1e18.
	RecordsPerSecond float64
	// RecordBytes is the stored size of a record, key included. Positive, at
	// most 1e18.
	RecordBytes float64
	// TargetBytes is the size a partition should stay under. 0 means
	// DefaultPartitionBytes.
	TargetBytes int64
	// LookBack is how far back a typical read reaches; the answer's fan-out is
	// computed for it. 0 means that reads ask for one instant.
	LookBack time.Duration
}

// Fit is how well the advised bucket suits the load.
type Fit uint8

const (
	// FitGood means that the bucket keeps partitions under the target.
	FitGood Fit = iota
	// FitTooBig means that even an hour exceeds the target: salt the key or
	// add a column to it.
	FitTooBig
	// FitSmall means that the entity stays under the target for ten years
	// without any bucket.
	FitSmall
)

// String returns good, too big or small.
func (f Fit) String() string {
	switch f {
	case FitGood:
		return "good"
	case FitTooBig:
		return "too big"
	case FitSmall:
		return "small"
	}
	return fmt.Sprintf("Fit(%d)", uint8(f))
}

// BucketChoice is what one bucket would mean for a load.
type BucketChoice struct {
	Bucket Bucket
	// Bytes is the expected size of one entity's fullest bucket; a month is
	// taken as 31 days.
	Bytes float64
	// FanOut is the most buckets that a read over the look-back can touch.
	FanOut int
}

// BucketAdvice is the answer of [SizeBucket].
type BucketAdvice struct {
	// BucketChoice is the advised bucket.
	BucketChoice
	Fit Fit
	// Salts is how many salts bring the advised bucket under the target: 1
	// unless Fit is FitTooBig, 0 if [MaxSalts] would not do. With salts, a
	// read's fan-out is FanOut times Salts.
	Salts int
	// Choices compares hour, day and month.
	Choices [3]BucketChoice
	// Reason says in words what decided.
	Reason string
}

// SizeBucket advises Hour, Day or Month: the longest whose expected size
// stays under the target, because longer buckets make reads touch fewer.
func SizeBucket(l Load) (BucketAdvice, error) {
	if l.TargetBytes == 0 {
		l.TargetBytes = DefaultPartitionBytes
	}
	if err := l.validate(); err != nil {
		return BucketAdvice{}, err
	}
	bytesPerSecond := l.RecordsPerSecond * l.RecordBytes
	target := float64(l.TargetBytes)

	var a BucketAdvice
	for i, b := range [...]Bucket{Hour, Day, Month} {
		a.Choices[i] = BucketChoice{b, bytesPerSecond * longestSeconds(b), fanOut(b, l.LookBack)}
		if i == 0 || a.Choices[i].Bytes <= target {
			a.BucketChoice = a.Choices[i]
		}
	}
	a.Salts = 1
	tenYears := bytesPerSecond * 3653 * float64(Day)
	switch {
	case a.Bytes > target:
		a.Fit = FitTooBig
		a.Salts = saltsFor(a.Bytes / target)
		a.Reason = fmt.Sprintf("even an hour holds %s, over the target of %s: %s, or add a column to the key",
			byteText(a.Bytes), byteText(target), saltText(a.Salts))
	case tenYears <= target:
		a.Fit = FitSmall
		a.Reason = fmt.Sprintf("ten years hold %s, under the target of %s: the key needs no bucket yet; a month costs reads least",
			byteText(tenYears), byteText(target))
	default:
		a.Reason = fmt.Sprintf("the longest bucket under the target of %s is a %v with %s",
			byteText(target), a.Bucket, byteText(a.Bytes))
	}
	return a, nil
}

func (l Load) validate() error {
	var errs []error
	for _, f := range []struct {
		name  string
		value float64
	}{{"RecordsPerSecond", l.RecordsPerSecond}, {"RecordBytes", l.RecordBytes}} {
		// The negated form also catches NaN. The bound keeps the products below
		// finite.
		if !(f.value > 0 && f.value <= 1e18) {
			errs = append(errs, fmt.Errorf("%w: %s is %v; want a positive number up to 1e18", ErrBucket, f.name, f.value))
		}
	}
	if l.TargetBytes < 0 {
		errs = append(errs, fmt.Errorf("%w: TargetBytes is %d; want a positive number, or 0 for %d",
			ErrBucket, l.TargetBytes, DefaultPartitionBytes))
	}
	if l.LookBack < 0 {
		errs = append(errs, fmt.Errorf("%w: LookBack is %v; want how far back reads reach", ErrBucket, l.LookBack))
	}
	return errors.Join(errs...)
}

func longestSeconds(b Bucket) float64 {
	if b == Month {
		return 31 * float64(Day)
	}
	return float64(b)
}

// fanOut returns the most buckets that a closed window of the given length
// can touch: as many as fit strictly inside it, and one at each end.
func fanOut(b Bucket, window time.Duration) int {
	if window <= 0 {
		return 1
	}
	inside := 0
	if b == Month {
		// Compared in days: the months as a Duration could overflow.
		days := int((window - 1) / (24 * time.Hour))
		for shortestMonths(inside+1) <= days {
			inside++
		}
	} else {
		inside = int((window - 1) / (time.Duration(b) * time.Second))
	}
	return inside + 2
}

// shortestMonths returns the least number of days that n consecutive months
// can have. Leap days are left out: a run that avoids them exists for up to
// eight years, and beyond that the fan-out errs by one month upward.
func shortestMonths(n int) int {
	year := [12]int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}
	best := math.MaxInt
	for first := range year {
		sum := 0
		for i := range n % 12 {
			sum += year[(first+i)%12]
		}
		best = min(best, sum)
	}
	return n/12*365 + best
}

// saltsFor rounds up to a power of two, for the reason SaltCount gives.
func saltsFor(times float64) int {
	if times > MaxSalts {
		return 0
	}
	return ceilPowerOfTwo(int(math.Ceil(times)))
}

func saltText(n int) string {
	if n == 0 {
		return fmt.Sprintf("%d salts would not be enough", MaxSalts)
	}
	return fmt.Sprintf("use %d salts", n)
}

func ceilPowerOfTwo(n int) int { return 1 << bits.Len(uint(n-1)) }

// byteText prints a size with three digits and a decimal unit.
func byteText(n float64) string {
	units := [...]string{"B", "KB", "MB", "GB", "TB", "PB", "EB"}
	i := 0
	for n >= 999.5 && i < len(units)-1 {
		n /= 1000
		i++
	}
	return fmt.Sprintf("%.3g %s", n, units[i])
}
