package api

import "time"

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
	// Load is what is asked of it.
	Load ShardLoad `json:"load"`
	// Changed is the version of the map in which it last changed.
	Changed uint64 `json:"changed"`
	// Job is at work on it.
	Job string `json:"job,omitempty"`
	// Why explains it, in sentences. Only a single shard has it.
	Why []string `json:"why,omitempty"`
}

// ShardLoad is what is asked of a shard, or of all shards of a group. An operation is what a request does with one
// key. A shard that is split keeps its counts, and the others of its pieces begin at zero.
type ShardLoad struct {
	// Counted since the start of the server.
	Reads    uint64 `json:"reads"`
	Writes   uint64 `json:"writes"`
	BytesIn  uint64 `json:"bytes_in"`
	BytesOut uint64 `json:"bytes_out"`
	Errors   uint64 `json:"errors"`
	// BusySeconds is the time that was spent on them, each with its share of the batch that it was executed in.
	BusySeconds float64 `json:"busy_seconds"`
	// ServiceP99Seconds is what 99 of 100 operations did not exceed from the begin of their execution to their reply,
	// and WaitP99Seconds before: both are less than twice too large.
	ServiceP99Seconds float64 `json:"service_p99_seconds"`
	WaitP99Seconds    float64 `json:"wait_p99_seconds"`
	// In a second, as of the last seconds: what was two seconds ago counts half. Busy is how much of the time of one processor, or of one disk, is spent on it.
	ReadsPerSecond    float64 `json:"reads_per_second"`
	WritesPerSecond   float64 `json:"writes_per_second"`
	BytesInPerSecond  float64 `json:"bytes_in_per_second"`
	BytesOutPerSecond float64 `json:"bytes_out_per_second"`
	ErrorsPerSecond   float64 `json:"errors_per_second"`
	Busy              float64 `json:"busy"`
}

// OpsPerSecond is how many operations there are in a second.
func (l *ShardLoad) OpsPerSecond() float64 { return l.ReadsPerSecond + l.WritesPerSecond }

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
	// Load is what is asked of the shards that it has, also before it had them.
	Load ShardLoad `json:"load"`
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

// Price is what a change is expected to cost and to bring.
type Price struct {
	// Rows and Bytes are to be carried to other stores, and Moves is how many shards get
	// another group.
	Rows  uint64 `json:"rows"`
	Bytes uint64 `json:"bytes"`
	Moves int    `json:"moves"`
	// Seconds is of all of it, PauseSeconds how long each range that goes to another
	// store takes no writes.
	Seconds      float64 `json:"seconds"`
	PauseSeconds float64 `json:"pause_seconds"`
	// SkewBefore and SkewAfter are how much more the fullest group has than the mean, in
	// bytes: 1 is even.
	SkewBefore float64 `json:"skew_before"`
	SkewAfter  float64 `json:"skew_after"`
}

// Plan is what an action would do.
type Plan struct {
	// Summary says it in a sentence, and Steps one by one, as far as they are known.
	Summary string   `json:"summary"`
	Steps   []string `json:"steps"`
	// Price is that of a change of the map; others have none.
	Price *Price `json:"price,omitempty"`
	// Irreversible reports whether it cannot be undone.
	Irreversible bool `json:"irreversible,omitempty"`
}

// Action is the answer to whatever changes something.
type Action struct {
	// DryRun is set if nothing was done.
	DryRun bool `json:"dry_run"`
	Plan   Plan `json:"plan"`
	// Job is, or was a moment ago, at work on it, with status 202; none if it took no job,
	// with status 200.
	Job *Job `json:"job,omitempty"`
}

// The states of jobs.
const (
	JobRunning = "running"
	JobPaused  = "paused"
	JobUndoing = "undoing"
	JobDone    = "done"
	JobUndone  = "undone"
	JobFailed  = "failed"
)

// Job is work that goes on after the answer. Those that change the map have a number as
// id, and survive restarts and crashes. Those of backups have one that begins with b, and
// end with the server.
type Job struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// State is running, paused, undoing, done, undone or failed.
	State string `json:"state"`
	// Phase is what it is at.
	Phase  string `json:"phase"`
	Parent string `json:"parent,omitempty"`
	// Shard goes From a group To another.
	Shard uint64 `json:"shard,omitempty"`
	From  uint64 `json:"from,omitempty"`
	To    uint64 `json:"to,omitempty"`
	// Why is why it was taken back or has failed, or what it waits for.
	Why string `json:"why,omitempty"`
	// Result is what came of it.
	Result string `json:"result,omitempty"`
	// Expected is what it was to cost when it began.
	Expected *Price `json:"expected,omitempty"`
	// Rows and Bytes were carried so far.
	Rows     uint64 `json:"rows"`
	Bytes    uint64 `json:"bytes"`
	Children int    `json:"children"`
	// PauseSeconds is the longest time in which its range took no writes,
	// PauseTotalSeconds all of them together.
	PauseSeconds      float64 `json:"pause_seconds"`
	PauseTotalSeconds float64 `json:"pause_total_seconds"`
	// LimitBytesPerSecond bounds how fast it copies; 0 is no bound.
	LimitBytesPerSecond uint64 `json:"limit_bytes_per_second"`
	// Progress is from 0 to 1, by the bytes that were expected. RateBytesPerSecond is
	// that since it began, and ETASeconds how long it will take at that rate; none if
	// that is not known.
	Progress           float64    `json:"progress"`
	RateBytesPerSecond float64    `json:"rate_bytes_per_second"`
	ETASeconds         *float64   `json:"eta_seconds,omitempty"`
	Created            time.Time  `json:"created"`
	Changed            time.Time  `json:"changed"`
	Ended              *time.Time `json:"ended,omitempty"`
}

// HasEnded reports whether the job has ended, whatever came of it.
func (j *Job) HasEnded() bool {
	return j.State == JobDone || j.State == JobUndone || j.State == JobFailed
}

// Throttle bounds how fast a job copies rows; 0 lifts the bound.
type Throttle struct {
	BytesPerSecond uint64 `json:"bytes_per_second"`
}

// Nothing is the request of an action that needs no words.
type Nothing struct{}
