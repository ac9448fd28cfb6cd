package actor

import (
	"context"
	"errors"
	"fmt"
)

// Fleet is a row of actors of one kind, one per shard, addressed by index. The
// actors are padded, so that work on one does not slow its neighbours. Which
// shard a message belongs to is the caller's to say, with package route for
// instance; an index that is not there gives [ErrShard].
type Fleet[S, M, R any] struct {
	shards []Actor[S, M, R]
	pool   scatterPool[S, M, R]
}

// NewFleet makes n actors with the same handler and options; state makes the
// state of each. All states are made before the first goroutine starts.
func NewFleet[S, M, R any](n int, state func(shard int) S, h Handler[S, M, R], opts Options) (*Fleet[S, M, R], error) {
	opts, err := opts.withDefaults()
	err = errors.Join(err, h.check())
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
// said at the function [DoAll].
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
	if insideHandler() {
		return ErrInHandler
	}
	for i := range f.shards {
		f.shards[i].beginStop()
	}
	var errs []error
	for i := range f.shards {
		if err := f.shards[i].awaitStop(ctx); err != nil {
			errs = append(errs, &ShardError{Shard: i, Err: err})
		}
	}
	return errors.Join(errs...)
}
