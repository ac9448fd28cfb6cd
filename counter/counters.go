package counter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/sums"
)

// Counters are the split counters of a keyspace. Its methods may be called by any
// goroutine. Several Counters of one keyspace agree with each other: what they keep
// in memory is only where to try first.
type Counters struct {
	db     *cleave.DB
	space  *cleave.Keyspace
	layout layout
	opts   Options

	mu    sync.RWMutex
	known map[string]*state

	cancel context.CancelFunc
	done   chan struct{}
}

// state is what is known about a counter that is in use.
type state struct {
	name string
	// view may be old: the rows decide.
	view atomic.Pointer[view]
	// adds and waited are the load since the last look.
	adds, waited atomic.Int64
	used         atomic.Bool // since the last look
	cached       cached
	// Of the one who looks: when nobody used it for a while it is forgotten.
	sizer sums.Sizer
	idle  int
}

// view is a manifest that was read.
type view struct {
	version uint64 // of its row, 0 if absent
	keys    [][]byte
}

// New returns the counters of a keyspace of a store. Close it before the store.
func New(db *cleave.DB, ks *cleave.Keyspace, o Options) (*Counters, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if ks.DB() != db {
		return nil, fmt.Errorf("%w: counter: keyspace %s is of another DB: use one of this", cleave.ErrOptions, ks.Name())
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Counters{db: db, space: ks, layout: newLayout(ks), opts: o, known: map[string]*state{}, cancel: cancel, done: make(chan struct{})}
	go c.watch(ctx)
	return c, nil
}

// Close ends the watching, and waits for a resize that is under way. Counters that
// are split stay so.
func (c *Counters) Close() error {
	c.cancel()
	<-c.done
	return nil
}

// of returns what is known about a counter.
func (c *Counters) of(ctx context.Context, name string) (*state, error) {
	c.mu.RLock()
	s := c.known[name]
	c.mu.RUnlock()
	if s == nil {
		if err := check(name); err != nil {
			return nil, err
		}
		s = &state{name: name, cached: cached{turn: make(chan struct{}, 1)}}
		if _, err := c.refresh(ctx, s); err != nil {
			return nil, err
		}
		s = c.keep(s)
	}
	if !s.used.Load() { // a shared cache line is written to once
		s.used.Store(true)
	}
	return s, nil
}

// keep remembers the state of a counter, if there is room.
func (c *Counters) keep(s *state) *state {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.known[s.name]; other != nil {
		return other
	}
	if len(c.known) < c.opts.Watched {
		c.known[s.name] = s
	}
	return s
}

// refresh reads the manifest.
func (c *Counters) refresh(ctx context.Context, s *state) (*view, error) {
	item, err := c.space.Item(ctx, c.layout.manifest(s.name))
	if err != nil && !errors.Is(err, cleave.ErrNotFound) {
		return nil, err
	}
	parts, err := c.parseManifest(s.name, item.Value)
	if err != nil {
		return nil, err
	}
	v := &view{item.Version, c.layout.parts(s.name, parts)}
	s.view.Store(v)
	return v, nil
}

// watch looks at the counters that are in use, window by window.
func (c *Counters) watch(ctx context.Context) {
	defer close(c.done)
	tick := time.NewTicker(c.opts.Window)
	defer tick.Stop()
	last := c.opts.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			now := c.opts.Now()
			c.look(ctx, now.Sub(last))
			last = now
		}
	}
}

// idleWindows is after how many windows a counter that nobody used is forgotten.
const idleWindows = 40

// look decides about all counters that are in use.
func (c *Counters) look(ctx context.Context, window time.Duration) {
	c.mu.RLock()
	list := make([]*state, 0, len(c.known))
	for _, s := range c.known {
		list = append(list, s)
	}
	c.mu.RUnlock()
	for _, s := range list {
		load := sums.Load{Window: window, Adds: s.adds.Swap(0), Waited: time.Duration(s.waited.Swap(0))}
		parts := len(s.view.Load().keys)
		if s.idle++; s.used.Swap(false) {
			s.idle = 0
		}
		if s.idle > idleWindows && parts == 1 {
			c.mu.Lock()
			delete(c.known, s.name)
			c.mu.Unlock()
			continue
		}
		if to := s.sizer.Step(parts, c.opts.Max, load); to != parts {
			err := c.Resize(ctx, s.name, to)
			if ctx.Err() != nil {
				return
			}
			c.opts.Resized(s.name, parts, to, err)
		}
	}
}
