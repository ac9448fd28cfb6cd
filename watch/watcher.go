package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/patterns/watchbuffer"
	"github.com/cleavekv/cleave/key"
)

// Options select what a watcher receives. The zero value works.
type Options struct {
	// From is where to go on from: the After of an event. Empty means now. If the feed
	// does not reach back that far, Next returns cleave.ErrGone: read the data, and watch
	// from a place that is not behind it, that of the [cleave.Txn] that has read; or
	// leave it to Follow.
	From cleave.Cursor
	// Every delivers each change. Otherwise a key that has changed several times before
	// the watcher came to it is delivered once, as it is then.
	Every bool
	// KeysOnly leaves out values, and fields: a hash that has changed is reported as a key.
	KeysOnly bool
	// Buffer is how many keys, or changes with Every, wait for the watcher. Default 1024.
	// At least 1. Beyond it the watcher gets Lost for some; with Every it
	// reads them from the log by itself, as far as that reaches back.
	Buffer int
	// BufferBytes bounds the bytes of them, unless one alone is larger; with Every the last
	// that is let in may pass it. Default 1 MiB. At least 1 KiB.
	BufferBytes int

	// readsOverflow reads what does not fit from the log, without Every too.
	readsOverflow bool
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

// Watcher receives changes. It belongs to one goroutine at a time.
type Watcher struct {
	hub    *Hub
	target Target
	opts   Options
	number uint64
	wakeup chan struct{} // has an element if there may be something new

	taken     []Event       // taken and not yet delivered
	cursor    cleave.Cursor // all before it was delivered
	logReader *logReader    // nil if there is nothing to read but what the hub offers
	knownTo   cleave.Cursor // all before it is known when own is done
	finalErr  error         // why there is no more

	mu    sync.Mutex // of what the hub changes too
	queue eventQueue
	// skipTo, if not empty, is a place up to which the watcher knows everything, and
	// that the hub may not have come to yet.
	skipTo cleave.Cursor
	lost   bool // there was no room for what came
	// resumeAt is where to go on from in the log when the queue is empty. Invariant: it is not
	// empty iff lost and readsOverflow.
	resumeAt    cleave.Cursor
	lastOffered cleave.Cursor // behind the change that was offered last
	// err is why there will be no more, and ended the place before which all was offered by
	// then. The hub goes on behind a gap, with the reader that others begin.
	err       error
	endCursor cleave.Cursor
}

// readsOverflow reports whether the watcher reads from the log what there was no room for, instead
// of getting Lost for it.
func (w *Watcher) readsOverflow() bool { return w.opts.Every || w.opts.readsOverflow }

// Watch begins to watch: what is committed after it has returned is delivered. Close the
// watcher.
func (h *Hub) Watch(t Target, o Options) (*Watcher, error) {
	t, err1 := t.checkAndNormalize(h.db)
	o, err2 := o.withDefaults()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	select {
	case <-t.Keyspace.Dropped():
		return nil, droppedError(t.Keyspace)
	default:
	}
	q := eventQueue{every: o.Every, keysOnly: o.KeysOnly, maxLen: o.Buffer, maxBytes: o.BufferBytes}
	w := &Watcher{hub: h, target: t, opts: o, cursor: o.From, wakeup: make(chan struct{}, 1), queue: q}
	h.register(w)
	return w, nil
}

func droppedError(k *cleave.Keyspace) error {
	return fmt.Errorf("%w: %q was dropped", cleave.ErrNoKeyspace, k.Name())
}

// joinHub lets the watcher go on from its cursor: what is before the place of the hub it
// reads by itself, what is behind it the hub offers. The caller holds the lock of the hub.
func (w *Watcher) joinHub(h *Hub) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue.clear()
	if w.resumeAt != "" {
		w.cursor = w.resumeAt // it has received all before it, and events may not have shown that
	}
	w.lost, w.resumeAt, w.skipTo = false, "", ""
	if w.cursor == "" {
		w.cursor = h.feed.Head()
	}
	place := *h.deliveredTo.Load()
	known, skip, own := watchbuffer.PlanJoin(w.cursor, place)
	if w.knownTo = known; skip {
		w.skipTo = known
	}
	if own {
		w.logReader = newLogReader(h.feed, &w.target, w.queue, w.cursor, place)
	}
}

// offerChange adds a change to what waits. The hub calls it.
func (w *Watcher) offerChange(c *cleave.Change, op *cleave.ChangeOp, before cleave.Cursor) {
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
	if w.skipTo != "" {
		if c.Before(w.skipTo) {
			return
		}
		before = before.Join(w.skipTo)
	}
	// Of one change all is let in: the log is gone on with from one change to the next.
	if w.readsOverflow() && w.lastOffered != c.After && !w.queue.hasRoom(op.Key) {
		w.lost, w.resumeAt = true, before
		w.wake()
		return
	}
	w.lastOffered = c.After
	if !w.queue.push(op, before) && !w.readsOverflow() {
		w.queue.clear()
		w.lost = true
	}
	w.wake()
}

