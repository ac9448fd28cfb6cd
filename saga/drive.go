package saga

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/plant"
)

// active is a saga that a runner is at work on: one goroutine, so no two calls of its
// steps are made at once.
type active struct {
	r    *Runner
	k    *kind
	wake chan struct{} // the journal has something new about it
	done chan struct{} // closed when the goroutine ends, and last is set
	last Record

	mu   sync.Mutex
	stop context.CancelFunc // ends the Do that is being carried out, or nil
}

// interrupt makes the goroutine look at the journal, and not wait for a Do to end by
// itself.
func (a *active) interrupt() {
	a.look()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stop != nil {
		a.stop()
	}
}

// look makes the goroutine look at the journal before it goes on, or ends.
func (a *active) look() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// errLeft means that the saga is not this runner's any more, or the runner is closed.
var errLeft = errors.New("saga: left")

// run goes on with a saga as far as it can, and returns the last record that it saw.
func (a *active) run(rec Record) Record {
	if rec.Owner != a.r.owner || rec.Stuck == StuckCode {
		var err error
		if rec, err = a.apply(rec, Event{Kind: Took, Owner: a.r.owner}); err != nil {
			return rec
		}
	}
	if why := a.k.lacks(&rec); why != "" {
		rec, _ = a.apply(rec, Event{Kind: Blocked, Why: why})
		return rec
	}
	for !rec.rests() {
		var err error
		if rec, err = a.turn(rec); err != nil {
			return rec
		}
	}
	return rec
}

// turn does the one thing that is wanted next.
func (a *active) turn(rec Record) (Record, error) {
	if a.r.ctx.Err() != nil {
		return rec, errLeft
	}
	now := a.r.nowMS()
	w := Wanted(rec, now)
	switch w.Kind {
	case Wait:
		return a.nap(rec, time.Duration(w.UntilMS-now)*time.Millisecond)
	case Turn:
		return a.apply(rec, Event{Kind: TurnedRound})
	case Do, Undo:
		select {
		case a.r.turns <- struct{}{}:
			defer func() { <-a.r.turns }()
		case <-a.r.ctx.Done():
			return rec, errLeft
		}
		select {
		case <-a.wake:
			return a.reload(rec)
		default:
			return a.call(rec, w.Kind == Undo)
		}
	}
	return rec, nil
}

// longestNap bounds a wait, so that a clock that is set is noticed.
const longestNap = time.Minute

// nap waits, and looks at the journal again if somebody says that it has changed.
func (a *active) nap(rec Record, d time.Duration) (Record, error) {
	timer := time.NewTimer(min(d, longestNap))
	defer timer.Stop()
	select {
	case <-timer.C:
		return rec, nil
	case <-a.wake:
		return a.reload(rec)
	case <-a.r.ctx.Done():
		return rec, errLeft
	}
}

// call carries out a Do or Undo and writes down what came of it.
func (a *active) call(rec Record, undo bool) (Record, error) {
	s := a.k.steps[rec.step()]
	ctx, stop := a.callContext(&rec, s, undo)
	defer stop()
	e := Event{Step: rec.At, Retry: s.retry}
	var err error
	if s.planned.Atomic {
		var next Record
		next, err = a.callTogether(ctx, rec, s, undo)
		if err == nil {
			a.r.told(next)
			return next, nil
		}
	} else {
		f := s.do
		if undo {
			f = s.undo
		}
		e.Data, err = f(ctx, callOf(&rec, undo), rec.Data)
	}
	if err != nil && a.r.ctx.Err() != nil {
		return rec, errLeft // it says nothing about the step
	}
	e.Kind = outcome(undo, err)
	if err != nil {
		e.Why = err.Error()
	}
	if errors.Is(err, ErrConflict) && s.planned.Atomic { // somebody else has written, so nothing happened
		return a.reload(rec)
	}
	return a.apply(rec, e)
}

// outcome is what an error of a call means.
func outcome(undo bool, err error) EventKind {
	switch {
	case err == nil && undo:
		return Undid
	case err == nil:
		return Did
	case undo && IsPermanent(err):
		return UndoRefused
	case undo:
		return UndoFailed
	case IsPermanent(err):
		return DoRefused
	}
	return DoFailed
}

