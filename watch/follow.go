package watch

import (
	"context"
	"errors"
	"iter"

	"github.com/cleavekv/cleave"
)

// Follow tells what there is, and then what changes, with nothing missing in between: a
// Reset, all rows, Synced, changes. A hash is told as Created, and then its fields.
//
// If the feed no longer reaches back to where it is, because it was too slow or was away
// too long, it begins anew: a Reset, all rows, Synced. So who empties its copy at a Reset
// and applies all the rest has a copy that is right. With Options.From it begins with the
// changes behind that place, unless it has to begin anew.
//
// While rows are told the copy is what their keys are at one moment, a later one with
// each page of rows, and has no other keys. Nothing is held up or kept open while the
// loop does its work. It ends with an error: that of ctx, or of the store.
func (h *Hub) Follow(ctx context.Context, t Target, o Options) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f := follower{hub: h, ctx: ctx, opts: o, yield: yield}
		var err error
		if f.target, err = t.check(h.db); err != nil {
			yield(Event{}, err)
			return
		}
		f.opts.patient = true
		for at := o.From; ; at = "" {
			err := f.run(at)
			switch {
			case errors.Is(err, cleave.ErrGone):
				continue
			case !errors.Is(err, errStopped):
				yield(Event{}, err)
			}
			return
		}
	}
}

// errStopped means that the loop has ended.
var errStopped = errors.New("watch: the loop has ended")

// follower is one call of Follow.
type follower struct {
	hub    *Hub
	ctx    context.Context
	target Target // in its plain form
	opts   Options
	yield  func(Event, error) bool
}

func (f *follower) tell(e Event) error {
	if !f.yield(e, nil) {
		return errStopped
	}
	return nil
}

// run tells the rows, unless it can go on from a place, and then changes.
func (f *follower) run(at cleave.Cursor) (err error) {
	if at == "" {
		if at, err = f.rows(); err != nil {
			return err
		}
	}
	o := f.opts
	o.From = at
	w, err := f.hub.Watch(f.target, o)
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		e, err := w.Next(f.ctx)
		if err == nil {
			err = f.tell(e)
		}
		if err != nil {
			return err
		}
	}
}
