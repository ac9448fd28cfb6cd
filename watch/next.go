package watch

import (
	"context"
	"iter"

	"github.com/cleavekv/cleave"
)

// Events yields what Next returns, until that is an error.
func (w *Watcher) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			e, err := w.Next(ctx)
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Next returns the next event, and waits for it until ctx ends. After an error of ctx
// it may be called again; others are for ever.
func (w *Watcher) Next(ctx context.Context) (Event, error) {
	for {
		if err := w.check(ctx); err != nil {
			return Event{}, err
		}
		if len(w.out) > 0 {
			e := w.out[0]
			w.out, w.cursor = w.out[1:], e.After
			return e, nil
		}
		if w.own != nil {
			w.readOn(ctx)
			continue
		}
		if w.take() {
			continue
		}
		select {
		case <-ctx.Done():
		case <-w.target.Keyspace.Dropped():
		case <-w.signal:
		}
	}
}

// check returns why there is no event to come.
func (w *Watcher) check(ctx context.Context) error {
	select {
	case <-w.target.Keyspace.Dropped():
		if w.dead == nil {
			w.leave()
			w.dead = dropped(w.target.Keyspace)
		}
	default:
	}
	if w.dead != nil {
		return w.dead
	}
	return ctx.Err()
}

// leave ends what the watcher reads by itself.
func (w *Watcher) leave() {
	if w.own != nil {
		w.own.stop()
		w.own = nil
	}
}

// readOn takes some of what the watcher reads by itself. At its end it goes on with what
// the hub has offered meanwhile; if that was too much to be kept, it reads on.
func (w *Watcher) readOn(ctx context.Context) {
	if w.own.read(ctx, &w.opts) != nil {
		if w.own.err != nil {
			w.dead = w.own.err
			w.leave()
		}
		return
	}
	if w.own.queue.len() > 0 {
		w.out = w.own.queue.pop(w.out[:0], w.cursor, w.own.at)
		return
	}
	w.leave()
	w.cursor = w.joined
	w.mu.Lock()
	again := w.lost && !w.readsOn() // else what waits comes first
	w.mu.Unlock()
	if again {
		w.rejoin()
	}
}

// take takes what the hub has offered, and tells whether there was something.
func (w *Watcher) take() bool {
	place := *w.hub.place.Load() // first: what is before it was offered
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.queue.len() > 0:
		behind := w.rest
		if behind == "" {
			behind = w.reached(place)
		}
		w.out = w.queue.pop(w.out[:0], w.cursor, behind)
	case w.lost && w.readsOn():
		w.mu.Unlock()
		w.rejoin()
		w.mu.Lock()
	case w.lost:
		// What is offered from now on comes behind place.
		w.lost = false
		w.out = append(w.out[:0], Event{Kind: Lost, After: w.reached(place)})
	case w.err != nil:
		w.dead = w.err
	default:
		return false
	}
	return true
}

// rejoin begins to read from the log what the hub could not keep.
func (w *Watcher) rejoin() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.join(w.hub)
}

// Cursor returns a place in the feed: all before it was told. It goes on also while
// nothing changes that is watched, as the place of the last event does not: keep it now
// and then, so that the feed reaches back to it.
func (w *Watcher) Cursor() cleave.Cursor {
	if len(w.out) > 0 || w.own != nil || w.dead != nil {
		return w.cursor
	}
	place := *w.hub.place.Load() // first: what is before it was offered
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue.len() == 0 && !w.lost && w.err == nil {
		w.cursor = w.behind(place)
	}
	return w.cursor
}

// reached is behind, also when no more is offered.
func (w *Watcher) reached(place cleave.Cursor) cleave.Cursor {
	if w.err != nil {
		return w.ended
	}
	return w.behind(place)
}

// behind returns the place behind all that was offered, if all before place was.
func (w *Watcher) behind(place cleave.Cursor) cleave.Cursor {
	if w.skip == "" {
		return place
	}
	if !place.Covers(w.skip) {
		return w.skip.Join(place)
	}
	w.skip = ""
	return place
}
