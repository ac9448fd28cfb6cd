package admin

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
	"github.com/cleavekv/cleave/partition"
)

// getMap is the map, as far as one answer has room for it.
func (a *Admin) getMap(ctx context.Context, _ *query) (api.Map, error) {
	version := a.o.DB.Map().Version()
	shards, err := a.loadShards(ctx)
	if err != nil {
		return api.Map{}, err
	}
	groups, err := a.loadGroups(ctx)
	if err != nil {
		return api.Map{}, err
	}
	m := api.Map{Version: uint64(version), Groups: groups, Shards: shards}
	if len(shards) > maxMapShards {
		m.Shards, m.Truncated = shards[:maxMapShards], true
	}
	return m, nil
}

// maxMapShards is how many shards one answer has.
const maxMapShards = 10_000

func (a *Admin) listShards(ctx context.Context, q *query) (api.Page[api.Shard], error) {
	group, err := q.getUint(api.QueryGroup, 0)
	if err != nil {
		return api.Page[api.Shard]{}, err
	}
	if name := q.getString(api.QueryKeyspace); name != "" {
		if _, err := a.o.DB.Keyspace(name); err != nil {
			return api.Page[api.Shard]{}, err
		}
	}
	shards, err := a.loadShards(ctx)
	if err != nil {
		return api.Page[api.Shard]{}, err
	}
	shards = slices.DeleteFunc(shards, func(s api.Shard) bool {
		return group != 0 && s.Group != group || q.has(api.QueryKeyspace) && s.Keyspace != q.getString(api.QueryKeyspace)
	})
	return cutPage(q, shards, byIndex[api.Shard], false)
}

func (a *Admin) getShard(ctx context.Context, q *query) (api.Shard, error) {
	id, err := q.pathID("shard")
	if err != nil {
		return api.Shard{}, err
	}
	return a.findShard(ctx, id)
}

// findShard is a shard with its explanation.
func (a *Admin) findShard(ctx context.Context, id uint64) (api.Shard, error) {
	shards, err := a.loadShards(ctx)
	if err != nil {
		return api.Shard{}, err
	}
	i := slices.IndexFunc(shards, func(s api.Shard) bool { return s.ID == id })
	if i < 0 {
		return api.Shard{}, notFoundError(fmt.Sprintf("there is no shard %d", id), "it may have been merged into its left neighbour: list the shards")
	}
	s := shards[i]
	s.Why = explainShardState(shards, i)
	return s, nil
}

// explainShardState explains a shard.
func explainShardState(shards []api.Shard, i int) []string {
	s := shards[i]
	why := []string{describeShardKeys(s), fmt.Sprintf("It belongs to group %d, which executes its commands, and so lives on store %d.", s.Group, s.Store)}
	others, mean := 0, 0.0
	for _, o := range shards {
		if o.Keyspace != "" {
			others++
			mean += float64(o.Bytes)
		}
	}
	if others > 1 && mean > 0 && s.Keyspace != "" {
		mean /= float64(others)
		why = append(why, fmt.Sprintf("It has about %s of %s together by estimate, %.2f times the mean of all shards. What was overwritten or deleted counts until the store has compacted: DBSIZE counts keys.", output.Plural(output.Rough(s.Rows), "row"), output.Bytes(s.Bytes), float64(s.Bytes)/mean))
	} else {
		why = append(why, fmt.Sprintf("It has about %s of %s together by estimate.", output.Plural(output.Rough(s.Rows), "row"), output.Bytes(s.Bytes)))
	}
	if l := s.Load; l.Reads+l.Writes > 0 {
		why = append(why, fmt.Sprintf("It is asked %.0f reads and %.0f writes a second, and was asked %d and %d since the shard or the server began.", l.ReadsPerSecond, l.WritesPerSecond, l.Reads, l.Writes))
	}
	why = append(why, fmt.Sprintf("Its range and group are unchanged since version %d of the map.", s.Changed))
	if s.Job != "" {
		why = append(why, "Job "+s.Job+" is at work on it.")
	}
	return why
}

// quoteKey is a key in a sentence, in the form in which the command line takes it: to quote its escaped
// text once more would double the backslashes.
func quoteKey(k api.Key) string { return `"` + k.String() + `"` }

