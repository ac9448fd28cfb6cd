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
	Class    string `json:"class"`
	Shard    uint64 `json:"shard,omitempty"`
	Group    uint64 `json:"group"`
	Key      *Key   `json:"key,omitempty"`
	Evidence string `json:"evidence"`
	Remedy   string `json:"remedy,omitempty"`
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

// Decisions returns the newest decisions, the newest first; those about a shard if that is not 0.
func (c *Client) Decisions(ctx context.Context, shard uint64, n int) ([]Decision, error) {
	query := url.Values{QueryLimit: {strconv.Itoa(min(n, MaxPageItems))}}
	if shard != 0 {
		query.Set(QueryShard, formatID(shard))
	}
	var p Page[Decision]
	err := c.Get(ctx, PathDecisions, query, &p)
	return p.Items, err
}

// Knobs returns all knobs.
func (c *Client) Knobs(ctx context.Context) ([]Knob, error) {
	return listAll[Knob](ctx, c, PathKnobs, nil)
}
