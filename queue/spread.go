package queue

import (
	"context"
	"fmt"

	"github.com/cleavekv/cleave/internal/patterns/spread"
	"github.com/cleavekv/cleave/key"
)

// Spread cuts the keyspace so that each shard of the queue is one of the store's, and gives
// them to the groups in turn, store by store, as far as they are not there already. A keyspace
// begins in one shard of one group, where a queue has no use for several shards. Do it before
// there are messages, while it costs next to nothing, and again after [Queue.Resize]; what
// else is in the keyspace stays where it is. It waits for the jobs that it starts: if it is
// left early or fails, they go on, and calling it again does the rest. Groups that are drained
// get none.
func (q *Queue) Spread(ctx context.Context) error { return q.c.spreadShards(ctx) }

// Spread gives the shards of the log to the groups: see [Queue.Spread].
func (l *Log) Spread(ctx context.Context) error { return l.c.spreadShards(ctx) }

func (c *core) spreadShards(ctx context.Context) error {
	if err := c.checkOpen(ctx); err != nil {
		return err
	}
	m, err := c.reloadManifest(ctx)
	if err != nil {
		return err
	}
	starts := SplitKeys(c.name, m.OpenEpoch().Shards)
	places, err := spread.InTurn(c.db, starts)
	if err == nil {
		err = spread.Apply(ctx, c.db, c.ks, append(starts, endOfName(c.name)), places)
	}
	if err != nil {
		return fmt.Errorf("spread %s %s: %w", kindName(m.Log), c.name, err)
	}
	return nil
}

// endOfName is the first key behind the buckets of a name: all of them begin with a tuple that
// ends with a zero byte, and a name has none.
func endOfName(name string) []byte {
	end := encodeTuple(key.Tuple{name})
	end[len(end)-1]++
	return end
}
