package main

import (
	"context"
	"fmt"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/partition"
)

// atlas tells where the rows of a line live, by the store's own map. It is as
// old as the map: shards may move, but none does while this program runs.
type atlas struct {
	shards *partition.Map
	rows   partition.KeyspaceID
	stores map[cleave.GroupID]int
}

// atlasOf reads the map.
func atlasOf(ctx context.Context, l *line) (*atlas, error) {
	a := &atlas{shards: l.db.Map(), stores: map[cleave.GroupID]int{}}
	for _, g := range l.db.Groups() {
		a.stores[g.ID] = g.Store
	}
	shards, err := l.db.Shards(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range shards {
		if s.Keyspace == l.rows.Name() {
			a.rows, err = partition.IDOf(s.Span.Start)
			return a, err
		}
	}
	return nil, fmt.Errorf("booking: no shard begins in keyspace %s", l.rows.Name())
}

// spread returns in how many groups and in how many stores keys are.
func (a *atlas) spread(keys ...[]byte) (groups, stores int) {
	inGroup, inStore := map[cleave.GroupID]bool{}, map[int]bool{}
	for _, key := range keys {
		owner, _ := a.shards.SlotOwner(a.rows, uint16(hash.SlotOf(key)))
		inGroup[owner.Group] = true
		inStore[a.stores[owner.Group]] = true
	}
	return len(inGroup), len(inStore)
}
