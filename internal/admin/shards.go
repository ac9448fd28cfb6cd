package admin

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/output"
)

// wholeMap is the map, as far as one answer has room for it.
func (a *Admin) wholeMap(ctx context.Context, _ *query) (api.Map, error) {
	version := a.o.DB.Map().Version()
	shards, err := a.shardsNow(ctx)
	if err != nil {
		return api.Map{}, err
	}
	groups, err := a.groupsNow(ctx)
	if err != nil {
		return api.Map{}, err
	}
	m := api.Map{Version: uint64(version), Groups: groups, Shards: shards}
	if len(shards) > mapShards {
		m.Shards, m.Truncated = shards[:mapShards], true
	}
	return m, nil
}

// mapShards is how many shards one answer has.
const mapShards = 10_000

func (a *Admin) shards(ctx context.Context, q *query) (api.Page[api.Shard], error) {
	group, err := q.number(api.QueryGroup, 0)
	if err != nil {
		return api.Page[api.Shard]{}, err
	}
	if name := q.text(api.QueryKeyspace); name != "" {
		if _, err := a.o.DB.Keyspace(name); err != nil {
			return api.Page[api.Shard]{}, err
		}
	}
	shards, err := a.shardsNow(ctx)
	if err != nil {
		return api.Page[api.Shard]{}, err
	}
	shards = slices.DeleteFunc(shards, func(s api.Shard) bool {
		return group != 0 && s.Group != group || q.has(api.QueryKeyspace) && s.Keyspace != q.text(api.QueryKeyspace)
	})
	return page(q, shards, inOrder[api.Shard], false)
}

func (a *Admin) shard(ctx context.Context, q *query) (api.Shard, error) {
	id, err := q.pathID("shard")
	if err != nil {
		return api.Shard{}, err
	}
	return a.oneShard(ctx, id)
}

// oneShard is a shard with its explanation.
func (a *Admin) oneShard(ctx context.Context, id uint64) (api.Shard, error) {
	shards, err := a.shardsNow(ctx)
	if err != nil {
		return api.Shard{}, err
	}
	i := slices.IndexFunc(shards, func(s api.Shard) bool { return s.ID == id })
	if i < 0 {
		return api.Shard{}, missing(fmt.Sprintf("there is no shard %d", id), "it may have been merged into its left neighbour: list the shards")
	}
	s := shards[i]
	s.Why = whyShard(shards, i)
	return s, nil
}

// whyShard explains a shard.
func whyShard(shards []api.Shard, i int) []string {
	s := shards[i]
	why := []string{has(s), fmt.Sprintf("It belongs to group %d, which executes its commands, and so lives on store %d.", s.Group, s.Store)}
	others, mean := 0, 0.0
	for _, o := range shards {
		if o.Keyspace != "" {
			others++
			mean += float64(o.Bytes)
		}
	}
	if others > 1 && mean > 0 && s.Keyspace != "" {
		mean /= float64(others)
		why = append(why, fmt.Sprintf("It has about %s of %s together, %.2f times the mean of all shards.", output.Counted(s.Rows, "row"), output.Counted(s.Bytes, "byte"), float64(s.Bytes)/mean))
	} else {
		why = append(why, fmt.Sprintf("It has about %s of %s together.", output.Counted(s.Rows, "row"), output.Counted(s.Bytes, "byte")))
	}
	why = append(why, fmt.Sprintf("It is as it is since version %d of the map.", s.Changed))
	if s.Job != "" {
		why = append(why, "Job "+s.Job+" is at work on it.")
	}
	return why
}

// has says which keys a shard has.
func has(s api.Shard) string {
	switch {
	case s.FirstSlot != nil && *s.FirstSlot == *s.LastSlot:
		return fmt.Sprintf("Shard %d has slot %d of keyspace %s.", s.ID, *s.FirstSlot, s.Keyspace)
	case s.FirstSlot != nil:
		return fmt.Sprintf("Shard %d has slots %d to %d of keyspace %s.", s.ID, *s.FirstSlot, *s.LastSlot, s.Keyspace)
	case s.Keyspace == "":
		return fmt.Sprintf("Shard %d has no keys of a keyspace: it is the catalog, or room for keyspaces to come, or of some that are gone.", s.ID)
	}
	from, to := "the first", "the last"
	if s.StartKey != nil {
		from = strconv.Quote(s.StartKey.String())
	}
	if s.EndKey != nil {
		to = "before " + strconv.Quote(s.EndKey.String())
	}
	return fmt.Sprintf("Shard %d has the keys from %s to %s of keyspace %s.", s.ID, from, to, s.Keyspace)
}

func (a *Admin) groups(ctx context.Context, q *query) (api.Page[api.Group], error) {
	groups, err := a.groupsNow(ctx)
	if err != nil {
		return api.Page[api.Group]{}, err
	}
	return page(q, groups, func(_ int, g api.Group) uint64 { return g.ID }, false)
}

func (a *Admin) groupsNow(ctx context.Context) ([]api.Group, error) {
	shards, err := a.allShards(ctx)
	if err != nil {
		return nil, err
	}
	rows, bytes := map[cleave.GroupID]uint64{}, map[cleave.GroupID]uint64{}
	for _, s := range shards {
		rows[s.Group] += s.Rows
		bytes[s.Group] += s.Bytes
	}
	parts := map[cleave.GroupID]*node.Part{}
	for _, h := range a.node.Hosts() {
		for _, p := range h.Parts() {
			parts[p.ID] = p
		}
	}
	groups := []api.Group{}
	for i, g := range a.o.DB.Groups() {
		one := api.Group{
			ID: uint64(g.ID), Store: g.Store, Draining: g.Draining, Catalog: i == 0, Shards: g.Shards,
			Rows: rows[g.ID], Bytes: bytes[g.ID],
		}
		if p := parts[g.ID]; p != nil {
			m := p.Group.Metrics()
			one.QueueDepth, one.Commands = m.QueueDepth, m.Commands
			one.ServiceP99Seconds, one.QueueWaitP99Seconds = m.Service.Quantile(0.99).Seconds(), m.QueueWait.Quantile(0.99).Seconds()
		}
		groups = append(groups, one)
	}
	return groups, nil
}
