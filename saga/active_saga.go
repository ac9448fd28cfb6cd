package saga

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// activeSaga is a saga that a runner is at work on: one goroutine, so no two calls of its
// steps are made at once.
type activeSaga struct {
	runner     *Runner
	definition *untypedDefinition
	wakeup     chan struct{} // the journal has something new about it
	done       chan struct{} // closed when the goroutine ends, and last is set
	lastRecord Record

	mu       sync.Mutex
	cancelDo context.CancelFunc // ends the Do that is being carried out, or nil
}

// interruptDo makes the goroutine look at the journal, and not wait for a Do to end by
// itself.
func (a *activeSaga) interruptDo() {
	a.requestReload()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cancelDo != nil {
		a.cancelDo()
	}
}

// requestReload makes the goroutine look at the journal before it goes on, or ends.
func (a *activeSaga) requestReload() {
	select {
	case a.wakeup <- struct{}{}:
	default:
	}
}

// errReleased means that the saga is not this runner's any more, or the runner is closed.
var errReleased = errors.New("saga: left")

// run goes on with a saga as far as it can, and returns the last record that it saw.
func (a *activeSaga) run(rec Record) Record {
	if rec.Owner != a.runner.owner || rec.Stuck == StuckCode {
		var err error
		if rec, err = a.applyEvent(rec, Event{Kind: Took, Owner: a.runner.owner}); err != nil {
			return rec
		}
	}
	if why := a.definition.missingCode(&rec); why != "" {
		rec, _ = a.applyEvent(rec, Event{Kind: Blocked, Why: why})
		return rec
	}
	for !rec.AtRest() {
		var err error
		if rec, err = a.driveOnce(rec); err != nil {
			return rec
		}
	}
	return rec
}

// driveOnce does the one thing that is wanted next.
func (a *activeSaga) driveOnce(rec Record) (Record, error) {
	if a.runner.ctx.Err() != nil {
		return rec, errReleased
	}
	now := a.runner.nowMS()
	w := Wanted(rec, now)
	switch w.Kind {
	case Wait:
		return a.waitUntilDue(rec, time.Duration(w.UntilMS-now)*time.Millisecond)
	case Turn:
		return a.applyEvent(rec, Event{Kind: TurnedRound})
	case Do, Undo:
		select {
		case a.runner.callSlots <- struct{}{}:
			defer func() { <-a.runner.callSlots }()
		case <-a.runner.ctx.Done():
			return rec, errReleased
		}
		select {
		case <-a.wakeup:
			return a.reloadOwned(rec)
		default:
			return a.callStep(rec, w.Kind == Undo)
		}
	}
	return rec, nil
}

// maxWait bounds a wait, so that a clock that is set is noticed.
const maxWait = time.Minute

// waitUntilDue waits, and looks at the journal again on a notification that it has changed.
func (a *activeSaga) waitUntilDue(rec Record, d time.Duration) (Record, error) {
	timer := time.NewTimer(min(d, maxWait))
	defer timer.Stop()
	select {
	case <-timer.C:
		return rec, nil
	case <-a.wakeup:
		return a.reloadOwned(rec)
	case <-a.runner.ctx.Done():
		return rec, errReleased
	}
}

// callStep carries out a Do or Undo and writes down what came of it.
func (a *activeSaga) callStep(rec Record, undo bool) (Record, error) {
	s := a.definition.steps[rec.StepName()]
	ctx, stop := a.newCallContext(&rec, s, undo)
	defer stop()
	e := Event{Step: rec.At, Retry: s.retry}
	var err error
	if s.planned.Atomic {
		var next Record
		next, err = a.callInTxn(ctx, rec, s, undo)
		if err == nil {
			a.runner.reportChange(next)
			return next, nil
		}
	} else {
		f := s.do
		if undo {
			f = s.undo
		}
		e.Data, err = f(ctx, newCall(&rec, undo), rec.Data)
	}
	if err != nil && a.runner.ctx.Err() != nil {
		return rec, errReleased // it says nothing about the step
	}
	e.Kind = toEventKind(undo, err)
	if err != nil {
		e.Why = err.Error()
	}
	if errors.Is(err, ErrConflict) && s.planned.Atomic { // another runner has written, so nothing happened
		return a.reloadOwned(rec)
	}
	return a.applyEvent(rec, e)
}

