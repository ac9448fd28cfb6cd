package api

import "time"

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

// Slow is a request that took long. Its values are not told.
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

// Observed is a request that did not go the short way, as whoever collects traces is told:
// it is no part of the answers.
type Observed struct {
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
	// Meaning says what it does, and Unit what the value counts.
	Meaning string `json:"meaning"`
	Unit    string `json:"unit,omitempty"`
	// Live tells that it can be changed while the server runs.
	Live bool `json:"live"`
}

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
	// Complete tells that it was written to its end, and has all its stores.
	Complete bool `json:"complete"`
	// Restored tells that it was made from a backup, to be served.
	Restored bool `json:"restored,omitempty"`
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
	// AuditDenied: who asked may not.
	AuditDenied = "denied"
)

// Audit is an entry of the audit log: who has changed what, and what came of it.
type Audit struct {
	// Seq grows from entry to entry.
	Seq uint64 `json:"seq"`
	// ID is that of the request: what has begun and its end have the same.
	ID   string    `json:"id"`
	Time time.Time `json:"time"`
	// Who is how the request was let in, From where it came from, and Claims what the
	// client said about who uses it.
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
	// Detail says what is wrong.
	Detail string `json:"detail,omitempty"`
}

// Ready is whether a server takes requests, and why not.
type Ready struct {
	Ready  bool    `json:"ready"`
	Checks []Check `json:"checks"`
}