func (w *Watcher) wake() {
	select {
	case w.wakeup <- struct{}{}:
	default:
	}
}

// markLost notes that the hub has missed changes behind its place.
func (w *Watcher) markLost(place cleave.Cursor) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		return
	case !w.readsOverflow():
		w.queue.clear()
	case !w.lost:
		w.resumeAt = w.offeredTo(place)
	}
	w.lost = true
	w.wake()
}

// markEnded notes why there will be no more behind a place of the hub.
func (w *Watcher) markEnded(err error, place cleave.Cursor) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return // ended belongs to it
	}
	w.err, w.endCursor = err, w.offeredTo(place)
	w.wake()
}

// Close ends the watcher: nothing is kept for it any more.
func (w *Watcher) Close() {
	if errors.Is(w.finalErr, ErrClosed) {
		return
	}
	w.stopLogReader()
	w.taken, w.finalErr = nil, ErrClosed
	w.hub.unregister(w)
}

// Target is what is watched: some keys, a range of them, or all of a keyspace.
type Target struct {
	// Keyspace is any but that of the entries of an index, which follow from its rows.
	Keyspace *cleave.Keyspace
	// Keys are watched one by one. They exclude the rest.
	Keys [][]byte
	// Prefix is short for the keys that begin with it, and excludes Start and End.
	Prefix []byte
	// Start and End bound the keys, End not included; nil for no bound. They, and
	// Prefix, go by the bytes of keys in a keyspace of kind Hash too; but to send the
	// rows of one, Follow has to read all of it.
	Start, End []byte
}

// checkAndNormalize returns the target in its plain form: Keys sorted, or Start and End.
func (t Target) checkAndNormalize(db *cleave.DB) (Target, error) {
	bad := func(format string, args ...any) (Target, error) {
		return Target{}, fmt.Errorf("%w: %s", cleave.ErrOptions, fmt.Sprintf(format, args...))
	}
	plain := Target{Keyspace: t.Keyspace}
	bounds := t.Start != nil || t.End != nil
	switch {
	case t.Keyspace == nil:
		return bad("a Target needs a Keyspace")
	case t.Keyspace.DB() != db:
		return bad("keyspace %s is of another DB than the hub", t.Keyspace.Name())
	case strings.HasPrefix(t.Keyspace.Name(), "index/"):
		return bad("keyspace %s has the entries of an index, which the feed leaves out: watch the rows", t.Keyspace.Name())
	case t.Keys != nil && (t.Prefix != nil || bounds):
		return bad("a Target has Keys, or a Prefix, or bounds: watch others by themselves")
	case t.Prefix != nil && bounds:
		return bad("a Target has a Prefix or bounds, not both")
	case t.Keys != nil && len(t.Keys) == 0:
		return bad("a Target with no Keys in its list watches nothing: leave Keys out to watch all")
	case t.End != nil && bytes.Compare(t.Start, t.End) >= 0:
		return bad("a Target from %q to %q has no keys", t.Start, t.End)
	case t.Keys != nil:
		for _, key := range t.Keys {
			plain.Keys = append(plain.Keys, bytes.Clone(key))
		}
		slices.SortFunc(plain.Keys, bytes.Compare)
		plain.Keys = slices.CompactFunc(plain.Keys, bytes.Equal)
	case len(t.Prefix) > 0:
		r := key.PrefixRange(t.Prefix)
		plain.Start, plain.End = r.Begin, r.End
	default:
		plain.Start, plain.End = bytes.Clone(t.Start), bytes.Clone(t.End)
	}
	return plain, nil
}

// matchesOp reports whether a plain target has a key of a keyspace.
func (t *Target) matchesOp(op *cleave.ChangeOp) bool {
	return op.Keyspace == t.Keyspace.Name() && t.hasKey(op.Key)
}

func (t *Target) hasKey(key []byte) bool {
	if t.Keys != nil {
		_, ok := slices.BinarySearchFunc(t.Keys, key, bytes.Compare)
		return ok
	}
	return bytes.Compare(key, t.Start) >= 0 && (t.End == nil || bytes.Compare(key, t.End) < 0)
}

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
		if err := w.checkOpen(ctx); err != nil {
			return Event{}, err
		}
		if len(w.taken) > 0 {
			e := w.taken[0]
			w.taken, w.cursor = w.taken[1:], e.After
			return e, nil
		}
		if w.logReader != nil {
			w.readLog(ctx)
			continue
		}
		if w.takeOffered() {
			continue
		}
		select {
		case <-ctx.Done():
		case <-w.target.Keyspace.Dropped():
		case <-w.wakeup:
		}
	}
}

// checkOpen returns why there is no event to come.
func (w *Watcher) checkOpen(ctx context.Context) error {
	select {
	case <-w.target.Keyspace.Dropped():
		if w.finalErr == nil {
			w.stopLogReader()
			w.finalErr = droppedError(w.target.Keyspace)
		}
	default:
	}
	if w.finalErr != nil {
		return w.finalErr
	}
	return ctx.Err()
}

