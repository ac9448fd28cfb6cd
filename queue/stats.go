package queue

import (
	"context"
	"errors"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/lanes"
)

// ShardStats is what a shard holds.
type ShardStats struct {
	// Epoch and Shard name it; one that is Closed takes no more messages.
	Epoch  uint64
	Shard  int
	Closed bool
	// Depth is how many messages are not done, of which Out are with receivers and
	// Delayed wait for their time.
	Depth, Out, Delayed int
	// Published is how many there ever were, and Lag how old the oldest one is that is
	// not done.
	Published uint64
	Lag       time.Duration
}

// Stats is what a queue holds.
type Stats struct {
	// Shards are those of the queue, and before them those of earlier numbers of shards
	// that are not empty yet.
	Shards []ShardStats
	// Depth is how many messages are not done, and Dead how many were set aside.
	Depth, Dead int
}

// Stats returns what the queue holds. It looks at all messages that wait, so it takes
// longer the more there are.
func (q *Queue) Stats(ctx context.Context) (out Stats, err error) {
	m, err := q.c.reload(ctx)
	if err != nil {
		return out, err
	}
	for _, b := range m.Left() {
		s, err := q.stats(ctx, b)
		if err != nil {
			return out, err
		}
		out.Shards, out.Depth = append(out.Shards, s), out.Depth+s.Depth
	}
	for _, err := range q.c.ks.All(ctx, cleave.ScanOptions{Prefix: deadKeys(q.c.name), KeysOnly: true}) {
		if err != nil {
			return out, err
		}
		out.Dead++
	}
	return out, nil
}

func (q *Queue) stats(ctx context.Context, b lanes.Bucket) (s ShardStats, err error) {
	p, now := placeOf(q.c.name, b), q.c.nowMS()
	t, err := parseTail(q.c.ks.Get(ctx, p.tail()))
	if err != nil {
		return s, err
	}
	s = ShardStats{Epoch: b.Epoch, Shard: b.Index, Closed: t.Closed, Published: t.Next}
	leases, err := q.leases(ctx, p, 0)
	if err != nil {
		return s, err
	}
	for _, l := range leases {
		switch {
		case !l.Held(now):
		case l.Token != 0:
			s.Out++
		default:
			s.Delayed++
		}
	}
	var oldest *lanes.Row
	err = q.c.scan(ctx, p, kindMessage, 0, true, func(r lanes.Row, _ []byte) bool {
		if s.Depth++; oldest == nil {
			oldest = &r
		}
		return true
	})
	if err != nil || oldest == nil {
		return s, err
	}
	value, err := q.c.ks.Get(ctx, p.message(*oldest))
	if errors.Is(err, cleave.ErrNotFound) {
		return s, nil // done meanwhile
	}
	if err != nil {
		return s, err
	}
	h, _, err := parseMessage(value)
	s.Lag = time.Duration(now-h.TimeMS) * time.Millisecond
	return s, err
}
