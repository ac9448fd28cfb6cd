package api

import (
	"encoding/json"
	"time"
)

// The verdicts on a server, the best first.
const (
	// Healthy: nothing to do.
	Healthy = "healthy"
	// Notice: something to look at that needs no help by now. It is the severity of findings that leave a verdict as it is.
	Notice = "notice"
	// Degraded: it serves, and something wants to be looked at.
	Degraded = "degraded"
	// Unhealthy: it refuses something that it is asked for.
	Unhealthy = "unhealthy"
)

// Status is how a server is: the verdict first.
type Status struct {
	Verdict string `json:"verdict"`
	// Findings are the reasons for it, the worst first.
	Findings []Finding `json:"findings"`
	// FailuresTolerated is how many machines may be lost without losing data.
	FailuresTolerated int `json:"failures_tolerated"`

	Version       string    `json:"version"`
	Go            string    `json:"go"`
	Started       time.Time `json:"started"`
	UptimeSeconds float64   `json:"uptime_seconds"`
	// Durability is always, everysec or no; Storage is disk or memory.
	Durability string `json:"durability"`
	Storage    string `json:"storage"`

	MapVersion uint64 `json:"map_version"`
	Shards     int    `json:"shards"`
	Groups     int    `json:"groups"`
	// Keyspaces is how many there are, without those of entries of indexes.
	Keyspaces int    `json:"keyspaces"`
	Rows      uint64 `json:"rows"`
	Bytes     uint64 `json:"bytes"`
	// Clients are connected, of at most so many.
	Clients    int `json:"clients"`
	MaxClients int `json:"max_clients"`
	// MemoryBytes is what of the store is in memory, and MaxMemoryBytes how much may be,
	// if it is all there; 0 for no limit.
	MemoryBytes    int64 `json:"memory_bytes"`
	MaxMemoryBytes int64 `json:"max_memory_bytes"`
	// Commands were executed for clients since the start.
	Commands uint64 `json:"commands"`

	// Hottest is the shard that is asked most, and Fullest the one that has most; none while that is little, or
	// hardly more than the others.
	Hottest *Hottest `json:"hottest,omitempty"`
	Fullest *Hottest `json:"fullest,omitempty"`
	Stores  []Store  `json:"stores"`
	// Jobs are those under way, the oldest first.
	Jobs []Job `json:"jobs"`
	// Events are the last things that happened, the newest first.
	Events []Event `json:"events"`
	// Hot are shards, and machines, that need attention, hot keys first; cold ones are none.
	Hot []Hot `json:"hot,omitempty"`
	// Throttles are shards whose writers have to wait, so that others do not.
	Throttles []ShardThrottle `json:"throttles,omitempty"`
}

// Finding is something that wants to be looked at.
type Finding struct {
	// Severity is the verdict that it leads to: degraded or unhealthy, or notice for one that leaves it as it is.
	Severity string `json:"severity"`
	Message  string `json:"message"`
	// Fix is what to do, a command if there is one.
	Fix string `json:"fix,omitempty"`
}

// Hottest compares the shard that has most of something with the others. By says what was measured: operations, those of
// a second, or bytes.
type Hottest struct {
	By    string  `json:"by"`
	Shard uint64  `json:"shard"`
	Value float64 `json:"value"`
	Mean  float64 `json:"mean"`
	// Ratio is how much more it has than the mean.
	Ratio float64 `json:"ratio"`
}

// Store is a log with its tables.
type Store struct {
	ID                  int     `json:"id"`
	Groups              int     `json:"groups"`
	TableBytes          int64   `json:"table_bytes"`
	LogWrittenBytes     uint64  `json:"log_written_bytes"`
	LogSyncs            uint64  `json:"log_syncs"`
	CacheBytes          int64   `json:"cache_bytes"`
	CacheHitRatio       float64 `json:"cache_hit_ratio"`
	UnappliedBytes      int64   `json:"unapplied_bytes"`
	CompactionDebtBytes uint64  `json:"compaction_debt_bytes"`
	QueueDepth          int     `json:"queue_depth"`
	Commands            uint64  `json:"commands"`
	ServiceP99Seconds   float64 `json:"service_p99_seconds"`
	QueueWaitP99Seconds float64 `json:"queue_wait_p99_seconds"`
	DiskFull            bool    `json:"disk_full"`
	// Failed is why it has stopped.
	Failed string `json:"failed,omitempty"`
}

// Connection is one of a Redis client.
type Connection struct {
	ID             uint64  `json:"id"`
	Addr           string  `json:"addr"`
	Name           string  `json:"name,omitempty"`
	User           string  `json:"user"`
	Keyspace       string  `json:"keyspace"`
	AgeSeconds     float64 `json:"age_seconds"`
	IdleSeconds    float64 `json:"idle_seconds"`
	Command        string  `json:"command,omitempty"`
	Library        string  `json:"library,omitempty"`
	LibraryVersion string  `json:"library_version,omitempty"`
	Protocol       int     `json:"protocol"`
	Subscriptions  int     `json:"subscriptions"`
}

