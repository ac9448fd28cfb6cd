package api

import "time"

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
	// Why says why it was taken back or has failed, or what it waits for.
	Why string `json:"why,omitempty"`
	// Result says what came of it.
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

// Over tells that the job has ended, whatever came of it.
func (j *Job) Over() bool {
	return j.State == JobDone || j.State == JobUndone || j.State == JobFailed
}

// Throttle bounds how fast a job copies rows; 0 lifts the bound.
type Throttle struct {
	BytesPerSecond uint64 `json:"bytes_per_second"`
}

// Nothing is the request of an action that needs no words.
type Nothing struct{}
