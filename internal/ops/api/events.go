package api

import (
	"context"
	"net/url"
	"strconv"
	"time"
)

// The kinds of events.
const (
	EventStart    = "start"
	EventSplit    = "split"
	EventMerge    = "merge"
	EventMove     = "move"
	EventThrottle = "throttle"
	// EventJob: another job, such as a drain or a backup.
	EventJob = "job"
	// EventChange: an operator or a client has changed something.
	EventChange = "change"
	// EventHeat: the load has become uneven, or even again.
	EventHeat = "heat"
)

// Event is something that happened.
type Event struct {
	// Time and TimeMS, in Unix milliseconds, are when: a job that has ended is at its end.
	Time   time.Time `json:"time"`
	TimeMS int64     `json:"time_ms"`
	// EndMS is the end of a throttle, none while it holds.
	EndMS   int64  `json:"end_ms,omitempty"`
	Kind    string `json:"kind"`
	Message string `json:"message"`
	// Command shows more about it.
	Command string `json:"command,omitempty"`
	// Outcome is the state of a job, or holds or ended of a throttle.
	Outcome string `json:"outcome,omitempty"`
	// Job has done it, and Decision has asked for it.
	Job      string `json:"job,omitempty"`
	Decision uint64 `json:"decision,omitempty"`
	// Shard is what it is about, the left one of a merge; From and To are groups. The same group has both but in a move.
	Shard uint64 `json:"shard,omitempty"`
	From  uint64 `json:"from,omitempty"`
	To    uint64 `json:"to,omitempty"`
	// Keyspace, Start and End are the keys of the shard as it was, or of both, End not included; none for no bound.
	// Keyspace is empty if the event is about no keys.
	Keyspace string `json:"keyspace,omitempty"`
	Start    *Bound `json:"start,omitempty"`
	End      *Bound `json:"end,omitempty"`
	// Cuts are where a shard was split.
	Cuts []Bound `json:"cuts,omitempty"`
}

// Bound is a place between keys: before Key; in a hash keyspace before Key of Slot, or before all keys of Slot if there is
// no key.
type Bound struct {
	Slot *int `json:"slot,omitempty"`
	Key  *Key `json:"key,omitempty"`
	// After reports that it is behind the key: between its elements, or behind all of them.
	After bool `json:"after,omitempty"`
}

// EventFilter says which events are wanted. The zero value is all of them.
type EventFilter struct {
	From, To       time.Time
	Kind, Keyspace string
	Shard          uint64
	// N is how many at most, 0 for as many as one answer has.
	N int
}

// Events returns what happened, the newest first.
func (c *Client) Events(ctx context.Context, f EventFilter) ([]Event, error) {
	q := url.Values{QueryLimit: {strconv.Itoa(MaxPageItems)}}
	if f.N > 0 {
		q.Set(QueryLimit, strconv.Itoa(min(f.N, MaxPageItems)))
	}
	for name, text := range map[string]string{QueryKind: f.Kind, QueryKeyspace: f.Keyspace} {
		if text != "" {
			q.Set(name, text)
		}
	}
	for name, t := range map[string]time.Time{QueryFrom: f.From, QueryTo: f.To} {
		if !t.IsZero() {
			q.Set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	if f.Shard != 0 {
		q.Set(QueryShard, formatID(f.Shard))
	}
	var p Page[Event]
	err := c.Get(ctx, PathEvents, q, &p)
	return p.Items, err
}

// Accepted returns which hot shards are left as they are.
func (c *Client) Accepted(ctx context.Context) ([]Acceptance, error) {
	return listAll[Acceptance](ctx, c, PathAccepted, nil)
}
