package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/partition"
)

// indexPrefix is what the names of keyspaces begin with that have entries of indexes.
const indexPrefix = "index/"

func (a *Admin) listKeyspaces(ctx context.Context, q *query) (api.Page[api.Keyspace], error) {
	indexes := map[string]int{}
	for _, ix := range a.o.DB.Indexes() {
		indexes[ix.Keyspace().Name()]++
	}
	all := []api.Keyspace{}
	for _, k := range a.o.DB.Keyspaces() {
		if err := ctx.Err(); err != nil {
			return api.Page[api.Keyspace]{}, err
		}
		one := a.toKeyspace(k)
		one.Indexes = indexes[one.Name]
		all = append(all, one)
	}
	return cutPage(q, all, byIndex[api.Keyspace], false)
}

func (a *Admin) toKeyspace(k *cleave.Keyspace) api.Keyspace {
	o := k.Options()
	one := api.Keyspace{
		Name: o.Name, Kind: o.Kind.String(), Layout: o.Layout, Default: o.Name == node.DefaultKeyspace,
		Index: strings.HasPrefix(o.Name, indexPrefix), CacheHitRatio: k.CacheMetrics().HitRate(),
	}
	if o.Kind == cleave.Hash {
		one.Slots = slotCount(o)
	}
	one.Critical = a.balancer != nil && a.balancer.IsCritical(o.Name)
	space, err := a.node.Keyspace(o.Name)
	if err != nil {
		return one // it was dropped just now
	}
	for s := range a.o.DB.Map().Shards(space.Span()) {
		begins := space.Span().Contains(s.Span.Start)
		s.Span = s.Span.Intersect(space.Span()) // others may begin or end in it
		size, err := a.node.MeasureShard(s)
		if err != nil && begins { // its store has failed
			size = a.node.LastShardSize(s.ID)
		}
		one.Shards, one.Rows, one.Bytes = one.Shards+1, one.Rows+size.Rows, one.Bytes+size.Bytes
	}
	return one
}

func (a *Admin) planCreateKeyspace(_ context.Context, _ *query, r api.CreateKeyspace) (*plannedChange, error) {
	o := cleave.KeyspaceOptions{Name: r.Name, Slots: r.Slots, Layout: r.Layout}
	switch r.Kind {
	case "", "hash":
	case "range":
		o.Kind = cleave.Range
	default:
		return nil, newInvalidError("there is no kind "+strconv.Quote(r.Kind), "keyspaces are of kind hash or range")
	}
	if strings.HasPrefix(r.Name, indexPrefix) {
		return nil, newInvalidError("names that begin with "+indexPrefix+" are for the entries of indexes", "choose another")
	}
	check := partition.Keyspace{ID: 1, Name: o.Name, Kind: o.Kind, Slots: o.Slots, Layout: o.Layout}
	if err := check.Validate(); err != nil {
		return nil, newInvalidError(err.Error(), "")
	}
	if k, err := a.o.DB.Keyspace(r.Name); err == nil {
		return nil, keyspaceExistsError(k.Options(), o)
	}
	summary := fmt.Sprintf("make keyspace %s of kind %v", r.Name, o.Kind)
	return &plannedChange{plan: api.Plan{Summary: summary}, apply: func(ctx context.Context) (*api.Job, error) {
		_, err := a.o.DB.CreateKeyspace(ctx, o)
		if errors.Is(err, cleave.ErrKeyspaceExists) { // another request was faster
			if k, err := a.o.DB.Keyspace(r.Name); err == nil {
				return nil, keyspaceExistsError(k.Options(), o)
			}
		}
		return nil, err
	}}, nil
}

// keyspaceExistsError is the error for a keyspace that exists. For one with the options asked for,
// a second request is no failure; one with others must not pass for it.
func keyspaceExistsError(have, want cleave.KeyspaceOptions) error {
	has, wants := describeKeyspaceOptions(have), describeKeyspaceOptions(want)
	if has == wants {
		return &api.Error{Status: http.StatusConflict, Code: api.CodeNoChange, Message: fmt.Sprintf("keyspace %s exists already: %s", have.Name, has)}
	}
	return &api.Error{
		Status: http.StatusConflict, Code: api.CodeExists, Hint: "choose another name, or ask for what it is",
		Message: fmt.Sprintf("keyspace %s exists with other settings: it has %s, not %s", have.Name, has, wants),
	}
}

