package counter

import (
	"errors"
	"fmt"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/sums"
)

// ErrName means that a counter cannot have that name: the text says why.
var ErrName = errors.New("counter: bad name")

// MaxParts is the most parts that a counter can have.
const MaxParts = sums.MaxParts

// Options configure counters. The zero value works.
type Options struct {
	// Max is the most parts that a counter is given: a power of two up to MaxParts.
	// Default 16. 1 never splits. More than there are groups is of no use.
	Max int
	// Window is how long adds are watched before it is decided whether a counter gets
	// more parts or fewer. Default 250 ms. At least 1 ms.
	Window time.Duration
	// Watched is how many counters are watched, and have a cached sum, at a time.
	// Default 4096. At least 1. Others work, but stay as they are, and each call about
	// one of them reads how many parts it has.
	Watched int
	// Now is the clock that the age of sums and the time of adds is measured by.
	// Default time.Now.
	Now func() time.Time
	// Resized is told when a counter got another number of parts, or could not: err
	// says why. It must not call methods of the Counters.
	Resized func(name string, from, to int, err error)
}

// withDefaults spells the defaults out, and reports every option that is out of its range.
func (o Options) withDefaults() (Options, error) {
	if o.Max == 0 {
		o.Max = 16
	}
	if o.Window == 0 {
		o.Window = 250 * time.Millisecond
	}
	if o.Watched == 0 {
		o.Watched = 4096
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Resized == nil {
		o.Resized = func(string, int, int, error) {}
	}
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("%w: counter: "+format, append([]any{cleave.ErrOptions}, args...)...))
		}
	}
	refuse(!sums.Valid(o.Max), "Max is %d: use a power of two up to %d", o.Max, MaxParts)
	refuse(o.Window < time.Millisecond, "Window is %v: use at least 1ms", o.Window)
	refuse(o.Watched < 1, "Watched is %d: use at least 1", o.Watched)
	return o, errors.Join(errs...)
}