// Slow is a request that took long. Its values are left out.
type Slow struct {
	ID      int64     `json:"id"`
	Time    time.Time `json:"time"`
	Seconds float64   `json:"seconds"`
	Command string    `json:"command"`
	// Keys are the first of those that it names, cut if they are long.
	Keys []Key `json:"keys"`
	// Arguments is how many words it has.
	Arguments int `json:"arguments"`
	// Shard and Group are where it was executed, if that is one place.
	Shard  uint64 `json:"shard,omitempty"`
	Group  uint64 `json:"group,omitempty"`
	Client string `json:"client"`
	Name   string `json:"name,omitempty"`
}

// ObservedRequest is a request that left the fast path, in the form that trace collectors get:
// it is no part of the answers.
type ObservedRequest struct {
	Slow
	// Kind is "slow" for one that is in the slow log, and "transaction" for one whose keys
	// are in several groups, or that is a transaction for another reason.
	Kind string
	// Requests is how many were executed as one.
	Requests int
}

// Setting is one of the knobs of a server.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Meaning is what it does, and Unit what the value counts.
	Meaning string `json:"meaning"`
	Unit    string `json:"unit,omitempty"`
	// Live reports whether it can be changed while the server runs. If it is not, a change needs a
	// restart.
	Live bool `json:"live"`
	// Source is where it was set: default, file, env, flag, or runtime for a change since the
	// start. From is where: a place in the file, the name of a variable or of a flag.
	Source string `json:"source,omitempty"`
	From   string `json:"from,omitempty"`
	// Pending is the value that it gets with a restart, if that is another.
	Pending string `json:"pending,omitempty"`
}

// The words of Setting.Source beside those of the sources themselves.
const (
	SourceRuntime = "runtime"
	// HiddenValue is in the place of a secret that is set.
	HiddenValue = "(hidden)"
)

// SetConfig changes settings, all or none. They are not kept over a restart.
type SetConfig struct {
	Settings map[string]string `json:"settings"`
}

// Backup is a copy of the store in the directory of backups.
type Backup struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	// Bytes is the size of its files, whether or not the store has them too.
	Bytes  int64 `json:"bytes"`
	Files  int   `json:"files"`
	Stores int   `json:"stores"`
	// Complete reports whether it was written to its end, and has all its stores.
	Complete bool `json:"complete"`
	// Restored reports whether it was made from a backup, to be served.
	Restored bool `json:"restored,omitempty"`
	// Job is at work on it.
	Job string `json:"job,omitempty"`
}

// CreateBackup copies the store into the directory of backups.
type CreateBackup struct {
	// Name is 1 to 64 letters, digits, dots, dashes and underscores. Default the time.
	Name string `json:"name,omitempty"`
}

// VerifyBackup opens a copy of a backup and reads all of it.
type VerifyBackup struct {
	Name string `json:"name"`
}

// RestoreBackup makes a directory of data from a backup, beside it: opened, read to its
// end, and ready to be served. The running store stays as it is.
type RestoreBackup struct {
	Name string `json:"name"`
	// To is the name of the new directory.
	To string `json:"to"`
}

// The outcomes in the audit log.
const (
	// AuditBegun: it was allowed, and is written down before anything is changed.
	AuditBegun = "begun"
	// AuditDone: it is done, or its job has begun.
	AuditDone = "done"
	// AuditFailed: it was refused or has failed; nothing was changed, or Detail says what.
	AuditFailed = "failed"
	// AuditDenied: the client was not permitted.
	AuditDenied = "denied"
)

// Audit is an entry of the audit log: a change, its author, and its outcome.
type Audit struct {
	// Seq grows from entry to entry.
	Seq uint64 `json:"seq"`
	// ID is that of the request: what has begun and its end have the same.
	ID   string    `json:"id"`
	Time time.Time `json:"time"`
	// Who is how the request was let in, From where it came from, and Claims what the
	// client sent as the name of its user.
	Who    string `json:"who"`
	From   string `json:"from"`
	Claims string `json:"claims,omitempty"`
	// Action is the noun and verb, What the request, without secrets.
	Action  string `json:"action"`
	What    string `json:"what"`
	Outcome string `json:"outcome"`
	Detail  string `json:"detail,omitempty"`
	Job     string `json:"job,omitempty"`
}

// Check is a line of /readyz?verbose.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Detail is what is wrong.
	Detail string `json:"detail,omitempty"`
}

// Ready is whether a server takes requests, and why not.
type Ready struct {
	Ready  bool    `json:"ready"`
	Checks []Check `json:"checks"`
}

// LiveAnswer is the data of an event of PathStream: what a GET of the path answers, error or not.
type LiveAnswer struct {
	// Path is as it was asked for in QueryWatch.
	Path   string          `json:"path"`
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body"`
}