// describeKeyspaceOptions is all that makes a keyspace what it is, in one form.
func describeKeyspaceOptions(o cleave.KeyspaceOptions) string {
	text := "kind " + o.Kind.String()
	if o.Kind == cleave.Hash {
		text += ", " + output.Plural(slotCount(o), "slot")
	}
	if l, err := key.ParseLayout(o.Layout); err == nil && o.Layout != "" {
		text += ", layout " + l.String()
	}
	return text
}

func (a *Admin) planDropKeyspace(_ context.Context, _ *query, r api.DropKeyspace) (*plannedChange, error) {
	k, err := a.o.DB.Keyspace(r.Name)
	if err != nil {
		return nil, err
	}
	if r.Name == node.DefaultKeyspace {
		return nil, newRefusedError("the default keyspace cannot be dropped", "FLUSHDB empties it")
	}
	if strings.HasPrefix(r.Name, indexPrefix) {
		return nil, newRefusedError("keyspace "+r.Name+" has the entries of an index", "drop the index")
	}
	one := a.toKeyspace(k)
	plan := api.Plan{
		Summary:      "drop keyspace " + r.Name,
		Steps:        []string{fmt.Sprintf("Its keys are gone at once, about %s of %s together; the room is given back in the background.", output.Plural(one.Rows, "row"), output.Plural(one.Bytes, "byte"))},
		Irreversible: true,
	}
	for _, ix := range a.o.DB.Indexes() {
		if ix.Keyspace().Name() == r.Name {
			plan.Steps = append(plan.Steps, "Index "+ix.Name()+" is gone with it.")
		}
	}
	return &plannedChange{plan: plan, apply: func(ctx context.Context) (*api.Job, error) { return nil, a.o.DB.DropKeyspace(ctx, r.Name) }}, nil
}

func (a *Admin) listIndexes(_ context.Context, q *query) (api.Page[api.Index], error) {
	all := []api.Index{}
	if name := q.getString(api.QueryKeyspace); name != "" {
		if _, err := a.o.DB.Keyspace(name); err != nil {
			return api.Page[api.Index]{}, err
		}
	}
	for _, ix := range a.o.DB.Indexes() {
		if q.has(api.QueryKeyspace) && ix.Keyspace().Name() != q.getString(api.QueryKeyspace) {
			continue
		}
		one, err := toIndex(ix)
		if err != nil {
			continue // it was dropped just now
		}
		all = append(all, one)
	}
	return cutPage(q, all, byIndex[api.Index], false)
}

func toIndex(ix *cleave.Index) (api.Index, error) {
	o, err := ix.Options()
	if err != nil {
		return api.Index{}, err
	}
	s, err := ix.Status()
	if err != nil {
		return api.Index{}, err
	}
	one := api.Index{
		Keyspace: ix.Keyspace().Name(), Name: ix.Name(), Mode: o.Mode.String(), Unique: o.Unique, Columns: o.Columns, Stored: slices.Clone(o.Stored),
		Function: o.Function, Version: o.Version, Ready: s.Ready, Built: s.Built,
		BehindSeconds: s.Behind.Seconds(), BehindBytes: s.BehindBytes, Refused: s.Refused, Rebuilt: s.Rebuilt,
	}
	if s.Err != nil {
		one.Error = s.Err.Error()
	}
	return one, nil
}

func (a *Admin) planDropIndex(_ context.Context, _ *query, r api.DropIndex) (*plannedChange, error) {
	if _, err := a.o.DB.Index(r.Keyspace, r.Name); err != nil {
		return nil, err
	}
	return &plannedChange{
		plan: api.Plan{
			Summary:      "drop index " + r.Name + " of keyspace " + r.Keyspace,
			Steps:        []string{"Nobody finds its entries any more; the room that they take is given back in the background. The rows stay."},
			Irreversible: true,
		},
		apply: func(ctx context.Context) (*api.Job, error) { return nil, a.o.DB.DropIndex(ctx, r.Keyspace, r.Name) },
	}, nil
}
