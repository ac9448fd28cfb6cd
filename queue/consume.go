package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cleavekv/cleave"
)

// ConsumeOptions specify how messages are consumed. The zero value works.
type ConsumeOptions struct {
	// Concurrency is how many messages are worked on at a time. Default 16. From 1 to 1000.
	Concurrency int
	// Backoff is for how long a message whose handler failed is held back. It doubles with each
	// delivery up to MaxBackoff, and is cut by up to a half at random. Default 100 ms. At least
	// 1 ms.
	Backoff time.Duration
	// MaxBackoff is the longest Backoff. Default a minute. At least Backoff.
	MaxBackoff time.Duration
	// OnError, if set, is called with what a handler returned, and with what went wrong about a message that
	// was handled: it comes again then. With a nil Delivery it is the queue that could not be
	// read, which is tried again. It may be called by several goroutines.
	OnError func(d *Delivery, err error)
}

const (
	defaultConcurrency = 16
	defaultBackoff     = 100 * time.Millisecond
	defaultMaxBackoff  = time.Minute
)

// withDefaults spells the defaults out, and reports every option that is out of its range.
func (o ConsumeOptions) withDefaults() (ConsumeOptions, error) {
	if o.Concurrency == 0 {
		o.Concurrency = defaultConcurrency
	}
	if o.Backoff == 0 {
		o.Backoff = defaultBackoff
	}
	if o.MaxBackoff == 0 {
		o.MaxBackoff = max(defaultMaxBackoff, o.Backoff)
	}
	if o.OnError == nil {
		o.OnError = func(*Delivery, error) {}
	}
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("%w: queue: "+format, append([]any{cleave.ErrOptions}, args...)...))
		}
	}
	refuse(o.Concurrency < 1 || o.Concurrency > maxReceiveMessages, "Concurrency is %d: use 1 to %d", o.Concurrency, maxReceiveMessages)
	refuse(o.Backoff < time.Millisecond, "Backoff is %v: use at least 1ms", o.Backoff)
	refuse(o.MaxBackoff < o.Backoff, "MaxBackoff is %v, below Backoff (%v)", o.MaxBackoff, o.Backoff)
	return o, errors.Join(errs...)
}

// Consume hands messages to a handler, several at a time, until ctx ends or the queue is
// closed; then it waits for the handlers and returns why. A message whose handler returns nil is
// acknowledged; one whose handler fails or panics is given back, and comes again after a
// back-off, until Options.MaxDeliveries sets it aside.
//
// While a handler works its lease is extended. Its context ends with ctx, and when the lease
// was lost to another receiver all the same, with [ErrLost] as its cause. A handler that returns
// nil after the end of ctx is acknowledged too; one that fails then is given back at once.
//
// A handler may be called twice for one message: see [Queue.AckTx], with which it can
// acknowledge a message itself. Return [ErrDone] then.
func (q *Queue) Consume(ctx context.Context, o ConsumeOptions, handle func(context.Context, *Delivery) error) error {
	o, err := o.withDefaults()
	if handle == nil {
		err = errors.Join(err, fmt.Errorf("%w: queue: Consume needs a handler", cleave.ErrOptions))
	}
	if err != nil {
		return err
	}
	return newConsumer(q, q.c.opts.Lease, o, handle).run(ctx)
}

// ErrDone is returned by a handler of [Queue.Consume] that has acknowledged its message itself.
var ErrDone = errors.New("queue: the handler has acknowledged the message")

// messages is what a consumer needs of a queue.
type messages interface {
	Receive(ctx context.Context, max int) ([]*Delivery, error)
	Ack(ctx context.Context, deliveries ...*Delivery) error
	Nack(ctx context.Context, delay time.Duration, deliveries ...*Delivery) error
	Extend(ctx context.Context, lease time.Duration, deliveries ...*Delivery) error
}

// consumer is one call of Consume.
type consumer struct {
	from   messages
	lease  time.Duration
	opts   ConsumeOptions
	handle func(context.Context, *Delivery) error
	// slots has a token for each message that may be worked on.
	slots chan struct{}
	// handled has those to acknowledge. It holds as many as there are slots, so that no handler
	// waits for it.
	handled chan *Delivery
}

func newConsumer(from messages, lease time.Duration, o ConsumeOptions, handle func(context.Context, *Delivery) error) *consumer {
	c := &consumer{from: from, lease: lease, opts: o, handle: handle, slots: make(chan struct{}, o.Concurrency), handled: make(chan *Delivery, o.Concurrency)}
	for range o.Concurrency {
		c.slots <- struct{}{}
	}
	return c
}

