package table

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/key"
)

// Boundaries returns the keys with which shards are to begin so that each salt has one of
// its own, for a [cleave.Split]. If columns are given, each fixes leading ones of the
// layout, and shards begin with them, or with each salt of them: so a table without a
// salt is cut by devices, say. Without them the salt must come first in the layout.
func (t *Table) Boundaries(columns ...key.Columns) (at [][]byte, err error) {
	if len(columns) == 0 {
		if t.salt != 0 {
			return nil, t.named(fmt.Errorf("%w: there is no salt at the beginning to cut by: say which columns to cut at", ErrQuery))
		}
		for salt := 1; salt < t.layout.Salts(); salt++ { // what is before them is the first
			at = append(at, join(nil, salt, nil))
		}
		return at, nil
	}
	for _, c := range columns {
		ranges, err := t.layout.FanOut(c)
		if err != nil {
			return nil, t.named(err)
		}
		for _, r := range ranges {
			if len(r.Begin) > 0 {
				at = append(at, r.Begin)
			}
		}
	}
	return at, nil
}

// Spread cuts the table at [Table.Boundaries], and gives the shards to the groups in turn,
// store by store, as far as they are not there already. A keyspace begins in one shard of
// one group, and salts bring nothing until it is spread; do it before there are rows, while
// it costs next to nothing. It waits for the jobs that it starts: if it is left early or
// fails, they go on, and calling it again does the rest. Groups that are drained get none.
func (t *Table) Spread(ctx context.Context, columns ...key.Columns) error {
	at, err := t.Boundaries(columns...)
	if err != nil {
		return err
	}
	if len(at) > 0 {
		err = t.change(ctx, cleave.Split{Keyspace: t.ks, At: at})
	}
	if err != nil {
		return t.named(fmt.Errorf("split: %w", err))
	}
	groups := t.groups()
	if len(groups) == 0 {
		return t.named(fmt.Errorf("spread: %w", cleave.ErrNowhere))
	}
	slices.SortFunc(at, slices.Compare)
	for i, k := range append([][]byte{{}}, slices.CompactFunc(at, slices.Equal)...) {
		to := groups[i%len(groups)]
		where := t.ks.Locate(k)
		if where.Group == to {
			continue
		}
		if err := t.change(ctx, cleave.Move{Shard: where.Shard, To: to}); err != nil {
			return t.named(fmt.Errorf("move %v to %v: %w", where.Shard, to, err))
		}
	}
	return nil
}

// change makes a change of the map, unless all is so already.
func (t *Table) change(ctx context.Context, c cleave.MapChange) error {
	job, err := t.db.Start(ctx, c)
	if errors.Is(err, cleave.ErrNoChange) {
		return nil
	}
	if err == nil {
		_, err = job.Wait(ctx)
	}
	return err
}

// groups returns the groups that may have shards, so that neighbours in the list are on
// different stores.
func (t *Table) groups() []cleave.GroupID {
	type place struct {
		turn, store int
		id          cleave.GroupID
	}
	var places []place
	turns := map[int]int{}
	for _, g := range t.db.Groups() {
		if !g.Draining {
			places = append(places, place{turns[g.Store], g.Store, g.ID})
			turns[g.Store]++
		}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.store, b.store)) })
	ids := make([]cleave.GroupID, len(places))
	for i, p := range places {
		ids[i] = p.id
	}
	return ids
}
