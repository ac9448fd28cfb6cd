package watch

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/cleavekv/cleave"
)

// source is what a hub needs of a store.
type source interface {
	Now() cleave.Cursor
	Progress(ctx context.Context, from cleave.Cursor) iter.Seq2[cleave.Change, error]
	FeedUntil(ctx context.Context, from, to cleave.Cursor) iter.Seq2[cleave.Change, error]
}

// Hub reads the feed of a store for all who watch it. Its methods may be called by any
// goroutine. It needs no closing: it reads while there are watchers.
type Hub struct {
	db   *cleave.DB
	feed source

	mu       sync.Mutex
	watchers index
	count    int
	next     uint64             // the number of the next watcher
	stop     context.CancelFunc // ends the reader, nil if there is none
	life     uint64             // of the reader: one that was stopped may not have noticed
	// place is behind all that watchers were told of. It is set after they were, and who
	// reads it looks at it first and at what he was told second.
	place atomic.Pointer[cleave.Cursor]
}

// New returns a hub for a store. One is enough for all of its watchers.
func New(db *cleave.DB) *Hub { return &Hub{db: db, feed: db, watchers: index{}} }

// register adds a watcher.
func (h *Hub) register(w *Watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stop == nil {
		now := h.feed.Now()
		h.place.Store(&now)
		h.life++
		ctx, stop := context.WithCancel(context.Background())
		h.stop = stop
		go h.read(ctx, h.life, now)
	}
	h.next++
	w.number = h.next
	h.watchers.add(w)
	h.count++
	w.join(h)
}

func (h *Hub) unregister(w *Watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers.remove(w)
	if h.count--; h.count == 0 && h.stop != nil {
		h.stop()
		h.stop = nil
	}
}

// read tells watchers what the feed has, until ctx ends or there is no more.
func (h *Hub) read(ctx context.Context, life uint64, from cleave.Cursor) {
	for {
		err := h.follow(ctx, life, from)
		if !errors.Is(err, cleave.ErrGone) || ctx.Err() != nil { // nobody watches, or another reads
			return
		}
		// The log was written faster than it was read, and is gone: all have lost
		// something. It begins anew at the end.
		h.mu.Lock()
		if h.life == life && h.stop != nil {
			from = h.feed.Now()
			h.all(func(w *Watcher) { w.lose(*h.place.Load()) })
			h.place.Store(&from)
		}
		h.mu.Unlock()
	}
}

func (h *Hub) follow(ctx context.Context, life uint64, from cleave.Cursor) error {
	for change, err := range h.feed.Progress(ctx, from) {
		switch {
		case errors.Is(err, cleave.ErrGone):
			return err
		case err != nil:
			h.fail(life, err)
			return err
		case !h.tell(life, &change):
			return nil
		}
	}
	return nil
}

// tell tells watchers of a change, and whether the reader is to go on.
func (h *Hub) tell(life uint64, c *cleave.Change) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life != life || h.stop == nil {
		return false
	}
	before := *h.place.Load()
	for i := range c.Ops {
		op := &c.Ops[i]
		h.watchers.visit(op, func(w *Watcher) { w.offer(c, op, before) })
	}
	h.place.Store(&c.After)
	return true
}

// fail ends the reader and all watchers.
func (h *Hub) fail(life uint64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life != life || h.stop == nil {
		return
	}
	h.stop()
	h.stop = nil
	h.all(func(w *Watcher) { w.end(err, *h.place.Load()) })
}

// all calls f with every watcher. Those of several keys may come several times.
func (h *Hub) all(f func(*Watcher)) {
	for _, s := range h.watchers {
		for _, set := range s.keys {
			for w := range set {
				f(w)
			}
		}
		s.ranges.each(f)
	}
}
