package actor

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Fleet is a row of actors of one kind, one per shard, addressed by index. The
// actors are padded, so that work on one does not slow its neighbours. Which
// shard a message belongs to is the caller's to say, with package route for
// instance; an index that is not there gives [ErrShard].
type Fleet[S, M, R any] struct {
	shards []Actor[S, M, R]
	pool   fleetBatchPool[S, M, R]
}

// NewFleet makes n actors with the same handler and options; state makes the
// state of each. All states are made before the first goroutine starts.
func NewFleet[S, M, R any](n int, state func(shard int) S, h Handler[S, M, R], opts Options) (*Fleet[S, M, R], error) {
	opts, err := opts.withDefaults()
	err = errors.Join(err, h.checkFuncs())
	if n < 1 {
		err = errors.Join(err, fmt.Errorf("%w: %d shards, want at least 1", ErrOptions, n))
	}
	if state == nil {
		err = errors.Join(err, fmt.Errorf("%w: no function that makes a shard's state", ErrOptions))
	}
	if err != nil {
		return nil, err
	}
	f := &Fleet[S, M, R]{shards: make([]Actor[S, M, R], n)}
	for i := range f.shards { // before any owner runs: a panic of state leaves none behind
		f.shards[i].state = state(i)
	}
	for i := range f.shards {
		f.shards[i].init(h, opts)
	}
	return f, nil
}

// Len is the number of shards.
func (f *Fleet[S, M, R]) Len() int { return len(f.shards) }

// Shard returns the actor of one shard, or ErrShard.
func (f *Fleet[S, M, R]) Shard(shard int) (*Actor[S, M, R], error) {
	if shard < 0 || shard >= len(f.shards) {
		return nil, fmt.Errorf("%w: %d of %d", ErrShard, shard, len(f.shards))
	}
	return &f.shards[shard], nil
}

// Call is [Actor.Call] on one shard. An error of the shard is a [*ShardError].
func (f *Fleet[S, M, R]) Call(ctx context.Context, shard int, m M) (r R, err error) {
	a, err := f.Shard(shard)
	if err != nil {
		return r, err
	}
	if r, err = a.Call(ctx, m); err != nil {
		err = &ShardError{Shard: shard, Err: err}
	}
	return r, err
}

// Post is [Actor.Post] on one shard. An error of the shard is a [*ShardError].
func (f *Fleet[S, M, R]) Post(ctx context.Context, shard int, m M) error {
	a, err := f.Shard(shard)
	if err != nil {
		return err
	}
	if err := a.Post(ctx, m); err != nil {
		return &ShardError{Shard: shard, Err: err}
	}
	return nil
}

// Do is [Actor.Do] on one shard. An error of the shard is a [*ShardError].
func (f *Fleet[S, M, R]) Do(ctx context.Context, shard int, g func(state *S)) error {
	a, err := f.Shard(shard)
	if err != nil {
		return err
	}
	if err := a.Do(ctx, g); err != nil {
		return &ShardError{Shard: shard, Err: err}
	}
	return nil
}

// DoAll holds several shards at once and calls g on the caller's goroutine with
// their states: states[i] is that of shards[i], and no batch is in flight in any
// of them. All are held or none: a shard that cannot be, or that is named twice,
// gives a [*ShardError] with its number, and g is not called. Concurrent DoAlls
// do not wait for each other in a circle, whatever the order of their shards. A
// panic of g counts as a panic in each. What handlers must not do meanwhile is
// described at the function [DoAll].
func (f *Fleet[S, M, R]) DoAll(ctx context.Context, shards []int, g func(states []*S)) error {
	actors := make([]*Actor[S, M, R], len(shards))
	for i, shard := range shards {
		a, err := f.Shard(shard)
		if err != nil {
			return err
		}
		actors[i] = a
	}
	err := DoAll(ctx, actors, g)
	if e, ok := err.(*ShardError); ok {
		e.Shard = shards[e.Shard]
	}
	return err
}

// Stats returns the counters of every shard.
func (f *Fleet[S, M, R]) Stats() []Stats {
	stats := make([]Stats, len(f.shards))
	for i := range f.shards {
		stats[i] = f.shards[i].Stats()
	}
	return stats
}

