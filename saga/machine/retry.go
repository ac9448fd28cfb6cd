package machine

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Retry specifies how often, and after which time, a step is tried again.
type Retry struct {
	// Attempts is how often a Do is tried before the saga turns round. Default 10,
	// which with the other defaults takes about half a minute. -1 is no limit: then
	// the saga should have a deadline.
	Attempts int
	// UndoAttempts is how often an Undo is tried before the saga is stuck. Default 0,
	// no limit.
	UndoAttempts int
	// First is the wait after the first failure. It doubles with each up to Max, and
	// is cut at random by up to a half, so that calls that failed together do not come
	// back together. Defaults 100 ms and 10 s. At least 1 ms, at most a day.
	First, Max time.Duration
}

const (
	defaultAttempts = 10
	defaultFirst    = 100 * time.Millisecond
	defaultMax      = 10 * time.Second
)

// Check reports everything that is out of its range.
func (p Retry) Check() error {
	var errs []error
	if p.Attempts < -1 {
		errs = append(errs, fmt.Errorf("Retry.Attempts is %d: use -1 for no limit", p.Attempts))
	}
	if p.UndoAttempts < 0 {
		errs = append(errs, fmt.Errorf("Retry.UndoAttempts is %d: use 0 for no limit", p.UndoAttempts))
	}
	first, most := p.waitBounds()
	if first < time.Millisecond || most > 24*time.Hour || first > most {
		errs = append(errs, fmt.Errorf("Retry.First %v and Max %v: use 1 ms <= First <= Max <= 24 h", first, most))
	}
	return errors.Join(errs...)
}

func (p Retry) waitBounds() (first, most time.Duration) {
	first, most = p.First, p.Max
	if first == 0 {
		first = defaultFirst
	}
	if most == 0 {
		most = max(defaultMax, first)
	}
	return first, most
}

func (p Retry) maxAttempts() int {
	switch p.Attempts {
	case 0:
		return defaultAttempts
	case -1:
		return math.MaxInt
	}
	return p.Attempts
}

// WaitAfter is the wait after the n-th failure in a row: from half of the whole to the
// whole.
func (p Retry) WaitAfter(n int, random uint64) time.Duration {
	d, most := p.waitBounds()
	for i := 1; i < n && d < most; i++ {
		d *= 2
	}
	d = min(d, most)
	cut, _ := bits.Mul64(random, uint64(d)/2)
	return max(d-time.Duration(cut), time.Millisecond)
}
