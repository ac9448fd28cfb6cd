package node

import (
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/effect"
	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/partition"
)

// sizes remembers what shards were found to have, for a moment: a job that is done
// by others looks at all of them again and again.
type sizes struct {
	mu   sync.Mutex
	when time.Time
	m    *partition.Map
	of   map[partition.ShardID]mover.Size
}

// sizesFor is how long sizes are good.
const sizesFor = 2 * time.Second

// sizesOf returns about how much each shard of a map has.
func (n *Node) sizesOf(m *partition.Map) (func(partition.ShardID) mover.Size, error) {
	z := &n.jobs.sizes
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.m == nil || z.m.Version() != m.Version() || time.Since(z.when) > sizesFor {
		of := make(map[partition.ShardID]mover.Size, m.Len())
		for s := range m.Shards(partition.Whole) {
			size, err := n.SizeOf(s)
			if err != nil {
				return nil, err
			}
			of[s.ID] = size
		}
		z.m, z.of, z.when = m, of, time.Now()
	}
	of := z.of
	return func(id partition.ShardID) mover.Size { return of[id] }, nil
}

// SizeOf returns about how much a shard has, the rows of all tables that go where
// it goes.
func (n *Node) SizeOf(s partition.Shard) (size mover.Size, err error) {
	p := n.part(s.Group)
	if p == nil {
		return size, nil // it is about to be opened, or was removed
	}
	for _, t := range mover.Tables {
		from, to := t.AppendKey(nil, s.Span.Start), t.AppendKey(nil, s.Span.End)
		if len(s.Span.End) == 0 {
			to = []byte{byte(t) + 1}
		}
		e, err := p.Store.Estimate(from, to)
		if err != nil {
			return size, err
		}
		if t == effect.Rows {
			size.Rows = e.Rows
		}
		size.Bytes += e.Bytes
	}
	return size, nil
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
