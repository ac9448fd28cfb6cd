package admin

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/ops/output"
)

func (a *Admin) listCaps(_ context.Context, q *query) (api.Page[api.Cap], error) {
	all := []api.Cap{}
	for _, c := range a.o.DB.Caps() {
		all = append(all, toAPICap(c))
	}
	return cutPage(q, all, byIndex[api.Cap], false)
}

func toAPICap(c cleave.Cap) api.Cap {
	one := api.Cap{ID: c.ID, Shard: uint64(c.Shard), Keyspace: c.Keyspace, WritesPerSecond: c.WritesPerSecond, Refused: c.Refused}
	if c.Shard == 0 {
		prefix := api.Key(c.Prefix)
		one.Prefix = &prefix
	}
	if !c.Until.IsZero() {
		until := c.Until.UTC()
		one.Until = &until
	}
	return one
}

// describeCap is what is capped, and at what.
func describeCap(c cleave.Cap) string {
	what := "shard " + strconv.FormatUint(uint64(c.Shard), 10)
	switch {
	case c.Shard != 0:
	case len(c.Prefix) == 0:
		what = "keyspace " + c.Keyspace
	default:
		what = fmt.Sprintf("keys of keyspace %s that begin with %v", c.Keyspace, api.Key(c.Prefix))
	}
	if c.WritesPerSecond == 0 {
		return "make " + what + " read-only"
	}
	return fmt.Sprintf("cap writes of %s at %s a second", what, strconv.FormatFloat(c.WritesPerSecond, 'f', -1, 64))
}

// maxCapSeconds is the longest time of a cap: a hundred years.
const maxCapSeconds = 100 * 365 * 24 * 3600

func (a *Admin) planSetCap(_ context.Context, _ *query, r api.SetCap) (*plannedChange, error) {
	c := cleave.Cap{Shard: cleave.ShardID(r.Shard), Keyspace: r.Keyspace, WritesPerSecond: r.WritesPerSecond}
	if r.Prefix != nil {
		c.Prefix = *r.Prefix
	}
	switch {
	case r.Shard != 0 && (r.Keyspace != "" || r.Prefix != nil):
		return nil, newInvalidError("a shard and a keyspace or prefix are given", "cap one of them")
	case !(r.WritesPerSecond >= 0) || math.IsInf(r.WritesPerSecond, 0):
		return nil, newInvalidError("a cap is of 0 writes a second or more", "0 makes it read-only")
	case !(r.Seconds >= 0 && r.Seconds <= maxCapSeconds):
		return nil, newInvalidError("seconds are from 0 to "+strconv.Itoa(maxCapSeconds), "0 is until it is removed")
	}
	if r.Shard != 0 {
		if _, ok := a.o.DB.Map().Shard(c.Shard); !ok {
			return nil, cleave.ErrNoShard
		}
	} else {
		if c.Keyspace == "" {
			c.Keyspace = node.DefaultKeyspace
		}
		if _, err := a.o.DB.Keyspace(c.Keyspace); err != nil {
			return nil, err
		}
	}
	plan := api.Plan{Summary: describeCap(c), Steps: []string{"Writers beyond it wait for their turn, and get THROTTLED with the time to try again if that is too far away. Reads go on."}}
	if r.Seconds > 0 {
		plan.Summary += " for " + output.Seconds(r.Seconds)
	} else {
		plan.Steps = append(plan.Steps, "It stays, also when the server is restarted, until cleave cap remove.")
	}
	return &plannedChange{plan: plan, apply: func(ctx context.Context) (*api.Job, error) {
		if r.Seconds > 0 {
			c.Until = a.o.Now().Add(time.Duration(r.Seconds * float64(time.Second)))
		}
		_, err := a.o.DB.SetCap(ctx, c)
		return nil, err
	}}, nil
}

func (a *Admin) planRemoveCap(_ context.Context, _ *query, r api.RemoveCap) (*plannedChange, error) {
	for _, c := range a.o.DB.Caps() {
		if c.ID != r.ID {
			continue
		}
		summary := fmt.Sprintf("remove cap %d, which was to %s", c.ID, describeCap(c))
		return &plannedChange{plan: api.Plan{Summary: summary}, apply: func(ctx context.Context) (*api.Job, error) {
			return nil, a.o.DB.RemoveCap(ctx, r.ID)
		}}, nil
	}
	return nil, notFoundError(fmt.Sprintf("there is no cap %d", r.ID), "cleave cap list has those that hold")
}

// checkThrottles finds where writers have to wait.
func (a *Admin) checkThrottles(s *api.Status, find func(severity, fix, format string, args ...any)) {
	for _, t := range a.node.Throttles().List() {
		s.Throttles = append(s.Throttles, toThrottle(&t))
		if slices.ContainsFunc(s.Hot, func(h api.Hot) bool { return h.Throttle != nil && h.Shard == uint64(t.Shard) }) {
			continue // it is found to be hot, which says more
		}
		find(api.Degraded, fmt.Sprint("cleave shard explain ", uint64(t.Shard)), "shard %d is throttled at %s writes a second: %s", uint64(t.Shard), output.Rate(t.WritesPerSecond), t.Reason)
	}
	for _, c := range a.o.DB.Caps() {
		find(api.Degraded, fmt.Sprint("cleave cap remove ", c.ID), "cap %d holds: %s; %s refused", c.ID, describeCap(c), output.Plural(c.Refused, "write"))
	}
}
