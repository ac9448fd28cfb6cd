package saga

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	randv2 "math/rand/v2"
	"sync"
	"time"
)

// Options configure a runner. The zero value works.
type Options struct {
	// Retention is how long a saga is kept after its end, and its id known. Default
	// 24 h. At least a second: a call that is late must find what was noted of it.
	Retention time.Duration
	// Parallel is how many Dos and Undos are carried out at once. Default 256. At
	// least 1.
	Parallel int
	// Now is the clock that deadlines, waits and retention are judged by. Default
	// time.Now. It is looked at once a minute at least.
	Now func() time.Time
	// Random is what jitter is taken from. Default that of math/rand/v2.
	Random func() uint64
	// OnChange, if set, is called with each change that this runner has written, one after
	// the other for each saga: for logs, figures and alarms. It must be quick.
	OnChange func(Info)
}

// withDefaults spells the defaults out, and reports every option that is out of its range.
func (o Options) withDefaults() (Options, error) {
	var errs []error
	if o.Retention == 0 {
		o.Retention = 24 * time.Hour
	}
	if o.Retention < time.Second {
		errs = append(errs, fmt.Errorf("%w: Retention is %v: use a second at least", ErrOptions, o.Retention))
	}
	if o.Parallel == 0 {
		o.Parallel = 256
	}
	if o.Parallel < 0 {
		errs = append(errs, fmt.Errorf("%w: Parallel is %d: use 1 at least", ErrOptions, o.Parallel))
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = randv2.Uint64
	}
	return o, errors.Join(errs...)
}

// Runner carries sagas of a journal out. Its methods may be called by any goroutine.
type Runner struct {
	journal   Journal
	opts      Options
	owner     string
	callSlots chan struct{}
	sweepSlot chan struct{} // has an element while a sweep runs
	ctx       context.Context
	cancel    context.CancelCauseFunc
	wg        sync.WaitGroup

	mu           sync.Mutex
	closed       bool
	sweepStarted bool
	definitions  map[string]*untypedDefinition
	activeSagas  map[string]*activeSaga
}

// NewRunner returns a runner on a journal. It does nothing until it is asked to.
func NewRunner(j Journal, o Options) (*Runner, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Runner{
		journal: j, opts: o, owner: rand.Text()[:12],
		callSlots: make(chan struct{}, o.Parallel), sweepSlot: make(chan struct{}, 1),
		definitions: map[string]*untypedDefinition{}, activeSagas: map[string]*activeSaga{},
	}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	return r, nil
}

// Close ends what the runner does, and waits for it. The contexts of steps that are
// being carried out end. Sagas under way go on when a runner resumes them. A second
// call gets ErrClosed.
func (r *Runner) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return ErrClosed
	}
	r.closed = true
	r.mu.Unlock()
	r.cancel(ErrClosed)
	r.wg.Wait()
	return nil
}

func (r *Runner) nowMS() int64 { return r.opts.Now().UnixMilli() }

// Resumed is what Resume found.
type Resumed struct {
	// Running is how many sagas go on.
	Running int
	// Stuck are those that do not: StuckCode ones lack something in this program, the
	// others wait for Retry.
	Stuck []Info
}

// Resume takes over all sagas of the journal that have not ended, and goes on with
// them. Call it when all definitions are registered. From then on sagas that ended
// longer ago than Options.Retention are removed too.
func (r *Runner) Resume(ctx context.Context) (found Resumed, err error) {
	const page = 256
	for after := ""; ; {
		records, err := r.journal.Open(ctx, after, page)
		if err != nil {
			return found, err
		}
		for _, rec := range records {
			after = rec.ID
			if err := r.resumeSaga(ctx, rec, &found); err != nil {
				return found, err
			}
		}
		if len(records) < page {
			return found, r.startSweeping()
		}
	}
}

func (r *Runner) resumeSaga(ctx context.Context, rec Record, found *Resumed) error {
	if rec.Stuck == StuckUndo {
		found.Stuck = append(found.Stuck, toInfo(rec))
		return nil
	}
	if why := r.findDefinition(rec.Definition).missingCode(&rec); why != "" {
		rec, err := r.changeRecord(ctx, rec, func(rec Record) (Event, bool) {
			return Event{Kind: Blocked, Why: why, NowMS: r.nowMS()}, rec.Stuck == NotStuck && !rec.State.Ended()
		})
		if errors.Is(err, ErrNotFound) { // another runner has ended it, and it was removed
			return nil
		}
		if err == nil && !rec.State.Ended() {
			found.Stuck = append(found.Stuck, toInfo(rec))
		}
		return err
	}
	found.Running++
	_, err := r.launchSaga(rec)
	return err
}

func (r *Runner) findDefinition(name string) *untypedDefinition {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.definitions[name]
}

// startSaga begins a saga, or goes on with the one that there is.
func (r *Runner) startSaga(ctx context.Context, k *untypedDefinition, id string, data []byte) (*activeSaga, error) {
	if r.ctx.Err() != nil {
		return nil, ErrClosed
	}
	now := r.nowMS()
	deadline := int64(0)
	if k.deadline > 0 {
		deadline = now + max(k.deadline.Milliseconds(), 1)
	}
	rec := Begin(id, k.name, k.newSteps, data, r.owner, now, deadline)
	rec.Forget = k.forget != nil
	rec, err := r.createRecord(ctx, k, rec)
	if errors.Is(err, ErrExists) {
		rec, err = r.journal.Load(ctx, id)
		if err == nil && rec.Definition != k.name {
			err = fmt.Errorf("%w: %q is one of %q", ErrTaken, id, rec.Definition)
		}
		if err != nil || rec.State.Ended() || rec.Stuck == StuckUndo {
			return nil, err
		}
	} else {
		if err != nil {
			return nil, err
		}
		r.reportChange(rec)
	}
	a, _ := r.launchSaga(rec) // a runner that is closed by now leaves it to the one that resumes it: it has begun
	return a, nil
}

