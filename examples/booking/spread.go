package main

import "github.com/cleavekv/cleave"

// spread returns in how many groups and in how many stores keys are, by the store's own
// map. Shards may move, but none does while this program runs.
func spread(rows *cleave.Keyspace, keys ...[]byte) (groups, stores int) {
	inGroup, inStore := map[cleave.GroupID]bool{}, map[int]bool{}
	for _, key := range keys {
		at := rows.Locate(key)
		inGroup[at.Group], inStore[at.Store] = true, true
	}
	return len(inGroup), len(inStore)
}
