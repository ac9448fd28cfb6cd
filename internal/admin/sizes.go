package admin

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/partition"
)

// sizes keeps what shards hold for a moment: to find it out means to look into the tables
// of every store, and whoever asks again and again shall not cost that.
type sizes struct {
	mu      sync.Mutex
	at      time.Time
	version partition.Version // of the map, when they were asked for
	shards  []cleave.Shard
}

// sizesFor is how old they may be.
const sizesFor = time.Second

func (a *Admin) allShards(ctx context.Context) ([]cleave.Shard, error) {
	s := &a.sizes
	s.mu.Lock()
	defer s.mu.Unlock()
	version := a.o.DB.Map().Version()
	if s.shards != nil && time.Since(s.at) < sizesFor && s.version == version {
		return s.shards, nil
	}
	shards, err := a.o.DB.Shards(ctx)
	if err != nil {
		return nil, err
	}
	s.shards, s.at, s.version = shards, time.Now(), version
	return shards, nil
}

// shardsNow are shards as they are told, with the jobs that are at work on them.
func (a *Admin) shardsNow(ctx context.Context) ([]api.Shard, error) {
	shards, err := a.allShards(ctx)
	if err != nil {
		return nil, err
	}
	jobs, err := a.o.DB.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	at := map[cleave.ShardID]cleave.JobID{}
	for _, j := range jobs {
		if j.Ended.IsZero() && j.Shard != 0 {
			at[j.Shard] = j.ID
		}
	}
	kinds := map[string]string{}
	for _, k := range a.o.DB.Keyspaces() {
		kinds[k.Name()] = k.Options().Kind.String()
	}
	total := uint64(0)
	for _, s := range shards {
		total += s.Bytes
	}
	told := make([]api.Shard, 0, len(shards))
	for _, s := range shards {
		one := shardOf(s, total)
		one.Kind = kinds[s.Keyspace]
		if id := at[s.ID]; id != 0 {
			one.Job = strconv.FormatUint(uint64(id), 10)
		}
		told = append(told, one)
	}
	return told, nil
}

func shardOf(s cleave.Shard, total uint64) api.Shard {
	one := api.Shard{
		ID: uint64(s.ID), Keyspace: s.Keyspace, Group: uint64(s.Group), Store: s.Store, Rows: s.Rows, Bytes: s.Bytes,
		StartKey: api.KeyOf(s.StartKey), EndKey: api.KeyOf(s.EndKey), Changed: uint64(s.Changed),
	}
	if s.FirstSlot >= 0 {
		first, last := s.FirstSlot, s.LastSlot
		one.FirstSlot, one.LastSlot = &first, &last
	}
	if total > 0 {
		one.Share = float64(s.Bytes) / float64(total)
	}
	return one
}
