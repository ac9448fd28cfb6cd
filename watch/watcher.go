package watch

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/waiting"
)

// Options say what a watcher is told. The zero value works.
type Options struct {
	// From is where to go on from: the After of an event. Empty means now. If the feed
	// does not reach back that far, Next returns cleave.ErrGone: read the data, and watch
	// from a place that is not behind it, that of the [cleave.Txn] that has read; or
	// leave it to Follow.
	From cleave.Cursor
	// Every tells each change. Otherwise a key that has changed several times before
	// the watcher came to it is told once, as it is then.
	Every bool
	// KeysOnly leaves out values, and fields: a hash that has changed is told as a key.
	KeysOnly bool
	// Buffer is how many keys, or changes with Every, wait for the watcher. Default 1024.
	// At least 1. Beyond it the watcher is told that it has Lost some; with Every it
	// reads them from the log by itself, as far as that reaches back.
	Buffer int
	// BufferBytes bounds the bytes of them, unless one alone is larger; with Every the last
	// that is let in may pass it. Default 1 MiB. At least 1 KiB.
	BufferBytes int

	// patient reads what does not fit from the log, without Every too.
	patient bool
}

// withDefaults spells the defaults out, and reports every option that is out of its range.
func (o Options) withDefaults() (Options, error) {
	var errs []error
	if o.Buffer == 0 {
		o.Buffer = 1024
	}
	if o.BufferBytes == 0 {
		o.BufferBytes = 1 << 20
	}
	if o.Buffer < 1 {
		errs = append(errs, fmt.Errorf("%w: Buffer is %d: use at least 1", cleave.ErrOptions, o.Buffer))
	}
	if o.BufferBytes < 1<<10 {
		errs = append(errs, fmt.Errorf("%w: BufferBytes is %d: use at least 1024", cleave.ErrOptions, o.BufferBytes))
	}
	return o, errors.Join(errs...)
}

// ErrClosed means that a watcher was closed.
var ErrClosed = errors.New("watch: the watcher is closed")

// Watcher hears of changes. It belongs to one goroutine at a time.
type Watcher struct {
	hub    *Hub
	target Target
	opts   Options
	number uint64
	signal chan struct{} // has an element if there may be something new

	out    []Event       // taken and not yet told
	cursor cleave.Cursor // all before it was told
	own    *ownReader    // nil if there is nothing to read but what the hub offers
	joined cleave.Cursor // all before it is known when own is done
	dead   error         // why there is no more

	mu    sync.Mutex // of what the hub changes too
	queue queue
	// skip, if not empty, is a place up to which the watcher knows everything, and
	// that the hub may not have come to yet.
	skip cleave.Cursor
	lost bool // there was no room for what came
	// rest is where to go on from in the log when the queue is empty. Invariant: it is not
	// empty iff lost and readsOn.
	rest cleave.Cursor
	last cleave.Cursor // behind the change that was offered last
	// err is why there will be no more, and ended the place before which all was offered by
	// then. The hub goes on behind a gap, with the reader that others begin.
	err   error
	ended cleave.Cursor
}

// readsOn tells whether the watcher reads from the log what there was no room for, instead
// of being told that it has Lost it.
func (w *Watcher) readsOn() bool { return w.opts.Every || w.opts.patient }

// Watch begins to watch: what is committed after it has returned is told. Close the
// watcher.
func (h *Hub) Watch(t Target, o Options) (*Watcher, error) {
	t, err1 := t.check(h.db)
	o, err2 := o.withDefaults()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	select {
	case <-t.Keyspace.Dropped():
		return nil, dropped(t.Keyspace)
	default:
	}
	q := queue{every: o.Every, keysOnly: o.KeysOnly, maxLen: o.Buffer, maxBytes: o.BufferBytes}
	w := &Watcher{hub: h, target: t, opts: o, cursor: o.From, signal: make(chan struct{}, 1), queue: q}
	h.register(w)
	return w, nil
}

func dropped(k *cleave.Keyspace) error {
	return fmt.Errorf("%w: %q was dropped", cleave.ErrNoKeyspace, k.Name())
}

// join lets the watcher go on from its cursor: what is before the place of the hub it
// reads by itself, what is behind it the hub offers. The caller holds the lock of the hub.
func (w *Watcher) join(h *Hub) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue.clear()
	if w.rest != "" {
		w.cursor = w.rest // it was told all before it, and events may not have said so
	}
	w.lost, w.rest, w.skip = false, "", ""
	if w.cursor == "" {
		w.cursor = h.feed.Now()
	}
	place := *h.place.Load()
	known, skip, own := waiting.Join(w.cursor, place)
	if w.joined = known; skip {
		w.skip = known
	}
	if own {
		w.own = newOwnReader(h.feed, &w.target, w.queue, w.cursor, place)
	}
}

// offer adds a change to what waits. The hub calls it.
func (w *Watcher) offer(c *cleave.Change, op *cleave.ChangeOp, before cleave.Cursor) {
	select {
	case <-w.target.Keyspace.Dropped():
		return // this is of a later one of the same name
	default:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost || w.err != nil { // see ended
		return
	}
	if w.skip != "" {
		if c.Before(w.skip) {
			return
		}
		before = before.Join(w.skip)
	}
	// Of one change all is let in: the log is gone on with from one change to the next.
	if w.readsOn() && w.last != c.After && !w.queue.room(op.Key) {
		w.lost, w.rest = true, before
		w.wake()
		return
	}
	w.last = c.After
	if !w.queue.push(op, before) && !w.readsOn() {
		w.queue.clear()
		w.lost = true
	}
	w.wake()
}

func (w *Watcher) wake() {
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// lose notes that the hub has missed changes behind its place.
func (w *Watcher) lose(place cleave.Cursor) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		return
	case !w.readsOn():
		w.queue.clear()
	case !w.lost:
		w.rest = w.behind(place)
	}
	w.lost = true
	w.wake()
}

// end notes why there will be no more behind a place of the hub.
func (w *Watcher) end(err error, place cleave.Cursor) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return // ended belongs to it
	}
	w.err, w.ended = err, w.behind(place)
	w.wake()
}

// Close ends the watcher: nothing is kept for it any more.
func (w *Watcher) Close() {
	if errors.Is(w.dead, ErrClosed) {
		return
	}
	w.leave()
	w.out, w.dead = nil, ErrClosed
	w.hub.unregister(w)
}