// stopLogReader ends what the watcher reads by itself.
func (w *Watcher) stopLogReader() {
	if w.logReader != nil {
		w.logReader.stop()
		w.logReader = nil
	}
}

// readLog takes some of what the watcher reads by itself. At its end it goes on with what
// the hub has offered meanwhile; if that was too much to be kept, it reads on.
func (w *Watcher) readLog(ctx context.Context) {
	if w.logReader.readBatch(ctx, &w.opts) != nil {
		if w.logReader.err != nil {
			w.finalErr = w.logReader.err
			w.stopLogReader()
		}
		return
	}
	if w.logReader.queue.len() > 0 {
		w.taken = w.logReader.queue.pop(w.taken[:0], w.cursor, w.logReader.cursor)
		return
	}
	w.stopLogReader()
	w.cursor = w.knownTo
	w.mu.Lock()
	again := w.lost && !w.readsOverflow() // else what waits comes first
	w.mu.Unlock()
	if again {
		w.rejoinHub()
	}
}

// takeOffered takes what the hub has offered, and reports whether there was something.
func (w *Watcher) takeOffered() bool {
	place := *w.hub.deliveredTo.Load() // first: what is before it was offered
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.queue.len() > 0:
		behind := w.resumeAt
		if behind == "" {
			behind = w.endOfOffered(place)
		}
		w.taken = w.queue.pop(w.taken[:0], w.cursor, behind)
	case w.lost && w.readsOverflow():
		w.mu.Unlock()
		w.rejoinHub()
		w.mu.Lock()
	case w.lost:
		// What is offered from now on comes behind place.
		w.lost = false
		w.taken = append(w.taken[:0], Event{Kind: Lost, After: w.endOfOffered(place)})
	case w.err != nil:
		w.finalErr = w.err
	default:
		return false
	}
	return true
}

// rejoinHub begins to read from the log what the hub could not keep.
func (w *Watcher) rejoinHub() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.joinHub(w.hub)
}

// Cursor returns a place in the feed: all before it was delivered. It goes on also while
// nothing changes that is watched, as the place of the last event does not: keep it now
// and then, so that the feed reaches back to it.
func (w *Watcher) Cursor() cleave.Cursor {
	if len(w.taken) > 0 || w.logReader != nil || w.finalErr != nil {
		return w.cursor
	}
	place := *w.hub.deliveredTo.Load() // first: what is before it was offered
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue.len() == 0 && !w.lost && w.err == nil {
		w.cursor = w.offeredTo(place)
	}
	return w.cursor
}

// endOfOffered is behind, also when no more is offered.
func (w *Watcher) endOfOffered(place cleave.Cursor) cleave.Cursor {
	if w.err != nil {
		return w.endCursor
	}
	return w.offeredTo(place)
}

// offeredTo returns the place behind all that was offered, if all before place was.
func (w *Watcher) offeredTo(place cleave.Cursor) cleave.Cursor {
	if w.skipTo == "" {
		return place
	}
	if !place.Covers(w.skipTo) {
		return w.skipTo.Join(place)
	}
	w.skipTo = ""
	return place
}

// logReader reads the log for one watcher, up to where the hub takes over. What it reads
// is coalesced like what the hub offers.
type logReader struct {
	target *Target
	next   func() (cleave.Change, error, bool)
	stop   func()
	queue  eventQueue
	cursor cleave.Cursor // all before it was read
	ended  bool
	err    error // why it cannot go on
}

// newLogReader reads from a place to another for a target, into a queue that is empty.
func newLogReader(feed feedSource, t *Target, q eventQueue, from, to cleave.Cursor) *logReader {
	ctx, cancel := context.WithCancel(context.Background())
	next, end := iter.Pull2(feed.Feed(ctx, cleave.FeedOptions{From: from, Until: to}))
	return &logReader{target: t, next: next, queue: q, cursor: from, stop: func() { cancel(); end() }}
}

// readBatch reads until there is something in the queue, and as much as fits into it if it
// may be delivered as one. If the queue is empty then, all was read. After an error of ctx it may
// be called again.
func (r *logReader) readBatch(ctx context.Context, o *Options) error {
	if r.queue.len() > 0 {
		return nil
	}
	for r.err == nil && !r.ended && (r.queue.len() == 0 || !o.Every && r.queue.len() < o.Buffer && r.queue.bytes < o.BufferBytes) {
		if err := ctx.Err(); err != nil {
			return err
		}
		c, err, ok := r.next()
		if r.err, r.ended = err, !ok; err != nil || !ok {
			break
		}
		for i := range c.Ops {
			if r.target.matchesOp(&c.Ops[i]) {
				r.queue.push(&c.Ops[i], r.cursor) // of one change all is let in
			}
		}
		r.cursor = c.After
	}
	return r.err
}