func (c *consumer) run(ctx context.Context) error {
	work, stop := context.WithCancel(ctx)
	var workers, acker sync.WaitGroup
	acker.Go(func() { c.acknowledge(context.WithoutCancel(ctx)) })
	defer acker.Wait()
	defer func() {
		stop()
		workers.Wait()
		close(c.handled)
	}()
	for failures := 0; ; {
		free, err := c.takeSlots(ctx)
		if err != nil {
			return err
		}
		got, err := c.from.Receive(ctx, free)
		for range free - len(got) {
			c.slots <- struct{}{}
		}
		for _, d := range got {
			workers.Go(func() { c.work(work, d) })
		}
		switch {
		case err == nil:
			failures = 0
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrClosed), errors.Is(err, ErrDamaged), errors.Is(err, cleave.ErrClosed), errors.Is(err, cleave.ErrFailed):
			return err
		}
		c.opts.OnError(nil, err)
		failures++
		if err := sleep(ctx, c.backoff(failures)); err != nil {
			return err
		}
	}
}

// takeSlots waits for a slot, and takes all others that are free, too.
func (c *consumer) takeSlots(ctx context.Context) (n int, err error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-c.slots:
	}
	for n = 1; ; n++ {
		select {
		case <-c.slots:
		default:
			return n, nil
		}
	}
}

// backoff is how long to wait after a number of failures: from half of the whole to the whole.
func (c *consumer) backoff(failures int) time.Duration {
	d := c.opts.Backoff
	for i := 1; i < failures && d < c.opts.MaxBackoff; i++ {
		d *= 2
	}
	d = min(d, c.opts.MaxBackoff)
	return d - time.Duration(rand.Int64N(int64(d)/2+1))
}

// work handles a message.
func (c *consumer) work(ctx context.Context, d *Delivery) {
	err := c.handleExtended(ctx, d)
	switch {
	case err == nil:
		c.handled <- d
		return
	case errors.Is(err, ErrDone):
	default:
		c.opts.OnError(d, err)
		delay := c.backoff(d.Attempt)
		if ctx.Err() != nil {
			delay = 0 // it is not the message's fault
		}
		within, end := context.WithTimeout(context.WithoutCancel(ctx), c.lease)
		defer end()
		if err := c.from.Nack(within, delay, d); err != nil && !errors.Is(err, ErrLost) {
			c.opts.OnError(d, err) // its lease ends by itself
		}
	}
	c.slots <- struct{}{}
}

// handleExtended calls the handler, and extends the lease until it returns.
func (c *consumer) handleExtended(ctx context.Context, d *Delivery) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var extending sync.WaitGroup
	stop := make(chan struct{})
	extending.Go(func() { c.extend(context.WithoutCancel(ctx), d, stop, cancel) })
	defer func() {
		close(stop)
		extending.Wait()
		cancel(nil)
	}()
	return c.callHandler(ctx, d)
}

// extensionsPerLease is how often a lease is extended while it lasts: one that fails leaves time
// for another.
const extensionsPerLease = 3

func (c *consumer) extend(ctx context.Context, d *Delivery, stop <-chan struct{}, lost context.CancelCauseFunc) {
	tick := time.NewTicker(max(c.lease/extensionsPerLease, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		within, end := context.WithTimeout(ctx, c.lease)
		err := c.from.Extend(within, c.lease, d)
		end()
		if errors.Is(err, ErrLost) {
			lost(err)
			return
		}
	}
}

// callHandler turns a panic of the handler into an error: a message must not take down the
// program, and then the next one that gets it.
func (c *consumer) callHandler(ctx context.Context, d *Delivery) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("queue: the handler panicked: %v", p)
		}
	}()
	return c.handle(ctx, d)
}

// acknowledge acknowledges what is handled, all together that has come meanwhile.
func (c *consumer) acknowledge(ctx context.Context) {
	for d := range c.handled {
		batch := []*Delivery{d}
		for more := true; more; {
			select {
			case d, more = <-c.handled:
				if more {
					batch = append(batch, d)
				}
			default:
				more = false
			}
		}
		c.acknowledgeBatch(ctx, batch)
		for range batch {
			c.slots <- struct{}{}
		}
	}
}

// maxAckAttempts is how often an acknowledgement is tried: what it leaves comes again when its
// lease ends.
const maxAckAttempts = 5

func (c *consumer) acknowledgeBatch(ctx context.Context, batch []*Delivery) {
	ctx, end := context.WithTimeout(ctx, c.lease)
	defer end()
	for attempt := 1; ; attempt++ {
		err := c.from.Ack(ctx, batch...)
		var lost *LostError
		switch {
		case err == nil:
			return
		case errors.As(err, &lost):
			for _, d := range lost.Lost {
				c.opts.OnError(d, ErrLost)
			}
			return
		case attempt == maxAckAttempts || sleep(ctx, c.backoff(attempt)) != nil:
			for _, d := range batch {
				c.opts.OnError(d, fmt.Errorf("acknowledge: %w", err))
			}
			return
		}
	}
}

// sleep waits, unless ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
