package counter

import (
	"context"
	"fmt"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/patterns/spread"
)

// Spread cuts a keyspace of kind Range into as many pieces as there are groups, and gives each
// group one, as far as they are not there already: then the first two parts of a counter are in
// different groups, of different stores if there are several, and the first four in four. Such
// a keyspace begins in one shard of one group, where parts bring nothing. One of kind Hash is
// spread from the start, and left as it is.
//
// It moves whatever is in the keyspace: do it before there is much. It waits for the jobs that
// it starts: if it is left early or fails, they go on, and calling it again does the rest.
// Groups that are drained get none.
func (c *Counters) Spread(ctx context.Context) error {
	if c.keyspace.Options().Kind == cleave.Hash {
		return nil
	}
	// Store by store, because the first two parts of a counter lie half of the keyspace apart.
	groups, err := spread.GroupsByStore(c.db)
	if err != nil {
		return fmt.Errorf("spread counters of %s: %w", c.keyspace.Name(), err)
	}
	groups = groups[:min(len(groups), MaxParts)]
	cuts := SplitKeys(len(groups))
	places := []spread.Place{{Group: groups[0].ID}}
	for i, cut := range cuts {
		places = append(places, spread.Place{Key: cut, Group: groups[i+1].ID})
	}
	if err := spread.Apply(ctx, c.db, c.keyspace, cuts, places); err != nil {
		return fmt.Errorf("spread counters of %s: %w", c.keyspace.Name(), err)
	}
	return nil
}