// Stop stops all shards at once and waits for them: see [Actor.Stop].
func (f *Fleet[S, M, R]) Stop(ctx context.Context) error {
	if isInsideHandler() {
		return ErrInHandler
	}
	for i := range f.shards {
		f.shards[i].beginStop()
	}
	var errs []error
	for i := range f.shards {
		if err := f.shards[i].waitStopped(ctx); err != nil {
			errs = append(errs, &ShardError{Shard: i, Err: err})
		}
	}
	return errors.Join(errs...)
}

// CallBatch sorts ms by shard, sends each shard its part as one entry, and
// waits for all: rs[i] is the reply to ms[i]. Parts are handled independently
// of each other: each is accepted or refused as a whole, and the error joins a
// [*ShardError] for each part that failed. The replies of a part that was
// refused are zero, those of one that was abandoned are untouched. If a message
// has no shard, nothing is sent.
func (f *Fleet[S, M, R]) CallBatch(ctx context.Context, shard func(m M) int, ms []M, rs []R) error {
	if len(rs) != len(ms) {
		return fmt.Errorf("%w: %d messages, %d replies", ErrBatchSize, len(ms), len(rs))
	}
	if shard == nil {
		return fmt.Errorf("%w: no function that finds the shard of a message", ErrOptions)
	}
	s := f.pool.get(len(f.shards))
	if err := s.sortByShard(shard, ms, len(f.shards)); err != nil {
		f.pool.put(s)
		return err
	}
	lost, err := s.sendSubBatches(ctx, f.shards)
	for i, at := range s.positions {
		if !lost || !s.isAbandonedAt(at) {
			rs[i] = s.rs[at]
		}
	}
	if !lost { // else a shard may still use s, which is left to the collector
		f.pool.put(s)
	}
	return err
}

// PostBatch sorts ms by shard, sends each shard its part as one entry, and does
// not wait for them to be handled. The caller may reuse ms. Errors are those of
// [Fleet.CallBatch]; see [Actor.Post].
func (f *Fleet[S, M, R]) PostBatch(ctx context.Context, shard func(m M) int, ms []M) error {
	if shard == nil {
		return fmt.Errorf("%w: no function that finds the shard of a message", ErrOptions)
	}
	s := f.pool.get(len(f.shards))
	if err := s.sortByShard(shard, ms, len(f.shards)); err != nil {
		f.pool.put(s)
		return err
	}
	var errs []error
	for _, p := range s.subBatches {
		if err := f.shards[p.shard].PostBatch(ctx, s.ms[p.lo:p.hi]); err != nil {
			errs = append(errs, &ShardError{Shard: p.shard, Err: err})
		}
	}
	f.pool.put(s) // not deferred: what a panic of shard leaves behind is no use
	return errors.Join(errs...)
}

// fleetBatch is the working memory of one fleet batch: the messages side by side
// by shard. It has no other user, so shards may work in it directly even
// if the caller can leave.
type fleetBatch[S, M, R any] struct {
	ms         []M
	rs         []R
	positions  []int // where ms[i] of the caller went
	shardOf    []int
	shardEnds  []int // per shard; all zero between uses
	subBatches []subBatch[M, R]
}

// subBatch is what goes to one shard: messages lo to hi.
type subBatch[M, R any] struct {
	shard, lo, hi int
	entry         *entry[M, R] // not nil while it is in the mailbox
	abandoned     bool         // its replies were not waited for
}

