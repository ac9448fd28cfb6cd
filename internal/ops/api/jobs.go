package api

import (
	"time"
)

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
