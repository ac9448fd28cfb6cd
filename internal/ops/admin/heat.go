package admin

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/heat"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/partition"
)

// measureInfo is a measure of hot keys by its name. A count times scale is in its unit.
type measureInfo struct {
	by    heat.Measure
	unit  string
	scale float64
	// of is the same of a range, nil if that is not known.
	of func(heat.RangeLoad) float64
}

var measures = map[string]measureInfo{
	api.ByOps:       {heat.ByOps, "operations", 1, heat.RangeLoad.Ops},
	api.ByBytes:     {heat.ByBytes, "bytes", 1, func(l heat.RangeLoad) float64 { return l.BytesIn + l.BytesOut }},
	api.ByTime:      {heat.ByService, "seconds", 1e-9, nil},
	api.ByConflicts: {heat.ByConflicts, "conflicts", 1, nil},
}

const (
	defaultHotKeys = 20
	maxHotKeys     = 512
)

func (a *Admin) listHotKeys(_ context.Context, q *query) (api.HotKeys, error) {
	meter := a.node.Heat()
	if meter == nil {
		return api.HotKeys{}, errHeatOff()
	}
	name := q.getString(api.QueryBy)
	if name == "" {
		name = api.ByOps
	}
	measure, ok := measures[name]
	if !ok {
		return api.HotKeys{}, newInvalidError("keys are not compared by "+quoteText(name), "give ops, bytes, time or conflicts")
	}
	n, err := q.getUint(api.QueryN, defaultHotKeys)
	if err == nil && (n < 1 || n > maxHotKeys) {
		err = newInvalidError(fmt.Sprintf("parameter n is %d", n), fmt.Sprintf("give 1 to %d", maxHotKeys))
	}
	if err != nil {
		return api.HotKeys{}, err
	}
	span, err := a.hotSpan(q)
	if err != nil {
		return api.HotKeys{}, err
	}
	_, total := meter.Top(measure.by, 0)
	spread := meter.Spread()
	h := api.HotKeys{
		By: name, WindowSeconds: meter.Window().Seconds(), Total: total * measure.scale, Unit: measure.unit,
		Spread: spread.Evenness, TopBucketShare: spread.TopShare, Keys: []api.HotKey{},
	}
	for _, k := range meter.TopIn(measure.by, span.Start, endOrNil(span.End), int(n)) {
		h.Keys = append(h.Keys, a.toHotKey(k, measure, h.WindowSeconds, total))
	}
	return h, nil
}

// hotSpan is where keys are that are asked for: of a shard, of a keyspace, or anywhere.
func (a *Admin) hotSpan(q *query) (span partition.Span, err error) {
	id, err := q.getUint(api.QueryShard, 0)
	if err != nil {
		return span, err
	}
	if id != 0 {
		shard, ok := a.node.Map().Shard(partition.ShardID(id))
		if !ok {
			return span, notFoundError(fmt.Sprintf("there is no shard %d", id), "it may have been merged into its left neighbour: list the shards")
		}
		span = shard.Span
	}
	if name := q.getString(api.QueryKeyspace); name != "" {
		k, err := a.node.Keyspace(name)
		if err != nil {
			return span, notFoundError("there is no keyspace "+quoteText(name), "list the keyspaces")
		}
		if id != 0 {
			return span.Intersect(k.Span()), nil
		}
		span = k.Span()
	}
	return span, nil
}

// endOrNil is the end of a span as package heat takes it: nil for none.
func endOrNil(p partition.Position) []byte {
	if len(p) == 0 {
		return nil
	}
	return p
}

// quoteText is a word of a client in a message.
func quoteText(text string) string { return fmt.Sprintf("%q", text) }

func (a *Admin) toHotKey(k heat.HotKey, measure measureInfo, window, total float64) api.HotKey {
	p := partition.Position(k.Key)
	shard := a.node.Map().Find(p)
	place := a.decodePosition(p)
	perSecond := func(n float64) float64 { return n / max(window, 1) }
	h := api.HotKey{
		Keyspace: place.keyspace, Key: place.key, Truncated: !place.isWhole, Slot: place.slot, Shard: uint64(shard.ID), Group: uint64(shard.Group),
		Count: k.Count * measure.scale, Error: k.Error * measure.scale, Deviation: k.Deviation * measure.scale, PerSecond: perSecond(k.Count * measure.scale),
		ShareOfAll: k.Count / max(total, k.Count), ReadsPerSecond: perSecond(k.Ops - k.Writes), WritesPerSecond: perSecond(k.Writes), BytesPerSecond: perSecond(k.Bytes),
		MeanSeconds: k.Mean.Seconds(), P99Seconds: k.P99.Seconds(),
		Commands: toNameShares(k.Commands, k.Ops), Clients: toNameShares(k.Clients, k.Ops), Addresses: toNameShares(k.Addresses, k.Ops),
	}
	if measure.of != nil {
		of := measure.of(a.node.Heat().Load(shard.Span.Start, endOrNil(shard.Span.End)))
		h.ShareOfShard = k.Count / max(of, k.Count)
	}
	return h
}

