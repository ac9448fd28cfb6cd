package watch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"github.com/cleavekv/cleave"
)

// PollOptions specify how often to look. The zero value looks about every ten seconds.
type PollOptions struct {
	// Every is how often to look while nothing changes, on average. Default 10 s. At
	// least 1 ms.
	Every time.Duration
	// Fast is how often to look after a change: the pause doubles with each look
	// that finds none, until it is Every. Default Every: always the same. From 1 ms
	// to Every.
	Fast time.Duration
	// Slow is the longest pause after errors. Default 8 times Every. At least Every.
	Slow time.Duration
	// Rand returns a number in [0, 1). Default that of math/rand/v2.
	Rand func() float64
	// Sleep waits, or returns the error of ctx if that ends before. Default a timer.
	Sleep func(ctx context.Context, d time.Duration) error
}

// withDefaults spells the defaults out, and reports every option that is out of its range.
func (o PollOptions) withDefaults() (PollOptions, error) {
	if o.Every == 0 {
		o.Every = 10 * time.Second
	}
	if o.Fast == 0 {
		o.Fast = o.Every
	}
	if o.Slow == 0 {
		o.Slow = 8 * o.Every
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	if o.Sleep == nil {
		o.Sleep = sleepContext
	}
	var errs []error
	if o.Every < time.Millisecond {
		errs = append(errs, fmt.Errorf("%w: Every is %v: use at least 1ms", cleave.ErrOptions, o.Every))
	}
	if o.Fast < time.Millisecond || o.Fast > o.Every {
		errs = append(errs, fmt.Errorf("%w: Fast is %v: use 1ms to Every, %v", cleave.ErrOptions, o.Fast, o.Every))
	}
	if o.Slow < o.Every {
		errs = append(errs, fmt.Errorf("%w: Slow is %v: use at least Every, %v", cleave.ErrOptions, o.Slow, o.Every))
	}
	return o, errors.Join(errs...)
}

func sleepContext(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Poll looks at something again and again, for sources that cannot report that they have
// changed, and yields what it finds whenever look says that it has changed, and every
// error of look. After an error it goes on, with longer pauses, unless the loop ends. When
// ctx ends it yields its error and ends.
//
// Callers that poll one source, begun together or not, look at it evenly: each pause is at
// random from half to one and a half times what it is on average, and so is the time
// before the first look, down to nothing. A caller that needs a value at once looks before.
func Poll[T any](ctx context.Context, o PollOptions, look func(context.Context) (value T, changed bool, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		o, err := o.withDefaults()
		if err != nil {
			yield(none, err)
			return
		}
		p := pollPacer{opts: o, pause: o.Every}
		for d := p.firstPause(); ; {
			if err := o.Sleep(ctx, d); err != nil {
				yield(none, err)
				return
			}
			value, changed, err := look(ctx)
			switch {
			case ctx.Err() != nil:
				yield(none, ctx.Err())
				return
			case err != nil:
				changed, value = true, none
			}
			if changed && !yield(value, err) {
				return
			}
			d = p.nextPause(changed, err)
		}
	}
}

// pollPacer decides how long to wait before the next look.
type pollPacer struct {
	opts  PollOptions
	pause time.Duration // on average, while there are no errors
	// errorPause is the last pause after an error, 0 if the last look had none.
	errorPause time.Duration
}

// firstPause is how long a caller that has always polled, every now and then, would wait from a
// moment that knows nothing of it: so callers that begin together are spread evenly from
// the beginning on. A pause longer than t is as likely as 1 for t up to half a round, and
// from there on falls to 0 at one and a half; the share of waits that are longer is the
// area behind t.
func (p *pollPacer) firstPause() time.Duration {
	t := p.opts.Rand()
	if t > 0.5 {
		t = 1.5 - math.Sqrt(2*(1-t))
	}
	return time.Duration(t * float64(p.opts.Every))
}

func (p *pollPacer) nextPause(changed bool, err error) time.Duration {
	if err != nil {
		// From one pause to three times the last: callers that have failed together do not
		// come back together, and each waits longer and longer.
		p.errorPause = min(p.randomBetween(p.opts.Every, 3*max(p.errorPause, p.opts.Every)), p.opts.Slow)
		return p.errorPause
	}
	p.errorPause = 0
	if changed {
		p.pause = p.opts.Fast
	} else {
		p.pause = min(2*p.pause, p.opts.Every)
	}
	return p.randomBetween(p.pause/2, p.pause+p.pause/2)
}

func (p *pollPacer) randomBetween(least, most time.Duration) time.Duration {
	return least + time.Duration(p.opts.Rand()*float64(most-least))
}
