package node

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/shard/effect"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/partition"
)

// sizeCache remembers what shards were found to have: a job that is done by others looks at
// all of them again and again, and of a store that fails nothing else is known.
type sizeCache struct {
	mu      sync.Mutex
	byShard map[partition.ShardID]measuredSize
}

// measuredSize is the size of a shard as it was at a version of the map.
type measuredSize struct {
	mover.Size
	version partition.Version
	at      time.Time
}

// sizeTTL is how long a size is good for a job: what matters is how shards compare.
const sizeTTL = 10 * time.Second

// ShardSizes returns about how much each shard of a map has, or had so long ago at most. A shard
// that cannot be measured, because its store has failed or is too busy, has what it had when
// it last was, and nothing if it never was: the others are no less known for it.
func (n *Node) ShardSizes(ctx context.Context, m *partition.Map, ago time.Duration) (func(partition.ShardID) mover.Size, error) {
	was := n.jobs.sizes.loadSizes()
	now := time.Now()
	of := make(map[partition.ShardID]measuredSize, m.Len())
	for s := range m.Shards(partition.Whole) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		known, ok := was[s.ID]
		if !ok || known.version != s.Changed || now.Sub(known.at) >= ago {
			size, err := n.MeasureShard(s)
			switch {
			case errors.Is(err, store.ErrClosed):
				return nil, err
			case err == nil:
				known = measuredSize{size, s.Changed, now}
			}
		}
		of[s.ID] = known
	}
	n.jobs.sizes.storeSizes(of)
	return func(id partition.ShardID) mover.Size { return of[id].Size }, nil
}

// LastShardSize returns what a shard had when it was last measured, nothing if it never was.
func (n *Node) LastShardSize(id partition.ShardID) mover.Size {
	return n.jobs.sizes.loadSizes()[id].Size
}

// loadSizes returns what was found last.
func (z *sizeCache) loadSizes() map[partition.ShardID]measuredSize {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.byShard
}

// storeSizes remembers what was found; the map is not changed after that.
func (z *sizeCache) storeSizes(of map[partition.ShardID]measuredSize) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.byShard = of
}

// MeasureShard returns about how much a shard has. Other tables than that of rows are
// small beside it.
func (n *Node) MeasureShard(s partition.Shard) (mover.Size, error) {
	p := n.lookupGroup(s.Group)
	if p == nil {
		return mover.Size{}, nil // it is about to be opened, or was removed
	}
	e, err := p.Store.Estimate(effect.Rows.SpanBetween(s.Span.Start, s.Span.End))
	return mover.Size{Rows: e.Rows, Bytes: e.Bytes}, err
}

// EstimateRows returns about how many rows a span has. It asks each store once, however many
// shards there are, and so counts what was moved away and is not removed yet.
func (n *Node) EstimateRows(span partition.Span) (rows uint64, err error) {
	for _, h := range n.storeHosts {
		e, err := h.Store.Estimate(effect.Rows.SpanBetween(span.Start, span.End))
		if err != nil {
			return 0, err
		}
		rows += e.Rows
	}
	return rows, nil
}

// jobRates is what was measured of how fast jobs are. The newest counts for a quarter.
type jobRates struct {
	mu             sync.Mutex
	bytesPerSecond float64
	roundMS        float64
}

func updateMean(mean *float64, x float64) {
	if *mean == 0 {
		*mean = x
	} else {
		*mean += (x - *mean) / 4
	}
}

// recordRound notes how long a durable command took.
func (r *jobRates) recordRound(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	updateMean(&r.roundMS, float64(took)/float64(time.Millisecond))
}

// recordCopy notes how long bytes took to get from one store to another.
func (r *jobRates) recordCopy(bytes uint64, took time.Duration) {
	if bytes < minMeasuredBytes || took <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	updateMean(&r.bytesPerSecond, float64(bytes)/took.Seconds())
}

// minMeasuredBytes is the least from which to measure how fast rows are copied.
const minMeasuredBytes = 64 << 10

// currentRates returns what was measured, and nothing of what was not.
func (r *jobRates) currentRates() mover.Rates {
	r.mu.Lock()
	defer r.mu.Unlock()
	return mover.Rates{BytesPerSecond: uint64(r.bytesPerSecond), RoundMS: int64(r.roundMS + 1)}
}

// SplitPoint returns where to split a shard so that about half of its bytes are on each side,
// and in which keyspace: at a slot, or at a key, never among the elements of one. ok is false if
// there is no such place, or it is unknown.
func (n *Node) SplitPoint(s partition.Shard) (at partition.Position, in *partition.Keyspace, ok bool) {
	p := n.lookupGroup(s.Group)
	if p == nil {
		return nil, nil, false // it is about to be opened, or was removed
	}
	k := n.findLargestKeyspace(s)
	if k == nil {
		return nil, nil, false
	}
	span := s.Span.Intersect(k.Span())
	if k.Kind == partition.Hash {
		at = middleSlot(k, span)
	} else {
		at = p.middleKey(k, span)
	}
	// The first key of the keyspace may be its boundary with what comes before.
	return at, k, at != nil && bytes.Compare(span.Start, at) < 0 && s.Span.Contains(at)
}

// findLargestKeyspace returns the keyspace that has most of a shard, or nil.
func (n *Node) findLargestKeyspace(s partition.Shard) (most *partition.Keyspace) {
	var in []*partition.Keyspace
	n.mu.RLock()
	for _, k := range n.byID {
		if k.Span().Overlaps(s.Span) {
			in = append(in, &k.Keyspace)
		}
	}
	n.mu.RUnlock()
	var bytes uint64
	for _, k := range in {
		part := s
		part.Span = s.Span.Intersect(k.Span())
		if size, err := n.MeasureShard(part); err == nil && (most == nil || size.Bytes > bytes) {
			most, bytes = k, size.Bytes
		}
	}
	return most
}

// middleSlot returns where the middle one of the slots of a span begins: keys are
// spread evenly over them. It is nil if that is the first one, before which there are no keys.
func middleSlot(k *partition.Keyspace, s partition.Span) partition.Position {
	first, end := k.SlotAt(s.Start), k.SlotCount()
	if k.Span().Contains(s.End) {
		end = k.SlotAt(s.End)
	}
	middle := (first + end) / 2
	if middle == 0 {
		return nil
	}
	return k.SlotSpan(uint16(middle)).Start
}

// middleKey returns the key in the middle of a span, by bytes, or nil.
func (p *GroupHost) middleKey(k *partition.Keyspace, s partition.Span) partition.Position {
	row, err := p.Store.FindSplitKey(effect.Rows.AppendKey(nil, s.Start), effect.Rows.AppendKey(nil, s.End))
	if err != nil || row == nil {
		return nil // it will be asked for again, or does not matter
	}
	at, err := k.WholeKey(row[1:])
	if err != nil {
		return nil
	}
	if bytes.Compare(at, s.Start) <= 0 { // the first collection has most of it
		key, _, err := k.Split(nil, row[1:])
		if err != nil {
			return nil
		}
		at = k.KeySpan(key).End
	}
	return at
}