// toEventKind is what an error of a call means.
func toEventKind(undo bool, err error) EventKind {
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

// newCallContext is that of a call: it ends with the runner, after the step's time, and if
// it is a Do at the saga's deadline and when the saga is cancelled.
func (a *activeSaga) newCallContext(rec *Record, s *untypedStep, undo bool) (context.Context, context.CancelFunc) {
	limit := s.timeout
	if rec.DeadlineMS != 0 && !undo {
		left := max(time.Duration(rec.DeadlineMS-a.runner.nowMS())*time.Millisecond, time.Millisecond)
		if limit == 0 || left < limit {
			limit = left
		}
	}
	var ctx context.Context
	var end context.CancelFunc
	if limit > 0 {
		ctx, end = context.WithTimeout(a.runner.ctx, limit)
	} else {
		ctx, end = context.WithCancel(a.runner.ctx)
	}
	if undo {
		return ctx, end
	}
	a.setCancelDo(end)
	return ctx, func() { a.setCancelDo(nil); end() }
}

func (a *activeSaga) setCancelDo(stop context.CancelFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cancelDo = stop
}

// callInTxn carries out a call and its record as one.
func (a *activeSaga) callInTxn(ctx context.Context, rec Record, s *untypedStep, undo bool) (next Record, err error) {
	f, kind := s.doTx, Did
	if undo {
		f, kind = s.undoTx, Undid
	}
	err = a.runner.journal.(Together).SaveWith(ctx, rec, func(tx any) (Record, error) {
		data, err := f(tx, rec.Data)
		if err != nil {
			return Record{}, err
		}
		next, err = Next(rec, Event{Kind: kind, Step: rec.At, Data: data, NowMS: a.runner.nowMS()})
		return next, err
	})
	return next, err
}

// applyEvent writes down what happened. If the journal has another record by then, it is
// applied to that one: a saga that was cancelled while a Do was carried out must know
// what there is to undo.
func (a *activeSaga) applyEvent(rec Record, e Event) (Record, error) {
	for n := 1; ; n++ {
		e.NowMS, e.Random = a.runner.nowMS(), a.runner.opts.Random()
		next, err := Next(rec, e)
		if err != nil {
			return rec, nil // it went on without this: what was written before did happen
		}
		err = a.saveRecord(next)
		if err == nil {
			a.runner.reportChange(next)
			return next, nil
		}
		// A record exists already, or it is unknown whether ours was written: look.
		if !errors.Is(err, ErrConflict) && a.runner.sleepContext(a.runner.ctx, journalRetry.WaitAfter(n, e.Random)) != nil {
			return rec, errReleased
		}
		if rec, err = a.loadRecord(rec); err != nil {
			return rec, err
		}
		if rec.Owner != a.runner.owner && e.Kind != Took {
			return rec, errReleased
		}
	}
}

// journalRetry is how a journal that fails is tried again.
var journalRetry = Retry{First: 5 * time.Millisecond, Max: 5 * time.Second}

// saveRecord saves a record, also while the runner is being closed: what a step did is known
// now, and would have to be asked for later.
func (a *activeSaga) saveRecord(rec Record) error {
	const longest = 5 * time.Second
	ctx := a.runner.ctx
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), longest)
		defer cancel()
	}
	return a.runner.journal.Save(ctx, rec)
}

// reloadOwned looks at the journal again.
func (a *activeSaga) reloadOwned(rec Record) (Record, error) {
	rec, err := a.loadRecord(rec)
	if err == nil && rec.Owner != a.runner.owner {
		err = errReleased
	}
	return rec, err
}

// loadRecord reads the record until that succeeds: the journal's troubles are not the saga's.
func (a *activeSaga) loadRecord(old Record) (Record, error) {
	for n := 1; ; n++ {
		rec, err := a.runner.journal.Load(a.runner.ctx, old.ID)
		switch {
		case err == nil:
			return rec, nil
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrFormat):
			return old, errReleased
		}
		if a.runner.sleepContext(a.runner.ctx, journalRetry.WaitAfter(n, a.runner.opts.Random())) != nil {
			return old, errReleased
		}
	}
}

// changeRecord applies an event to a record of the journal that may be in other hands.
func (r *Runner) changeRecord(ctx context.Context, rec Record, e func(Record) (Event, bool)) (Record, error) {
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
			r.reportChange(next)
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
