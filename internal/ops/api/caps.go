package api

import "time"

// Cap limits how many writes a second are admitted to a shard, or to the keys of a keyspace that begin with a prefix.
type Cap struct {
	ID uint64 `json:"id"`
	// Shard is whose keys are capped, as they were when it was set. Without it Keyspace and Prefix say which.
	Shard    uint64 `json:"shard,omitempty"`
	Keyspace string `json:"keyspace,omitempty"`
	Prefix   *Key   `json:"prefix,omitempty"`
	// WritesPerSecond is how many are admitted, 0 for none.
	WritesPerSecond float64 `json:"writes_per_second"`
	// Until is when it ends by itself; it does not without.
	Until *time.Time `json:"until,omitempty"`
	// Refused is how many writers were refused since the start of the server.
	Refused uint64 `json:"refused"`
}

// SetCap sets a cap of a shard, or of a prefix, in the place of one of the same.
type SetCap struct {
	Shard uint64 `json:"shard,omitempty"`
	// Keyspace is that of the prefix. Default the default one.
	Keyspace string `json:"keyspace,omitempty"`
	// Prefix is what keys begin with; empty for all keys of the keyspace.
	Prefix *Key `json:"prefix,omitempty"`
	// WritesPerSecond is how many are admitted, 0 for none.
	WritesPerSecond float64 `json:"writes_per_second"`
	// Seconds is for how long; 0 until it is removed.
	Seconds float64 `json:"seconds,omitempty"`
}

// RemoveCap removes a cap.
type RemoveCap struct {
	ID uint64 `json:"id"`
}

// ShardThrottle is why writers of a shard have to wait, other than for a cap.
type ShardThrottle struct {
	Shard uint64 `json:"shard"`
	// WritesPerSecond is how many are admitted, until Until or what renews it.
	WritesPerSecond float64   `json:"writes_per_second"`
	Reason          string    `json:"reason"`
	Until           time.Time `json:"until"`
	Refused         uint64    `json:"refused"`
}
