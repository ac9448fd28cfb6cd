package api

// Shard is a stretch of keys that one group has.
type Shard struct {
	ID uint64 `json:"id"`
	// Keyspace is the one that it begins in; empty for the catalog's, and for positions
	// that no keyspace has.
	Keyspace string `json:"keyspace"`
	Kind     string `json:"kind,omitempty"`
	Group    uint64 `json:"group"`
	Store    int    `json:"store"`
	// FirstSlot and LastSlot are of a hash keyspace, both included.
	FirstSlot *int `json:"first_slot,omitempty"`
	LastSlot  *int `json:"last_slot,omitempty"`
	// StartKey and EndKey are of a range keyspace, EndKey not included; none for no bound.
	// A bound behind a large collection is its key with a zero byte behind it.
	StartKey *Key `json:"start_key,omitempty"`
	EndKey   *Key `json:"end_key,omitempty"`
	// Rows and Bytes are estimates, too high for a while after deletes. While its store
	// has failed they are what was measured last; 0 if nothing was since it was opened.
	Rows  uint64 `json:"rows"`
	Bytes uint64 `json:"bytes"`
	// Share is its part of all bytes, from 0 to 1.
	Share float64 `json:"share"`
	// Changed is the version of the map in which it last changed.
	Changed uint64 `json:"changed"`
	// Job is at work on it.
	Job string `json:"job,omitempty"`
	// Why explains it, in sentences. Only a single shard has it.
	Why []string `json:"why,omitempty"`
}

// Map is which group has which keys, one line for each shard, at one version.
type Map struct {
	Version uint64  `json:"version"`
	Groups  []Group `json:"groups"`
	Shards  []Shard `json:"shards"`
	// Truncated reports whether there are more shards than are shown: see the list of them.
	Truncated bool `json:"truncated,omitempty"`
}

// Group executes the commands of its shards one after another.
type Group struct {
	ID       uint64 `json:"id"`
	Store    int    `json:"store"`
	Draining bool   `json:"draining"`
	// Catalog reports whether it has the catalog: it cannot be drained.
	Catalog bool   `json:"catalog"`
	Shards  int    `json:"shards"`
	Rows    uint64 `json:"rows"`
	Bytes   uint64 `json:"bytes"`
	// QueueDepth is how many commands wait, Commands how many were executed.
	QueueDepth          int     `json:"queue_depth"`
	Commands            uint64  `json:"commands"`
	ServiceP99Seconds   float64 `json:"service_p99_seconds"`
	QueueWaitP99Seconds float64 `json:"queue_wait_p99_seconds"`
}

// Split cuts shards. One of Slots, Keys and Shard is given.
type Split struct {
	// Keyspace of Slots and Keys. Default the default one.
	Keyspace string `json:"keyspace,omitempty"`
	// Slots of a hash keyspace with which new shards begin.
	Slots []int `json:"slots,omitempty"`
	// Keys with which new shards begin. In a hash keyspace: with whose slots.
	Keys []Key `json:"keys,omitempty"`
	// Shard is cut in the middle: of its slots, or of its rows.
	Shard uint64 `json:"shard,omitempty"`
}

// Presplit cuts a keyspace before it has many keys. One of Into and Keys is given.
type Presplit struct {
	Keyspace string `json:"keyspace,omitempty"`
	// Into is how many pieces all slots of a hash keyspace are cut into.
	Into int `json:"into,omitempty"`
	// Keys of a range keyspace with which new shards begin.
	Keys []Key `json:"keys,omitempty"`
}

// Merge joins two shards that are neighbours and of one group.
type Merge struct {
	Left  uint64 `json:"left"`
	Right uint64 `json:"right"`
}

// Move gives a shard to another group.
type Move struct {
	Shard uint64 `json:"shard"`
	To    uint64 `json:"to"`
	// BytesPerSecond bounds how fast rows are copied; 0 is no bound.
	BytesPerSecond uint64 `json:"bytes_per_second,omitempty"`
}

// Drain moves all shards of a group to others.
type Drain struct {
	Group uint64 `json:"group"`
	// Parallel is how many are moved at a time. Default 1.
	Parallel       int    `json:"parallel,omitempty"`
	BytesPerSecond uint64 `json:"bytes_per_second,omitempty"`
}

// Undrain lets a group have shards again.
type Undrain struct {
	Group uint64 `json:"group"`
}

// Regroup changes how many groups there are.
type Regroup struct {
	Groups         int    `json:"groups"`
	Parallel       int    `json:"parallel,omitempty"`
	BytesPerSecond uint64 `json:"bytes_per_second,omitempty"`
}
