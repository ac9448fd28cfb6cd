package actor

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

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
	s := f.pool.fetch(len(f.shards))
	if err := s.sort(shard, ms, len(f.shards)); err != nil {
		f.pool.put(s)
		return err
	}
	lost, err := s.send(ctx, f.shards)
	for i, at := range s.at {
		if !lost || !s.lost(at) {
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
	s := f.pool.fetch(len(f.shards))
	if err := s.sort(shard, ms, len(f.shards)); err != nil {
		f.pool.put(s)
		return err
	}
	var errs []error
	for _, p := range s.parts {
		if err := f.shards[p.shard].PostBatch(ctx, s.ms[p.lo:p.hi]); err != nil {
			errs = append(errs, &ShardError{Shard: p.shard, Err: err})
		}
	}
	f.pool.put(s) // not deferred: what a panic of shard leaves behind is no use
	return errors.Join(errs...)
}

// scatter is the working memory of one fleet batch: the messages side by side
// by shard. It belongs to nobody else, so shards may work in it directly even
// if the caller can leave.
type scatter[S, M, R any] struct {
	ms      []M
	rs      []R
	at      []int // where ms[i] of the caller went
	shardOf []int
	end     []int // per shard; all zero between uses
	parts   []part[M, R]
}

// part is what goes to one shard: messages lo to hi.
type part[M, R any] struct {
	shard, lo, hi int
	n             *node[M, R] // not nil while it is in the mailbox
	lost          bool        // its replies were not waited for
}

// sort lays out ms by shard.
func (s *scatter[S, M, R]) sort(shard func(M) int, ms []M, shards int) error {
	s.shardOf, s.at, s.parts = s.shardOf[:0], s.at[:0], s.parts[:0]
	var err error
	for i, m := range ms {
		k := shard(m)
		if uint(k) >= uint(shards) {
			err = fmt.Errorf("%w: %d of %d, for message %d", ErrShard, k, shards, i)
			break
		}
		if s.end[k] == 0 {
			s.parts = append(s.parts, part[M, R]{shard: k})
		}
		s.end[k]++
		s.shardOf = append(s.shardOf, k)
	}
	if cap(s.ms) < len(ms) {
		s.ms, s.rs = make([]M, len(ms)), make([]R, len(ms))
	}
	s.ms, s.rs = s.ms[:len(ms)], s.rs[:len(ms)]
	lo := 0
	for i := range s.parts { // end becomes the position of the shard's next message
		p := &s.parts[i]
		size := s.end[p.shard]
		p.lo, p.hi = lo, lo+size
		s.end[p.shard] = lo
		lo += size
	}
	if err == nil {
		for i, k := range s.shardOf {
			at := s.end[k]
			s.end[k]++
			s.ms[at] = ms[i]
			s.at = append(s.at, at)
		}
	}
	for i := range s.parts {
		s.end[s.parts[i].shard] = 0
	}
	return err
}

// send hands every shard its part, then collects the answers. A shard that is
// busy does not hold up the others. lost reports that a part was abandoned.
func (s *scatter[S, M, R]) send(ctx context.Context, shards []Actor[S, M, R]) (lost bool, err error) {
	var errs []error
	for i := range s.parts {
		p := &s.parts[i]
		n, err := shards[p.shard].start(ctx, s.ms[p.lo:p.hi], s.rs[p.lo:p.hi])
		p.n = n
		if err != nil {
			errs = append(errs, &ShardError{Shard: p.shard, Err: err})
		}
	}
	for i := range s.parts {
		p := &s.parts[i]
		if p.n == nil {
			continue
		}
		a := &shards[p.shard]
		err := a.await(ctx, p.n)
		if err != nil {
			p.lost, lost = true, true
		} else {
			err = p.n.err
			a.recycle(p.n)
		}
		if err != nil {
			errs = append(errs, &ShardError{Shard: p.shard, Err: err})
		}
	}
	return lost, errors.Join(errs...)
}

// lost reports whether position at belongs to a part that was abandoned.
func (s *scatter[S, M, R]) lost(at int) bool {
	for _, p := range s.parts {
		if p.lo <= at && at < p.hi {
			return p.lost
		}
	}
	return false
}

// start begins a CallBatch whose slices belong to the package: it handles ms at
// once if it can, or returns the entry to await. The entry is not offered the
// actor before its sender awaits it: a sender that waits for room elsewhere
// must not hold this actor meanwhile.
func (a *Actor[S, M, R]) start(ctx context.Context, ms []M, rs []R) (*node[M, R], error) {
	if err := a.fits(len(ms)); err != nil {
		return nil, err
	}
	if !ended(ctx) && a.combining && a.word.CompareAndSwap(nil, a.locked) {
		return nil, a.batchHere(ctx, ms, rs)
	}
	n := a.fetch(callBatch)
	n.state.Store(queued)
	n.ms, n.rs = ms, rs
	if err := a.send(ctx, n); err != nil {
		return nil, err
	}
	return n, nil
}

// keepScatter is keepBuffer for a whole fleet.
const keepScatter = 64 * keepBuffer

// scatterPool keeps scatters for reuse.
type scatterPool[S, M, R any] struct{ pool sync.Pool }

func (p *scatterPool[S, M, R]) fetch(shards int) *scatter[S, M, R] {
	if s, ok := p.pool.Get().(*scatter[S, M, R]); ok {
		return s
	}
	return &scatter[S, M, R]{end: make([]int, shards)}
}

func (p *scatterPool[S, M, R]) put(s *scatter[S, M, R]) {
	if cap(s.ms) > keepScatter {
		return
	}
	clear(s.ms)
	clear(s.rs)
	clear(s.parts)
	p.pool.Put(s)
}