// callContext is that of a call: it ends with the runner, after the step's time, and if
// it is a Do at the saga's deadline and when the saga is cancelled.
func (a *active) callContext(rec *Record, s *bound, undo bool) (context.Context, context.CancelFunc) {
	limit := s.timeout
	if rec.DeadlineMS != 0 && !undo {
		left := max(time.Duration(rec.DeadlineMS-a.r.nowMS())*time.Millisecond, time.Millisecond)
		if limit == 0 || left < limit {
			limit = left
		}
	}
	var ctx context.Context
	var end context.CancelFunc
	if limit > 0 {
		ctx, end = context.WithTimeout(a.r.ctx, limit)
	} else {
		ctx, end = context.WithCancel(a.r.ctx)
	}
	if undo {
		return ctx, end
	}
	a.letStop(end)
	return ctx, func() { a.letStop(nil); end() }
}

func (a *active) letStop(stop context.CancelFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stop = stop
}

// callTogether carries out a call and its record as one.
func (a *active) callTogether(ctx context.Context, rec Record, s *bound, undo bool) (next Record, err error) {
	f, kind := s.doTx, Did
	if undo {
		f, kind = s.undoTx, Undid
	}
	err = a.r.journal.(Together).SaveWith(ctx, rec, func(tx any) (Record, error) {
		data, err := f(tx, rec.Data)
		if err != nil {
			return Record{}, err
		}
		next, err = Next(rec, Event{Kind: kind, Step: rec.At, Data: data, NowMS: a.r.nowMS()})
		return next, err
	})
	return next, err
}

// apply writes down what happened. If the journal has another record by then, it is
// applied to that one: a saga that was cancelled while a Do was carried out must know
// what there is to undo.
func (a *active) apply(rec Record, e Event) (Record, error) {
	for n := 1; ; n++ {
		e.NowMS, e.Random = a.r.nowMS(), a.r.opts.Random()
		next, err := Next(rec, e)
		if err != nil {
			return rec, nil // it went on without this: what was written before did happen
		}
		if plant.Bug("saga-effect-before-journal") && e.Kind == Did && next.State == Running {
			next.Revision = rec.Revision
			return next, nil
		}
		err = a.save(next)
		if err == nil {
			a.r.told(next)
			return next, nil
		}
		// Another one is there, or nobody knows whether it was written: look.
		if !errors.Is(err, ErrConflict) && a.r.sleep(a.r.ctx, patience.delay(n, e.Random)) != nil {
			return rec, errLeft
		}
		if rec, err = a.load(rec); err != nil {
			return rec, err
		}
		if rec.Owner != a.r.owner && e.Kind != Took && !plant.Bug("saga-owner-ignored") {
			return rec, errLeft
		}
	}
}

// patience is how a journal that fails is tried again.
var patience = Retry{First: 5 * time.Millisecond, Max: 5 * time.Second}

// save saves a record, also while the runner is being closed: what a step did is known
// now, and would have to be asked for later.
func (a *active) save(rec Record) error {
	const longest = 5 * time.Second
	ctx := a.r.ctx
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), longest)
		defer cancel()
	}
	return a.r.journal.Save(ctx, rec)
}

// reload looks at the journal again.
func (a *active) reload(rec Record) (Record, error) {
	rec, err := a.load(rec)
	if err == nil && rec.Owner != a.r.owner {
		err = errLeft
	}
	return rec, err
}

// load reads the record until that succeeds: the journal's troubles are not the saga's.
func (a *active) load(old Record) (Record, error) {
	for n := 1; ; n++ {
		rec, err := a.r.journal.Load(a.r.ctx, old.ID)
		switch {
		case err == nil:
			return rec, nil
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrFormat):
			return old, errLeft
		}
		if a.r.sleep(a.r.ctx, patience.delay(n, a.r.opts.Random())) != nil {
			return old, errLeft
		}
	}
}

// change applies an event to a record of the journal that may be in other hands.
func (r *Runner) change(ctx context.Context, rec Record, e func(Record) (Event, bool)) (Record, error) {
	for {
		event, ok := e(rec)
		if !ok {
			return rec, nil
		}
		next, err := Next(rec, event)
		if err != nil {
			return rec, fmt.Errorf("saga %s %q: %w", rec.Definition, rec.ID, err)
		}
		err = r.journal.Save(ctx, next)
		if err == nil {
			r.told(next)
			return next, nil
		}
		if !errors.Is(err, ErrConflict) {
			return rec, err
		}
		if rec, err = r.journal.Load(ctx, rec.ID); err != nil {
			return rec, err
		}
	}
}
