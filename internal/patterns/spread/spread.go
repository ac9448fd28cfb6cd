// Package spread cuts a keyspace into shards and gives them to groups, for the patterns whose
// keyspaces begin in one shard of one group.
package spread

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave"
)

// Place is the group that the shard of a key is to be in.
type Place struct {
	Key   []byte
	Group cleave.GroupID
}

// Apply cuts a keyspace at keys, and moves the shards of the places as far as they are not there
// already. It waits for the jobs that it starts: if it is left early or fails, they go on, and
// calling it again does the rest.
func Apply(ctx context.Context, db *cleave.DB, ks *cleave.Keyspace, cuts [][]byte, places []Place) error {
	if len(cuts) > 0 {
		if err := runJob(ctx, db, cleave.SplitAtKeys(ks, cuts...)); err != nil {
			return fmt.Errorf("split: %w", err)
		}
	}
	for _, p := range places {
		at := ks.Locate(p.Key)
		if at.Group == p.Group {
			continue
		}
		if err := runJob(ctx, db, cleave.Move{Shard: at.Shard, To: p.Group}); err != nil {
			return fmt.Errorf("move %v to %v: %w", at.Shard, p.Group, err)
		}
	}
	return nil
}

// runJob makes a change of the map, unless all is so already.
func runJob(ctx context.Context, db *cleave.DB, c cleave.MapChange) error {
	job, err := db.Start(ctx, c)
	if errors.Is(err, cleave.ErrNoChange) {
		return nil
	}
	if err == nil {
		_, err = job.Wait(ctx)
	}
	return err
}

// InTurn gives the shards of keys to the groups in turn: two that follow one another are on
// different stores, if there are several. Groups that are drained get none; if there are no
// others the error is cleave.ErrNowhere.
func InTurn(db *cleave.DB, keys [][]byte) ([]Place, error) {
	groups, err := GroupsByStore(db)
	if err != nil {
		return nil, err
	}
	turns := map[int]int{}
	turnOf := map[cleave.GroupID]int{}
	for _, g := range groups {
		turnOf[g.ID] = turns[g.Store]
		turns[g.Store]++
	}
	slices.SortStableFunc(groups, func(a, b cleave.GroupInfo) int { return cmp.Compare(turnOf[a.ID], turnOf[b.ID]) })
	places := make([]Place, len(keys))
	for i, key := range keys {
		places[i] = Place{key, groups[i%len(groups)].ID}
	}
	return places, nil
}

// GroupsByStore returns the groups that are not drained, store by store, or cleave.ErrNowhere.
func GroupsByStore(db *cleave.DB) ([]cleave.GroupInfo, error) {
	groups := slices.DeleteFunc(db.Groups(), func(g cleave.GroupInfo) bool { return g.Draining })
	if len(groups) == 0 {
		return nil, cleave.ErrNowhere
	}
	slices.SortStableFunc(groups, func(a, b cleave.GroupInfo) int { return cmp.Compare(a.Store, b.Store) })
	return groups, nil
}
