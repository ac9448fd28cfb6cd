package api

import "time"

// The verdicts on a server, the best first.
const (
	// Healthy: nothing to do.
	Healthy = "healthy"
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

	// Hottest is the shard that has most; none while it has little, or hardly more than
	// the others.
	Hottest *Hottest `json:"hottest,omitempty"`
	Stores  []Store  `json:"stores"`
	// Jobs are those under way, the oldest first.
	Jobs []Job `json:"jobs"`
	// Events are the last things that happened, the newest first.
	Events []Event `json:"events"`
}

// Finding is something that wants to be looked at.
type Finding struct {
	// Severity is the verdict that it leads to.
	Severity string `json:"severity"`
	Message  string `json:"message"`
	// Fix is what to do, a command if there is one.
	Fix string `json:"fix,omitempty"`
}

// Hottest compares the shard that has most with the others. By says what was measured.
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
	// Failed says why it has stopped.
	Failed string `json:"failed,omitempty"`
}

// Event is something that happened.
type Event struct {
	Time    time.Time `json:"time"`
	Kind    string    `json:"kind"`
	Message string    `json:"message"`
	// Command shows more about it.
	Command string `json:"command,omitempty"`
}
