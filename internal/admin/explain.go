package admin

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/internal/api"
	"github.com/cleavekv/cleave/partition"
)

func (a *Admin) explain(ctx context.Context, q *query) (api.Explanation, error) {
	given := 0
	for _, name := range []string{api.QueryKey, api.QuerySlot, api.QueryShard} {
		if q.has(name) {
			given++
		}
	}
	if given != 1 {
		return api.Explanation{}, invalid("one of key, slot and shard is explained", "give exactly one")
	}
	if q.has(api.QueryShard) {
		return a.explainShard(ctx, q)
	}
	k, err := a.space(q.text(api.QueryKeyspace))
	if err != nil {
		return api.Explanation{}, err
	}
	if q.has(api.QuerySlot) {
		return a.explainSlot(ctx, q, k)
	}
	return a.explainKey(ctx, q, k)
}

func (a *Admin) explainShard(ctx context.Context, q *query) (api.Explanation, error) {
	id, err := q.number(api.QueryShard, 0)
	if err != nil {
		return api.Explanation{}, err
	}
	if q.has(api.QueryKeyspace) {
		return api.Explanation{}, invalid("a shard has its keyspace", "leave the keyspace out")
	}
	s, err := a.oneShard(ctx, id)
	if err != nil {
		return api.Explanation{}, err
	}
	e := api.Explanation{Keyspace: s.Keyspace, Kind: s.Kind, Shard: s, Why: s.Why}
	e.Shard.Why = nil
	return e, nil
}

// explainSlot explains a slot: where its first position is.
func (a *Admin) explainSlot(ctx context.Context, q *query, k *cleave.Keyspace) (api.Explanation, error) {
	o := k.Options()
	if o.Kind != cleave.Hash {
		return api.Explanation{}, invalid("keyspace "+o.Name+" is of kind range and has no slots", "explain a key")
	}
	n, err := q.number(api.QuerySlot, 0)
	if err != nil {
		return api.Explanation{}, err
	}
	space, err := a.node.Keyspace(o.Name)
	if err != nil {
		return api.Explanation{}, err
	}
	if n >= uint64(space.SlotCount()) {
		return api.Explanation{}, invalid(fmt.Sprintf("keyspace %s has slots 0 to %d", o.Name, space.SlotCount()-1), "")
	}
	slot := int(n)
	e := api.Explanation{Keyspace: o.Name, Kind: o.Kind.String(), Slot: &slot}
	at := a.o.DB.Map().Find(space.SlotSpan(uint16(slot)).Start)
	return a.located(ctx, e, uint64(at.ID))
}

func (a *Admin) explainKey(ctx context.Context, q *query, k *cleave.Keyspace) (api.Explanation, error) {
	key, err := q.key(api.QueryKey)
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
			e.HashTag = api.KeyOf(tag)
			what = "its hash tag " + strconv.Quote(api.Key(tag).String()) + ", the part in braces,"
		}
		e.Why = append(e.Why, fmt.Sprintf("Keyspace %s spreads keys by hash: the CRC16 of %s modulo %d is slot %d.", o.Name, what, slotCount(o), at.Slot))
	} else {
		e.Why = append(e.Why, fmt.Sprintf("Keyspace %s keeps keys in the order of their bytes.", o.Name))
	}
	return a.located(ctx, e, uint64(at.Shard))
}

// slotCount is how many slots a hash keyspace has: 0 stands for what is usual.
func slotCount(o cleave.KeyspaceOptions) int {
	return (&partition.Keyspace{Kind: o.Kind, Slots: o.Slots}).SlotCount()
}

// located adds where something is.
func (a *Admin) located(ctx context.Context, e api.Explanation, shard uint64) (api.Explanation, error) {
	s, err := a.oneShard(ctx, shard)
	if err != nil {
		return e, err
	}
	e.Why = slices.Concat(e.Why, s.Why)
	e.Shard = s
	e.Shard.Why = nil
	return e, nil
}
