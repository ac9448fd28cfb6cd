package saga

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	randv2 "math/rand/v2"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/plant"
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
	// OnChange, if set, is told of each change that this runner has written, one after
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
	journal Journal
	opts    Options
	owner   string
	turns   chan struct{}
	sweeps  chan struct{} // has an element while somebody sweeps
	ctx     context.Context
	cancel  context.CancelCauseFunc
	wg      sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	sweeping bool
	kinds    map[string]*kind
	active   map[string]*active
}

// NewRunner returns a runner on a journal. It does nothing until it is asked to.
func NewRunner(j Journal, o Options) (*Runner, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Runner{
		journal: j, opts: o, owner: rand.Text()[:12],
		turns: make(chan struct{}, o.Parallel), sweeps: make(chan struct{}, 1),
		kinds: map[string]*kind{}, active: map[string]*active{},
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
			if err := r.resume(ctx, rec, &found); err != nil {
				return found, err
			}
		}
		if len(records) < page {
			return found, r.sweepOn()
		}
	}
}

func (r *Runner) resume(ctx context.Context, rec Record, found *Resumed) error {
	if rec.Stuck == StuckUndo {
		found.Stuck = append(found.Stuck, infoOf(rec))
		return nil
	}
	if why := r.kind(rec.Definition).lacks(&rec); why != "" {
		rec, err := r.change(ctx, rec, func(rec Record) (Event, bool) {
			return Event{Kind: Blocked, Why: why, NowMS: r.nowMS()}, rec.Stuck == NotStuck && !rec.State.Ended()
		})
		if errors.Is(err, ErrNotFound) { // another runner has ended it, and it was removed
			return nil
		}
		if err == nil && !rec.State.Ended() {
			found.Stuck = append(found.Stuck, infoOf(rec))
		}
		return err
	}
	found.Running++
	_, err := r.launch(rec)
	return err
}

func (r *Runner) kind(name string) *kind {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kinds[name]
}

// start begins a saga, or goes on with the one that there is.
func (r *Runner) start(ctx context.Context, k *kind, id string, data []byte) (*active, error) {
	if r.ctx.Err() != nil {
		return nil, ErrClosed
	}
	now := r.nowMS()
	deadline := int64(0)
	if k.deadline > 0 {
		deadline = now + max(k.deadline.Milliseconds(), 1)
	}
	rec := Begin(id, k.name, k.plan, data, r.owner, now, deadline)
	rec.Forget = k.forget != nil
	rec, err := r.create(ctx, k, rec)
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
		r.told(rec)
	}
	a, _ := r.launch(rec) // whoever is closed by now leaves it to the one who resumes it: it has begun
	return a, nil
}

// create stores the first record. If the first step is atomic it is done with it, which
// saves a commit; should that fail, nothing has happened, and it is a step like others.
func (r *Runner) create(ctx context.Context, k *kind, rec Record) (Record, error) {
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

func (r *Runner) told(rec Record) {
	if r.opts.OnChange != nil {
		r.opts.OnChange(infoOf(rec))
	}
}

// launch has a saga carried out, unless it is already.
func (r *Runner) launch(rec Record) (*active, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	if a := r.active[rec.ID]; a != nil {
		a.look() // it may be about to end, and not know of this record
		return a, nil
	}
	a := &active{r: r, k: r.kinds[rec.Definition], wake: make(chan struct{}, 1), done: make(chan struct{})}
	r.active[rec.ID] = a
	r.wg.Go(func() {
		defer close(a.done)
		for a.last = a.run(rec); !r.release(a); {
			// Somebody has counted on this goroutine meanwhile.
			var err error
			if rec, err = a.load(a.last); err != nil {
				continue
			}
			if a.last = rec; !rec.rests() {
				a.last = a.run(rec)
			}
		}
	})
	return a, nil
}

// release ends the work on a saga, unless somebody has asked to look at it again.
func (r *Runner) release(a *active) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-a.wake:
		if !r.closed && !plant.Bug("saga-wake-lost") {
			return false
		}
	default:
	}
	delete(r.active, a.last.ID)
	return true
}

// wait returns the record of a saga that has ended or is stuck.
func (r *Runner) wait(ctx context.Context, id string) (Record, error) {
	const shortest, longest = 10 * time.Millisecond, time.Second
	for nap := shortest; ; nap = min(2*nap, longest) {
		r.mu.Lock()
		a := r.active[id]
		r.mu.Unlock()
		if a == nil { // it has ended, or somebody else has it
			rec, err := r.journal.Load(ctx, id)
			if err != nil || rec.rests() {
				return rec, err
			}
			if err := r.sleep(ctx, nap); err != nil {
				return rec, err
			}
			continue
		}
		select {
		case <-a.done:
			if a.last.rests() {
				return a.last, nil
			}
		case <-ctx.Done():
			return Record{}, ctx.Err()
		}
	}
}

// sleep waits for a while, unless ctx or the runner ends.
func (r *Runner) sleep(ctx context.Context, d time.Duration) error {
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
