// Package counter answers one question: how do many writers add to one number
// without all of them waiting at one key?
//
//	likes, err := counter.Open(db, db.Default(), counter.Options{})
//	if err != nil { … }
//	defer likes.Close()
//	err = likes.Add(ctx, "post/17", 1)
//	sum, err := likes.Sum(ctx, "post/17")
//
// # Promises
//
//   - An add that was acknowledged is in every sum that is asked for after it, once,
//     also while the counter grows, shrinks or is moved, and after a crash as far as
//     the store's durability goes.
//   - [Counters.Sum] is exact: the state of one moment between call and return, and
//     [Counters.SumTx] is part of a serializable transaction.
//   - [Counters.Fast] is a sum that was exact at most as long ago as the caller allows.
//   - A retry of [Counters.AddOnce] with the same id does not add again, whatever
//     happened to the counter meanwhile.
//
// # Choices
//
// A counter begins as one row, and costs what a plain counter costs. While adds crowd,
// it is given twice the parts, in other shards, and an add goes to any of them. They are
// kept only if adds then take less time, and folded again when the crowd has gone: see
// [Options]. In a keyspace of kind Hash parts are spread evenly over the slots. In one of
// kind Range a byte stands in front of the key, and [Counters.Spread] gives each group a piece.
//
// # Limits
//
// An add returns no value: one that must know the sum is for a plain counter,
// [cleave.Keyspace.Add]. A sum reads all parts. On one store with few cores a plain counter
// may be as fast, because its adds share a batch: docs/patterns/counters.md has figures.
// The keyspace may hold other things too, but the keys of counters are the package's own.
package counter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/patterns/splitcount"
	"github.com/cleavekv/cleave/internal/patterns/spread"
)

// Counters are the split counters of a keyspace. Its methods may be called by any
// goroutine. Several Counters of one keyspace agree with each other: what they keep
// in memory is only where to try first.
type Counters struct {
	db       *cleave.DB
	keyspace *cleave.Keyspace
	layout   spread.PartKeys
	opts     Options

	mu     sync.RWMutex
	states map[string]*counterState

	cancel context.CancelFunc
	done   chan struct{}
}

// counterState is what is known about a counter that is in use.
type counterState struct {
	name string
	// view may be old: the rows decide.
	view atomic.Pointer[manifestView]
	// adds and waited are the load since the last look.
	adds, addTime atomic.Int64
	recentlyUsed  atomic.Bool // since the last look
	cached        cachedSum
	// Of the goroutine that looks at the load: an unused counter is forgotten after a while.
	sizer       splitcount.Sizer
	idleWindows int
}

// manifestView is a manifest that was read.
type manifestView struct {
	version  uint64 // of its row, 0 if absent
	partKeys [][]byte
}

// Open returns the counters of a keyspace of a store. Close it before the store.
func Open(db *cleave.DB, ks *cleave.Keyspace, o Options) (*Counters, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if ks.DB() != db {
		return nil, fmt.Errorf("%w: counter: keyspace %s is of another DB: use one of this", cleave.ErrOptions, ks.Name())
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Counters{db: db, keyspace: ks, layout: spread.NewPartKeys(ks, ""), opts: o, states: map[string]*counterState{}, cancel: cancel, done: make(chan struct{})}
	go c.runSizers(ctx)
	return c, nil
}

// Close ends the watching, and waits for a resize that is under way. Counters that
// are split stay so.
func (c *Counters) Close() error {
	c.cancel()
	<-c.done
	return nil
}

// getState returns what is known about a counter.
func (c *Counters) getState(ctx context.Context, name string) (*counterState, error) {
	c.mu.RLock()
	s := c.states[name]
	c.mu.RUnlock()
	if s == nil {
		if err := checkName(name); err != nil {
			return nil, err
		}
		s = &counterState{name: name, cached: cachedSum{readSlot: make(chan struct{}, 1)}}
		if _, err := c.refreshView(ctx, s); err != nil {
			return nil, err
		}
		s = c.addState(s)
	}
	if !s.recentlyUsed.Load() { // a shared cache line is written to once
		s.recentlyUsed.Store(true)
	}
	return s, nil
}

// addState remembers the state of a counter, if there is room.
func (c *Counters) addState(s *counterState) *counterState {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.states[s.name]; other != nil {
		return other
	}
	if len(c.states) < c.opts.Watched {
		c.states[s.name] = s
	}
	return s
}

// refreshView reads the manifest.
func (c *Counters) refreshView(ctx context.Context, s *counterState) (*manifestView, error) {
	item, err := c.keyspace.Item(ctx, c.layout.Manifest(s.name))
	if err != nil && !errors.Is(err, cleave.ErrNotFound) {
		return nil, err
	}
	parts, err := c.parsePartCount(s.name, item.Value)
	if err != nil {
		return nil, err
	}
	v := &manifestView{item.Version, c.layout.Parts(s.name, parts)}
	s.view.Store(v)
	return v, nil
}

// runSizers looks at the counters that are in use, window by window.
func (c *Counters) runSizers(ctx context.Context) {
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
			c.stepSizers(ctx, now.Sub(last))
			last = now
		}
	}
}

