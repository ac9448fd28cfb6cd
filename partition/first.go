package partition

import "fmt"

// First returns map version 1. Groups with id 0 are given the next one. The
// space is one shard, or split at boundaries of a keyspace as by [Split], which
// [Keyspace.EvenSlots] gives; neighbours go to the same group, and each group
// gets as many shards, give or take one.
func First(groups []Group, in *Keyspace, at ...Position) (*Map, error) {
	d := draft{Map: Map{
		version: 1, nextShard: 2, nextGroup: 1,
		tiling: newTiling(), shards: []shard{{Owner: Owner{Shard: 1, Changed: 1}}}, pins: []Constraint{{}},
	}}
	if len(groups) == 0 {
		return nil, fmt.Errorf("%w: a map needs at least one", ErrUnknownGroup)
	}
	for _, g := range groups {
		if g.Draining {
			return nil, fmt.Errorf("first map: %w: %v", ErrDraining, g.ID)
		}
		if err := (AddGroup{g.ID, g.Labels}).apply(&d); err != nil {
			return nil, fmt.Errorf("first map: %w", err)
		}
	}
	if len(at) > 0 {
		if err := (Split{Shard: 1, In: in, At: at}).apply(&d); err != nil {
			return nil, fmt.Errorf("first map: %w", err)
		}
	}
	for i := range d.shards {
		d.shards[i].Group = d.groups[i*len(d.groups)/len(d.shards)].ID
	}
	return d.finish()
}
