package api

import (
	"context"
	"net/url"
	"strconv"
	"time"
)

// Decision is what was decided about a hot, large or cold shard, and what came of it.
type Decision struct {
	ID uint64 `json:"id"`
	// Time is when it was made, Last when it was made last, and Times how often: to leave something as it is, for the same
	// reason, is one decision for as long as it lasts.
	Time  time.Time `json:"time"`
	Last  time.Time `json:"last"`
	Times int       `json:"times"`
	// Shard is what it is about, none if that is a group; With the right neighbour of a merge, and To the group that a
	// shard is moved to.
	Shard uint64 `json:"shard,omitempty"`
	With  uint64 `json:"with,omitempty"`
	Group uint64 `json:"group,omitempty"`
	To    uint64 `json:"to,omitempty"`
	// Change is keep, split, move, merge or throttle. Reason is why.
	Change string `json:"change"`
	Reason string `json:"reason"`
	// Class is what is wrong with the shard, Evidence the figures that show it, and Remedy what an application can do.
	Class    string `json:"class,omitempty"`
	Evidence string `json:"evidence,omitempty"`
	Remedy   string `json:"remedy,omitempty"`
	// Key is the key that the reason is about, and Cuts are where a shard is split.
	Key  *Key  `json:"key,omitempty"`
	Cuts []Key `json:"cuts,omitempty"`
	// WorkBefore is the share of its time that the group was at work, WorkPredicted what it was to become, and
	// WorkMeasured what it became, once Judged is set.
	WorkBefore    float64    `json:"work_before"`
	WorkPredicted float64    `json:"work_predicted"`
	WorkMeasured  *float64   `json:"work_measured,omitempty"`
	Judged        *time.Time `json:"judged,omitempty"`
	// Job does it. Outcome is kept, proposed, running, done, helped, did not help or refused, Error why the last.
	Job     string `json:"job,omitempty"`
	Outcome string `json:"outcome"`
	Error   string `json:"error,omitempty"`
	ByHand  bool   `json:"by_hand,omitempty"`
}

// Hot is a shard, or a machine, that needs attention.
type Hot struct {
	// Class is hot key, hot range, moving edge, hot prefix, cross-shard contention, oversized, cold or saturated.
	Class string `json:"class"`
	// Shard is none of a machine. Keyspace is that of the shard.
	Shard    uint64 `json:"shard,omitempty"`
	Keyspace string `json:"keyspace,omitempty"`
	Group    uint64 `json:"group"`
	// Key is the key that is hot, or what the hot keys begin with.
	Key      *Key   `json:"key,omitempty"`
	Evidence string `json:"evidence"`
	Remedy   string `json:"remedy,omitempty"`
	// Heat is what is asked of the key, if it is one.
	Heat *HotKey `json:"heat,omitempty"`
	// Decision is the last one about the shard, or its group.
	Decision *Decision `json:"decision,omitempty"`
	// Throttle is why its writers have to wait, and Accepted why it is left as it is; none if they need not, and it is not.
	Throttle *ShardThrottle `json:"throttle,omitempty"`
	Accepted *Acceptance    `json:"accepted,omitempty"`
}

// Acceptance is the verdict that a hot shard stays as it is.
type Acceptance struct {
	Shard uint64 `json:"shard"`
	// Ground is brief-peaks, change-costs-more or end-of-life; Price is what it costs to leave the shard, and Reason why
	// that is better.
	Ground string    `json:"ground"`
	Price  string    `json:"price"`
	Reason string    `json:"reason"`
	Made   time.Time `json:"made"`
	Until  time.Time `json:"until"`
}

// BalancePlan is what was found, and what would be done about it now.
type BalancePlan struct {
	// Manual reports whether nothing is done until an operator asks for it.
	Manual bool `json:"manual"`
	// Imbalance is the work of the busiest group beside the mean of all: 1 is even, 0 is without load.
	Imbalance float64 `json:"imbalance"`
	// ExtraShards is about how many shards splits for this load may add: its work by the work below which pieces are merged.
	ExtraShards int         `json:"extra_shards"`
	Groups      []GroupWork `json:"groups"`
	Found       []Hot       `json:"found"`
	Decisions   []Decision  `json:"decisions"`
}

// GroupWork is the share of its time that a group is at work.
type GroupWork struct {
	Group uint64  `json:"group"`
	Work  float64 `json:"work"`
}

// Rebalance does now what the plan says.
type Rebalance struct{}

// Accept leaves a hot shard as it is for some time, or ends that.
type Accept struct {
	Shard uint64 `json:"shard"`
	// Ground is brief-peaks, change-costs-more or end-of-life; Price is what it costs to leave the shard, and Reason why
	// that is better.
	Ground  string  `json:"ground,omitempty"`
	Price   string  `json:"price,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	// End ends it instead.
	End bool `json:"end,omitempty"`
}

// MarkCritical marks a keyspace, so that heat on it is never accepted, or takes the mark away.
type MarkCritical struct {
	Keyspace string `json:"keyspace"`
	Off      bool   `json:"off,omitempty"`
}

// Knob is something that the loop of measuring and relieving is tuned by.
type Knob struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Default string `json:"default"`
	Help    string `json:"help"`
}

// SetKnobs changes knobs, all or none. An empty value is the default.
type SetKnobs struct {
	Values map[string]string `json:"values"`
}

// Plan returns what is found hot, and what would be done.
func (c *Client) Plan(ctx context.Context) (p BalancePlan, err error) {
	return p, c.Get(ctx, PathPlan, nil, &p)
}

// DecisionFilter says which decisions are wanted. The zero value is all of them.
type DecisionFilter struct {
	// Shard is one that they are about, or whose group.
	Shard uint64
	Class string
	// Since is when they were made last, or later.
	Since time.Time
	// N is how many at most.
	N int
}

// Decisions returns the newest decisions, the newest first.
func (c *Client) Decisions(ctx context.Context, f DecisionFilter) ([]Decision, error) {
	query := url.Values{QueryLimit: {strconv.Itoa(min(f.N, MaxPageItems))}}
	if f.Shard != 0 {
		query.Set(QueryShard, formatID(f.Shard))
	}
	if f.Class != "" {
		query.Set(QueryClass, f.Class)
	}
	if !f.Since.IsZero() {
		query.Set(QuerySince, f.Since.UTC().Format(time.RFC3339Nano))
	}
	var p Page[Decision]
	err := c.Get(ctx, PathDecisions, query, &p)
	return p.Items, err
}

// Knobs returns all knobs.
func (c *Client) Knobs(ctx context.Context) ([]Knob, error) {
	return listAll[Knob](ctx, c, PathKnobs, nil)
}