func toNameShares(names []heat.NameCount, ops float64) []api.NameShare {
	all := []api.NameShare{}
	for _, n := range names {
		all = append(all, api.NameShare{Name: n.Name, Share: min(n.Ops/max(ops, 1), 1)})
	}
	return all
}

// place is what a position means to people.
type place struct {
	keyspace string
	slot     *int
	// key is that of the position, or what is there of it: then it is not whole.
	key     []byte
	isWhole bool
	// isAfter reports whether the position is right behind that key.
	isAfter bool
}

// decodePosition takes a position apart, also one that was cut off, or lies between keys.
func (a *Admin) decodePosition(p partition.Position) (at place) {
	id, err := partition.IDOf(p)
	if err != nil {
		return at
	}
	k := a.node.KeyspaceByID(id)
	if k == nil {
		return at
	}
	at.keyspace = k.Name
	rest := p[len(k.Span().Start):]
	if k.Kind == partition.Hash {
		slot := k.SlotAt(p)
		if len(rest) == 1 { // a boundary is cut off where that tells it from its neighbours
			slot = int(rest[0]) << 8
		}
		at.slot = &slot
		rest = rest[min(2, len(rest)):]
	}
	key, element, err := k.Split(nil, p)
	if err == nil {
		at.key, at.isWhole, at.isAfter = key, len(element) == 0, len(element) > 0
		return at
	}
	at.key = bytes.ReplaceAll(rest, []byte{0, 0xff}, []byte{0})
	return at
}

// heatOf is what is known of one key; nil if it is not among the hot ones.
func (a *Admin) heatOf(p partition.Position) *api.HotKey {
	meter := a.node.Heat()
	if meter == nil {
		return nil
	}
	top := meter.TopIn(heat.ByOps, p, slices.Concat(p, []byte{0}), 1)
	if len(top) == 0 {
		return nil
	}
	_, total := meter.Top(heat.ByOps, 0)
	h := a.toHotKey(top[0], measures[api.ByOps], meter.Window().Seconds(), total)
	return &h
}

// describeKey adds what a key holds, and what is asked of it.
func (a *Admin) describeKey(ctx context.Context, e *api.Explanation) error {
	k, err := a.node.Keyspace(e.Keyspace)
	if err != nil {
		return err
	}
	p := k.AppendPosition(nil, *e.Key)
	e.Heat = a.heatOf(p)
	if layout, err := key.ParseLayout(k.Layout); err == nil && k.Layout != "" {
		if text, err := layout.AppendFormat(nil, *e.Key); err == nil {
			e.Parts = []string{string(text)}
		}
	} else if values, err := key.Decode(*e.Key); err == nil && len(values) > 1 {
		for _, v := range values {
			e.Parts = append(e.Parts, formatPart(v))
		}
	}
	if !*e.Exists {
		return nil
	}
	row, found, err := a.engine.Read(ctx, p)
	if err != nil || !found {
		return err
	}
	size := command.Command(&command.Strlen{Key: p})
	if row.Type() != command.String {
		size = &command.HLen{Key: p}
	}
	reply, err := a.engine.EvalReadOnly(ctx, k, p, size)
	if err != nil {
		return err
	}
	n := uint64(reply.Int)
	if row.Type() == command.String {
		e.Type, e.Bytes = "string", &n
	} else {
		e.Type, e.Fields = "hash", &n
	}
	if row.ExpiryMS != 0 {
		left := max(0, float64(row.ExpiryMS-a.o.Now().UnixMilli())/1000)
		e.ExpiresSeconds = &left
	}
	return nil
}

// formatPart is an element of a tuple as text; bytes are those of a key.
func formatPart(v any) string {
	switch v := v.(type) {
	case string:
		return api.Key(v).String()
	case []byte:
		return api.Key(v).String()
	}
	return fmt.Sprint(v)
}