// describeShardKeys returns which keys a shard has.
func describeShardKeys(s api.Shard) string {
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
		from = quoteKey(*s.StartKey)
	}
	if s.EndKey != nil {
		to = "before " + quoteKey(*s.EndKey)
	}
	return fmt.Sprintf("Shard %d has the keys from %s to %s of keyspace %s.", s.ID, from, to, s.Keyspace)
}

func (a *Admin) listGroups(ctx context.Context, q *query) (api.Page[api.Group], error) {
	groups, err := a.loadGroups(ctx)
	if err != nil {
		return api.Page[api.Group]{}, err
	}
	return cutPage(q, groups, func(_ int, g api.Group) uint64 { return g.ID }, false)
}

func (a *Admin) loadGroups(ctx context.Context) ([]api.Group, error) {
	shards, err := a.loadCachedShards(ctx)
	if err != nil {
		return nil, err
	}
	rows, bytes := map[cleave.GroupID]uint64{}, map[cleave.GroupID]uint64{}
	for _, s := range shards {
		rows[s.Group] += s.Rows
		bytes[s.Group] += s.Bytes
	}
	loads, rates := a.sumGroupLoads(shards)
	parts := map[cleave.GroupID]*node.GroupHost{}
	for _, h := range a.node.StoreHosts() {
		for _, p := range h.GroupHosts() {
			parts[p.ID] = p
		}
	}
	groups := []api.Group{}
	for i, g := range a.o.DB.Groups() {
		one := api.Group{
			ID: uint64(g.ID), Store: g.Store, Draining: g.Draining, Catalog: i == 0, Shards: g.Shards,
			Rows: rows[g.ID], Bytes: bytes[g.ID], Load: toShardLoad(loads[g.ID], rates[g.ID]),
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

// shardCache keeps what shards hold for a moment: to find it out means to look into the tables
// of every store, and repeated requests must not cost that each time.
type shardCache struct {
	mu       sync.Mutex
	loadedAt time.Time
	version  partition.Version // of the map, when they were asked for
	shards   []cleave.Shard
}

// shardCacheTTL is how old they may be.
const shardCacheTTL = time.Second

func (a *Admin) loadCachedShards(ctx context.Context) ([]cleave.Shard, error) {
	s := &a.shardCache
	s.mu.Lock()
	defer s.mu.Unlock()
	version := a.o.DB.Map().Version()
	if s.shards != nil && time.Since(s.loadedAt) < shardCacheTTL && s.version == version {
		return s.shards, nil
	}
	shards, err := a.o.DB.Shards(ctx)
	if err != nil {
		return nil, err
	}
	s.shards, s.loadedAt, s.version = shards, time.Now(), version
	return shards, nil
}

// loadShards are shards as clients see them, with the jobs that are at work on them.
func (a *Admin) loadShards(ctx context.Context) ([]api.Shard, error) {
	shards, err := a.loadCachedShards(ctx)
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
	loads, rates := a.node.ReadLoads(), a.node.LoadRates()
	told := make([]api.Shard, 0, len(shards))
	for _, s := range shards {
		one := toShard(s, total)
		one.Kind, one.Load = kinds[s.Keyspace], toShardLoad(loads.Of(s.ID), rates[s.ID])
		if id := at[s.ID]; id != 0 {
			one.Job = strconv.FormatUint(uint64(id), 10)
		}
		told = append(told, one)
	}
	return told, nil
}

func toShard(s cleave.Shard, total uint64) api.Shard {
	one := api.Shard{
		ID: uint64(s.ID), Keyspace: s.Keyspace, Group: uint64(s.Group), Store: s.Store, Rows: s.Rows, Bytes: s.Bytes,
		StartKey: api.KeyOrNil(s.StartKey), EndKey: api.KeyOrNil(s.EndKey), Changed: uint64(s.Changed),
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

func (a *Admin) explainLocation(ctx context.Context, q *query) (api.Explanation, error) {
	given := 0
	for _, name := range []string{api.QueryKey, api.QuerySlot, api.QueryShard} {
		if q.has(name) {
			given++
		}
	}
	if given != 1 {
		return api.Explanation{}, newInvalidError("one of key, slot and shard is explained", "give exactly one")
	}
	if q.has(api.QueryShard) {
		return a.explainShard(ctx, q)
	}
	k, err := a.findKeyspace(q.getString(api.QueryKeyspace))
	if err != nil {
		return api.Explanation{}, err
	}
	if q.has(api.QuerySlot) {
		return a.explainSlot(ctx, q, k)
	}
	return a.explainKey(ctx, q, k)
}

func (a *Admin) explainShard(ctx context.Context, q *query) (api.Explanation, error) {
	id, err := q.getUint(api.QueryShard, 0)
	if err != nil {
		return api.Explanation{}, err
	}
	if q.has(api.QueryKeyspace) {
		return api.Explanation{}, newInvalidError("a shard has its keyspace", "leave the keyspace out")
	}
	s, err := a.findShard(ctx, id)
	if err != nil {
		return api.Explanation{}, err
	}
	e := api.Explanation{Keyspace: s.Keyspace, Kind: s.Kind, Shard: s, Why: s.Why}
	e.Shard.Why = nil
	a.explainHeat(&e)
	return e, nil
}

// explainSlot explains a slot: where its first position is.
func (a *Admin) explainSlot(ctx context.Context, q *query, k *cleave.Keyspace) (api.Explanation, error) {
	o := k.Options()
	if o.Kind != cleave.Hash {
		return api.Explanation{}, newInvalidError("keyspace "+o.Name+" is of kind range and has no slots", "explain a key")
	}
	n, err := q.getUint(api.QuerySlot, 0)
	if err != nil {
		return api.Explanation{}, err
	}
	space, err := a.node.Keyspace(o.Name)
	if err != nil {
		return api.Explanation{}, err
	}
	if n >= uint64(space.SlotCount()) {
		return api.Explanation{}, newInvalidError(fmt.Sprintf("keyspace %s has slots 0 to %d", o.Name, space.SlotCount()-1), "")
	}
	slot := int(n)
	e := api.Explanation{Keyspace: o.Name, Kind: o.Kind.String(), Slot: &slot}
	at := a.o.DB.Map().Find(space.SlotSpan(uint16(slot)).Start)
	return a.withLocation(ctx, e, uint64(at.ID))
}

func (a *Admin) explainKey(ctx context.Context, q *query, k *cleave.Keyspace) (api.Explanation, error) {
	key, err := q.getKey(api.QueryKey)
	if err != nil {
		return api.Explanation{}, err
	}
	o := k.Options()
	exists, err := k.Exists(ctx, key)
	if err != nil {
		return api.Explanation{}, err
	}
	e := api.Explanation{Keyspace: o.Name, Kind: o.Kind.String(), Key: &key, Exists: &exists, Why: []string{}}
	at := k.Locate(key)
	if o.Kind == cleave.Hash {
		e.Slot = &at.Slot
		tag := hash.HashTag(key)
		what := "the key"
		if !bytes.Equal(tag, key) {
			e.HashTag = api.KeyOrNil(tag)
			what = "its hash tag " + quoteKey(tag) + ", the part in braces,"
		}
		e.Why = append(e.Why, fmt.Sprintf("Keyspace %s spreads keys by hash: the CRC16 of %s modulo %d is slot %d.", o.Name, what, slotCount(o), at.Slot))
	} else {
		e.Why = append(e.Why, fmt.Sprintf("Keyspace %s keeps keys in the order of their bytes.", o.Name))
	}
	if err := a.describeKey(ctx, &e); err != nil {
		return e, err
	}
	return a.withLocation(ctx, e, uint64(at.Shard))
}

// slotCount is how many slots a hash keyspace has: 0 stands for what is usual.
func slotCount(o cleave.KeyspaceOptions) int {
	return (&partition.Keyspace{Kind: o.Kind, Slots: o.Slots}).SlotCount()
}

// withLocation adds where something is.
func (a *Admin) withLocation(ctx context.Context, e api.Explanation, shard uint64) (api.Explanation, error) {
	s, err := a.findShard(ctx, shard)
	if err != nil {
		return e, err
	}
	e.Why = slices.Concat(e.Why, s.Why)
	e.Shard = s
	e.Shard.Why = nil
	a.explainHeat(&e)
	return e, nil
}
