package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/store"
	"github.com/cleavekv/cleave/partition"
)

// sizes remembers what shards were found to have: a job that is done by others looks at
// all of them again and again, and of a store that fails nothing else is known.
type sizes struct {
	mu sync.Mutex
	of map[partition.ShardID]measured
}

// measured is the size of a shard as it was at a version of the map.
type measured struct {
	mover.Size
	changed partition.Version
	when    time.Time
}

// sizesFor is how long a size is good for a job: what matters is how shards compare.
const sizesFor = 10 * time.Second

// Sizes returns about how much each shard of a map has, or had so long ago at most. A shard
// that cannot be measured, because its store has failed or is too busy, has what it had when
// it last was, and nothing if it never was: the others are no less known for it.
func (n *Node) Sizes(ctx context.Context, m *partition.Map, ago time.Duration) (func(partition.ShardID) mover.Size, error) {
	was := n.jobs.sizes.last()
	now := time.Now()
	of := make(map[partition.ShardID]measured, m.Len())
	for s := range m.Shards(partition.Whole) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		known, ok := was[s.ID]
		if !ok || known.changed != s.Changed || now.Sub(known.when) >= ago {
			size, err := n.SizeOf(s)
			switch {
			case errors.Is(err, store.ErrClosed):
				return nil, err
			case err == nil:
				known = measured{size, s.Changed, now}
			}
		}
		of[s.ID] = known
	}
	n.jobs.sizes.keep(of)
	return func(id partition.ShardID) mover.Size { return of[id].Size }, nil
}

// LastSize returns what a shard had when it was last measured, nothing if it never was.
func (n *Node) LastSize(id partition.ShardID) mover.Size { return n.jobs.sizes.last()[id].Size }

// last returns what was found last.
func (z *sizes) last() map[partition.ShardID]measured {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.of
}

// keep remembers what was found, which nobody changes any more.
func (z *sizes) keep(of map[partition.ShardID]measured) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.of = of
}

// SizeOf returns about how much a shard has. Other tables than that of rows are
// small beside it.
func (n *Node) SizeOf(s partition.Shard) (mover.Size, error) {
	p := n.part(s.Group)
	if p == nil {
		return mover.Size{}, nil // it is about to be opened, or was removed
	}
	e, err := p.Store.Estimate(effect.Rows.Between(s.Span.Start, s.Span.End))
	return mover.Size{Rows: e.Rows, Bytes: e.Bytes}, err
}

// RowsIn returns about how many rows a span has. It asks each store once, however many
// shards there are, and so counts what was moved away and is not removed yet.
func (n *Node) RowsIn(span partition.Span) (rows uint64, err error) {
	for _, h := range n.hosts {
		e, err := h.Store.Estimate(effect.Rows.Between(span.Start, span.End))
		if err != nil {
			return 0, err
		}
		rows += e.Rows
	}
	return rows, nil
}

// rates is what was measured of how fast jobs are. The newest counts for a quarter.
type rates struct {
	mu             sync.Mutex
	bytesPerSecond float64
	roundMS        float64
}

func blend(mean *float64, x float64) {
	if *mean == 0 {
		*mean = x
	} else {
		*mean += (x - *mean) / 4
	}
}

// round notes how long a durable command took.
func (r *rates) round(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	blend(&r.roundMS, float64(took)/float64(time.Millisecond))
}

// carried notes how long bytes took to get from one store to another.
func (r *rates) carried(bytes uint64, took time.Duration) {
	if bytes < minMeasured || took <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	blend(&r.bytesPerSecond, float64(bytes)/took.Seconds())
}

// minMeasured is the least that tells something about how fast rows are carried.
const minMeasured = 64 << 10

// now returns what was measured, and nothing of what was not.
func (r *rates) now() mover.Rates {
	r.mu.Lock()
	defer r.mu.Unlock()
	return mover.Rates{BytesPerSecond: uint64(r.bytesPerSecond), RoundMS: int64(r.roundMS + 1)}
}