// maxIdleWindows is the number of windows after which an unused counter is forgotten.
const maxIdleWindows = 40

// stepSizers decides about all counters that are in use.
func (c *Counters) stepSizers(ctx context.Context, window time.Duration) {
	c.mu.RLock()
	list := make([]*counterState, 0, len(c.states))
	for _, s := range c.states {
		list = append(list, s)
	}
	c.mu.RUnlock()
	for _, s := range list {
		load := splitcount.Load{Window: window, Adds: s.adds.Swap(0), AddTime: time.Duration(s.addTime.Swap(0))}
		parts := len(s.view.Load().partKeys)
		if s.idleWindows++; s.recentlyUsed.Swap(false) {
			s.idleWindows = 0
		}
		if s.idleWindows > maxIdleWindows && parts == 1 {
			c.mu.Lock()
			delete(c.states, s.name)
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

// ErrName means that a counter cannot have that name: the text says why.
var ErrName = errors.New("counter: bad name")

// MaxParts is the most parts that a counter can have.
const MaxParts = splitcount.MaxParts

// Options configure counters. The zero value works.
type Options struct {
	// Max is the most parts that a counter is given: a power of two up to MaxParts.
	// Default 16. 1 never splits. More than there are groups is of no use.
	Max int
	// Window is how long adds are watched before it is decided whether a counter gets
	// more parts or fewer. Default 250 ms. At least 1 ms.
	Window time.Duration
	// Watched is how many counters are watched, and have a cached sum, at a time.
	// Default 4096. At least 1. Others work, but stay as they are, and each call about
	// one of them reads how many parts it has.
	Watched int
	// Now is the clock that the age of sums and the time of adds is measured by.
	// Default time.Now.
	Now func() time.Time
	// Resized is called when a counter got another number of parts, or could not: err
	// says why. It must not call methods of the Counters.
	Resized func(name string, from, to int, err error)
}

// withDefaults spells the defaults out, and reports every option that is out of its range.
func (o Options) withDefaults() (Options, error) {
	if o.Max == 0 {
		o.Max = 16
	}
	if o.Window == 0 {
		o.Window = 250 * time.Millisecond
	}
	if o.Watched == 0 {
		o.Watched = 4096
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Resized == nil {
		o.Resized = func(string, int, int, error) {}
	}
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("%w: counter: "+format, append([]any{cleave.ErrOptions}, args...)...))
		}
	}
	refuse(!splitcount.IsValidCount(o.Max), "Max is %d: use a power of two up to %d", o.Max, MaxParts)
	refuse(o.Window < time.Millisecond, "Window is %v: use at least 1ms", o.Window)
	refuse(o.Watched < 1, "Watched is %d: use at least 1", o.Watched)
	return o, errors.Join(errs...)
}

// Spread cuts a keyspace of kind Range into as many pieces as there are groups, and gives each
// group one, as far as they are not there already: then the first two parts of a counter are in
// different groups, of different stores if there are several, and the first four in four. Such
// a keyspace begins in one shard of one group, where parts bring nothing. One of kind Hash is
// spread from the start, and left as it is.
//
// It moves whatever is in the keyspace: do it before there is much. It waits for the jobs that
// it starts: if it is left early or fails, they go on, and calling it again does the rest.
// Groups that are drained get none.
func (c *Counters) Spread(ctx context.Context) error {
	return spread.Parts(ctx, c.db, c.keyspace)
}
