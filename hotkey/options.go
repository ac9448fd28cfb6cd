package hotkey

import (
	"errors"
	"fmt"
	"time"
)

// ErrOptions means that an option is out of its range: the text says which and what to
// use.
var ErrOptions = errors.New("hotkey: bad options")

// Options configure a [Detector]. The zero value works.
type Options struct {
	// Sample is of how many calls one is measured. Default 1000; 1 is all of them. At
	// most 1<<30.
	Sample int
	// MinSamples is how many samples a key needs to be judged. Default 20: fewer are
	// moved by one slow call.
	MinSamples int
	// MinKeys is how many keys must have as many. Default 3: of two, either could be the
	// slow one.
	MinKeys int
	// Ratio is above how many times the median a key is hot. Default 10. At least 1.
	Ratio float64
	// Keys is how many keys are tracked. Default 1024, which takes about half a MiB with
	// keys of usual length. At least 2, at most 1<<20.
	Keys int
	// Window is after how long samples count half. Default a minute.
	Window time.Duration
	// OnWindow, if set, is called with what was found when a window has ended, by the
	// goroutine that records the first sample after it. It may use the detector.
	OnWindow func(Report)
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Random returns uniform numbers that choose what is measured; it must be safe for
	// concurrent use. Default that of math/rand/v2.
	Random func() uint64
}

const maxSample, maxKeys = 1 << 30, 1 << 20

// withDefaults spells the defaults out.
func (o Options) withDefaults() Options {
	setDefault(&o.Sample, 1000)
	setDefault(&o.MinSamples, 20)
	setDefault(&o.MinKeys, 3)
	setDefault(&o.Ratio, 10)
	setDefault(&o.Keys, 1024)
	setDefault(&o.Window, time.Minute)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

// checkRanges reports every option that is out of its range.
func (o Options) checkRanges() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrOptions}, args...)...))
		}
	}
	bad(o.Sample < 1 || o.Sample > maxSample, "Sample is %d: use 1 to %d", o.Sample, maxSample)
	bad(o.MinSamples < 1, "MinSamples is %d: use at least 1", o.MinSamples)
	bad(o.MinKeys < 1, "MinKeys is %d: use at least 1", o.MinKeys)
	bad(!(o.Ratio >= 1), "Ratio is %v: use at least 1", o.Ratio)
	bad(o.Keys < 2 || o.Keys > maxKeys, "Keys is %d: use 2 to %d", o.Keys, maxKeys)
	bad(o.MinKeys > o.Keys, "MinKeys is %d, more than the %d Keys that are tracked: no key would ever be hot", o.MinKeys, o.Keys)
	bad(o.Window <= 0, "Window is %v: use a positive time", o.Window)
	return errors.Join(errs...)
}