// sortByShard lays out ms by shard.
func (s *fleetBatch[S, M, R]) sortByShard(shard func(M) int, ms []M, shards int) error {
	s.shardOf, s.positions, s.subBatches = s.shardOf[:0], s.positions[:0], s.subBatches[:0]
	var err error
	for i, m := range ms {
		k := shard(m)
		if uint(k) >= uint(shards) {
			err = fmt.Errorf("%w: %d of %d, for message %d", ErrShard, k, shards, i)
			break
		}
		if s.shardEnds[k] == 0 {
			s.subBatches = append(s.subBatches, subBatch[M, R]{shard: k})
		}
		s.shardEnds[k]++
		s.shardOf = append(s.shardOf, k)
	}
	if cap(s.ms) < len(ms) {
		s.ms, s.rs = make([]M, len(ms)), make([]R, len(ms))
	}
	s.ms, s.rs = s.ms[:len(ms)], s.rs[:len(ms)]
	lo := 0
	for i := range s.subBatches { // end becomes the position of the shard's next message
		p := &s.subBatches[i]
		size := s.shardEnds[p.shard]
		p.lo, p.hi = lo, lo+size
		s.shardEnds[p.shard] = lo
		lo += size
	}
	if err == nil {
		for i, k := range s.shardOf {
			at := s.shardEnds[k]
			s.shardEnds[k]++
			s.ms[at] = ms[i]
			s.positions = append(s.positions, at)
		}
	}
	for i := range s.subBatches {
		s.shardEnds[s.subBatches[i].shard] = 0
	}
	return err
}

// sendSubBatches hands every shard its part, then collects the answers. A shard that is
// busy does not hold up the others. lost reports that a part was abandoned.
func (s *fleetBatch[S, M, R]) sendSubBatches(ctx context.Context, shards []Actor[S, M, R]) (lost bool, err error) {
	var errs []error
	for i := range s.subBatches {
		p := &s.subBatches[i]
		n, err := shards[p.shard].startBatch(ctx, s.ms[p.lo:p.hi], s.rs[p.lo:p.hi])
		p.entry = n
		if err != nil {
			errs = append(errs, &ShardError{Shard: p.shard, Err: err})
		}
	}
	for i := range s.subBatches {
		p := &s.subBatches[i]
		if p.entry == nil {
			continue
		}
		a := &shards[p.shard]
		err := a.waitForReply(ctx, p.entry)
		if err != nil {
			p.abandoned, lost = true, true
		} else {
			err = p.entry.err
			a.recycleEntry(p.entry)
		}
		if err != nil {
			errs = append(errs, &ShardError{Shard: p.shard, Err: err})
		}
	}
	return lost, errors.Join(errs...)
}

// isAbandonedAt reports whether position at belongs to a part that was abandoned.
func (s *fleetBatch[S, M, R]) isAbandonedAt(at int) bool {
	for _, p := range s.subBatches {
		if p.lo <= at && at < p.hi {
			return p.abandoned
		}
	}
	return false
}

// startBatch begins a CallBatch whose slices belong to the package: it handles ms at
// once if it can, or returns the entry to await. The entry is not offered the
// actor before its sender awaits it: a sender that waits for room elsewhere
// must not hold this actor meanwhile.
func (a *Actor[S, M, R]) startBatch(ctx context.Context, ms []M, rs []R) (*entry[M, R], error) {
	if err := a.checkFits(len(ms)); err != nil {
		return nil, err
	}
	if !hasEnded(ctx) && a.combining && a.word.CompareAndSwap(nil, a.locked) {
		return nil, a.callBatchHere(ctx, ms, rs)
	}
	n := a.getEntry(kindCallBatch)
	n.state.Store(stateQueued)
	n.ms, n.rs = ms, rs
	if err := a.sendEntry(ctx, n); err != nil {
		return nil, err
	}
	return n, nil
}

// maxPooledFleetMessages is maxPooledMessages for a whole fleet.
const maxPooledFleetMessages = 64 * maxPooledMessages

// fleetBatchPool keeps scatters for reuse.
type fleetBatchPool[S, M, R any] struct{ pool sync.Pool }

func (p *fleetBatchPool[S, M, R]) get(shards int) *fleetBatch[S, M, R] {
	if s, ok := p.pool.Get().(*fleetBatch[S, M, R]); ok {
		return s
	}
	return &fleetBatch[S, M, R]{shardEnds: make([]int, shards)}
}

func (p *fleetBatchPool[S, M, R]) put(s *fleetBatch[S, M, R]) {
	if cap(s.ms) > maxPooledFleetMessages {
		return
	}
	clear(s.ms)
	clear(s.rs)
	clear(s.subBatches)
	p.pool.Put(s)
}