// createRecord stores the first record. If the first step is atomic it is done with it, which
// saves a commit; should that fail, nothing has happened, and it is a step like others.
func (r *Runner) createRecord(ctx context.Context, k *untypedDefinition, rec Record) (Record, error) {
	if s := k.steps[rec.Steps[0].Name]; s.planned.Atomic {
		var next Record
		within := ctx
		if s.timeout > 0 {
			var end context.CancelFunc
			within, end = context.WithTimeout(ctx, s.timeout)
			defer end()
		}
		err := r.journal.(Together).SaveWith(within, Record{ID: rec.ID}, func(tx any) (Record, error) {
			data, err := s.doTx(tx, rec.Data)
			if err != nil {
				return Record{}, err
			}
			next, err = Next(rec, Event{Kind: Did, Data: data, NowMS: rec.CreatedMS})
			return next, err
		})
		if err == nil || errors.Is(err, ErrExists) {
			return next, err
		}
	}
	return rec, r.journal.Create(ctx, rec)
}

func (r *Runner) reportChange(rec Record) {
	if r.opts.OnChange != nil {
		r.opts.OnChange(toInfo(rec))
	}
}

// launchSaga has a saga carried out, unless it is already.
func (r *Runner) launchSaga(rec Record) (*activeSaga, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	if a := r.activeSagas[rec.ID]; a != nil {
		a.requestReload() // it may be about to end, and not know of this record
		return a, nil
	}
	a := &activeSaga{runner: r, definition: r.definitions[rec.Definition], wakeup: make(chan struct{}, 1), done: make(chan struct{})}
	r.activeSagas[rec.ID] = a
	r.wg.Go(func() {
		defer close(a.done)
		for a.lastRecord = a.run(rec); !r.releaseSaga(a); {
			// A caller has counted on this goroutine meanwhile.
			var err error
			if rec, err = a.loadRecord(a.lastRecord); err != nil {
				continue
			}
			if a.lastRecord = rec; !rec.AtRest() {
				a.lastRecord = a.run(rec)
			}
		}
	})
	return a, nil
}

// releaseSaga ends the work on a saga, unless there is a request to look at it again.
func (r *Runner) releaseSaga(a *activeSaga) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-a.wakeup:
		if !r.closed {
			return false
		}
	default:
	}
	delete(r.activeSagas, a.lastRecord.ID)
	return true
}

// waitAtRest returns the record of a saga that has ended or is stuck.
func (r *Runner) waitAtRest(ctx context.Context, id string) (Record, error) {
	const shortest, longest = 10 * time.Millisecond, time.Second
	for nap := shortest; ; nap = min(2*nap, longest) {
		r.mu.Lock()
		a := r.activeSagas[id]
		r.mu.Unlock()
		if a == nil { // it has ended, or another runner has it
			rec, err := r.journal.Load(ctx, id)
			if err != nil || rec.AtRest() {
				return rec, err
			}
			if err := r.sleepContext(ctx, nap); err != nil {
				return rec, err
			}
			continue
		}
		select {
		case <-a.done:
			if a.lastRecord.AtRest() {
				return a.lastRecord, nil
			}
		case <-ctx.Done():
			return Record{}, ctx.Err()
		}
	}
}

// sleepContext waits for a while, unless ctx or the runner ends.
func (r *Runner) sleepContext(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-r.ctx.Done():
		return ErrClosed
	}
}

// Sweep removes sagas that ended longer ago than Options.Retention, and returns how
// many. A runner that has resumed does that by itself from time to time.
//
// If a definition has a Forget, it comes first. Sagas whose definition had one that
// this program does not know are kept. A runner sweeps once at a time: a second call
// waits for the first.
func (r *Runner) Sweep(ctx context.Context) (n int, err error) {
	// Else one that is slow would forget what is noted of a later saga, with an id that
	// another has removed.
	select {
	case r.sweepSlot <- struct{}{}:
		defer func() { <-r.sweepSlot }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	const page = 256
	before := r.nowMS() - r.opts.Retention.Milliseconds()
	var errs []error
	for after := (Record{}); ; {
		records, err := r.journal.Before(ctx, before, after, page)
		if err != nil {
			return n, errors.Join(append(errs, err)...)
		}
		for _, rec := range records {
			after = rec
			switch removed, err := r.removeSaga(ctx, rec); {
			case err != nil && len(errs) < 10: // they are much alike
				errs = append(errs, fmt.Errorf("remove saga %s %q: %w", rec.Definition, rec.ID, err))
			case removed:
				n++
			}
		}
		if len(records) < page {
			return n, errors.Join(errs...)
		}
	}
}

func (r *Runner) removeSaga(ctx context.Context, rec Record) (bool, error) {
	if rec.Forget {
		k := r.findDefinition(rec.Definition)
		if k == nil || k.forget == nil {
			return false, nil
		}
		if err := k.forget(ctx, rec.ID); err != nil {
			return false, err
		}
	}
	err := r.journal.Remove(ctx, rec)
	return err == nil, err
}

// startSweeping sweeps from time to time, until the runner is closed.
func (r *Runner) startSweeping() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	if r.sweepStarted {
		return nil
	}
	r.sweepStarted = true
	const shortest, longest = time.Second, 10 * time.Minute
	period := max(shortest, min(longest, r.opts.Retention/20))
	r.wg.Go(func() {
		ticker := time.NewTicker(period)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				// What is not removed now is removed later: an error is no news.
				_, _ = r.Sweep(r.ctx)
			case <-r.ctx.Done():
				return
			}
		}
	})
	return nil
}
