package api

import "strconv"

// DefaultAddr is where a server listens unless it is told otherwise.
const DefaultAddr = "127.0.0.1:7380"

// EnvAddr is the variable that names another.
const EnvAddr = "CLEAVE_ADDR"

// Prefix is where the API begins.
const Prefix = "/api/v1"

// Paths outside of the API.
const (
	PathMetrics = "/metrics"
	PathLive    = "/livez"
	PathReady   = "/readyz"
)

// Paths that are read.
const (
	PathStatus    = Prefix + "/status"
	PathMap       = Prefix + "/map"
	PathShards    = Prefix + "/shards"
	PathShard     = Prefix + "/shards/{id}"
	PathGroups    = Prefix + "/groups"
	PathKeyspaces = Prefix + "/keyspaces"
	PathIndexes   = Prefix + "/indexes"
	PathJobs      = Prefix + "/jobs"
	PathJob       = Prefix + "/jobs/{id}"
	PathSagas     = Prefix + "/sagas"
	PathExplain   = Prefix + "/explain"
	PathClients   = Prefix + "/clients"
	PathSlowlog   = Prefix + "/slowlog"
	PathConfig    = Prefix + "/config"
	PathBackups   = Prefix + "/backups"
	PathAudit     = Prefix + "/audit"
	PathOpenAPI   = Prefix + "/openapi.json"
)

// Paths of actions: a POST of the request that has the same name.
const (
	PathSplit          = Prefix + "/shards/split"
	PathPresplit       = Prefix + "/shards/presplit"
	PathMerge          = Prefix + "/shards/merge"
	PathMove           = Prefix + "/shards/move"
	PathDrain          = Prefix + "/groups/drain"
	PathUndrain        = Prefix + "/groups/undrain"
	PathRegroup        = Prefix + "/groups/regroup"
	PathCreateKeyspace = Prefix + "/keyspaces/create"
	PathDropKeyspace   = Prefix + "/keyspaces/drop"
	PathDropIndex      = Prefix + "/indexes/drop"
	PathPauseJob       = Prefix + "/jobs/{id}/pause"
	PathResumeJob      = Prefix + "/jobs/{id}/resume"
	PathCancelJob      = Prefix + "/jobs/{id}/cancel"
	PathThrottleJob    = Prefix + "/jobs/{id}/throttle"
	PathSetConfig      = Prefix + "/config/set"
	PathCreateBackup   = Prefix + "/backups/create"
	PathVerifyBackup   = Prefix + "/backups/verify"
	PathRestoreBackup  = Prefix + "/backups/restore"
)

// Names in queries.
const (
	QueryDryRun   = "dry_run"
	QueryLimit    = "limit"
	QueryAfter    = "after"
	QueryKeyspace = "keyspace"
	QueryGroup    = "group"
	QueryState    = "state"
	QueryKey      = "key"
	QuerySlot     = "slot"
	QueryShard    = "shard"
	QueryVerbose  = "verbose"
)

// HeaderActor is what a client says about who uses it. It is written into the audit log as
// a claim, beside what is known.
const HeaderActor = "Cleave-Actor"

// Pages of lists.
const (
	DefaultPage = 200
	MaxPage     = 1000
)

// Page is a part of a list.
type Page[T any] struct {
	Items []T `json:"items"`
	// Next is where the next page begins, for ?after=; none at the end.
	Next string `json:"next,omitempty"`
	// Note says what there is to say about the whole list.
	Note string `json:"note,omitempty"`
}

// id is a number in a path.
func id(n uint64) string { return strconv.FormatUint(n, 10) }
