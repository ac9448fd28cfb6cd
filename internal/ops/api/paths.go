package api

import "strconv"

// DefaultAddr is where a server listens unless configured otherwise.
const DefaultAddr = "127.0.0.1:7380"

// EnvAddr is the variable that names another.
const EnvAddr = "CLEAVE_ADDR"

// EnvCACert is the variable that names a file of certificates of the authorities that may vouch for a server.
const EnvCACert = "CLEAVE_CACERT"

// PathPrefix is where the API begins.
const PathPrefix = "/api/v1"

// Paths outside of the API.
const (
	PathMetrics = "/metrics"
	PathLive    = "/livez"
	PathReady   = "/readyz"
)

// Paths that are read.
const (
	PathStatus    = PathPrefix + "/status"
	PathMap       = PathPrefix + "/map"
	PathShards    = PathPrefix + "/shards"
	PathShard     = PathPrefix + "/shards/{id}"
	PathGroups    = PathPrefix + "/groups"
	PathKeyspaces = PathPrefix + "/keyspaces"
	PathIndexes   = PathPrefix + "/indexes"
	PathJobs      = PathPrefix + "/jobs"
	PathJob       = PathPrefix + "/jobs/{id}"
	PathSagas     = PathPrefix + "/sagas"
	PathExplain   = PathPrefix + "/explain"
	PathClients   = PathPrefix + "/clients"
	PathSlowlog   = PathPrefix + "/slowlog"
	PathConfig    = PathPrefix + "/config"
	PathBackups   = PathPrefix + "/backups"
	PathAudit     = PathPrefix + "/audit"
	PathOpenAPI   = PathPrefix + "/openapi.json"
)

// Paths of actions: a POST of the request that has the same name.
const (
	PathSplit          = PathPrefix + "/shards/split"
	PathPresplit       = PathPrefix + "/shards/presplit"
	PathMerge          = PathPrefix + "/shards/merge"
	PathMove           = PathPrefix + "/shards/move"
	PathDrain          = PathPrefix + "/groups/drain"
	PathUndrain        = PathPrefix + "/groups/undrain"
	PathRegroup        = PathPrefix + "/groups/regroup"
	PathCreateKeyspace = PathPrefix + "/keyspaces/create"
	PathDropKeyspace   = PathPrefix + "/keyspaces/drop"
	PathDropIndex      = PathPrefix + "/indexes/drop"
	PathPauseJob       = PathPrefix + "/jobs/{id}/pause"
	PathResumeJob      = PathPrefix + "/jobs/{id}/resume"
	PathCancelJob      = PathPrefix + "/jobs/{id}/cancel"
	PathThrottleJob    = PathPrefix + "/jobs/{id}/throttle"
	PathSetConfig      = PathPrefix + "/config/set"
	PathCreateBackup   = PathPrefix + "/backups/create"
	PathVerifyBackup   = PathPrefix + "/backups/verify"
	PathRestoreBackup  = PathPrefix + "/backups/restore"
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
	QueryName     = "name"
	QueryRestored = "restored"
)

// HeaderActor is the user of a client, by its own account. It is written into the audit log as
// a claim, beside what is known.
const HeaderActor = "Cleave-Actor"

// Pages of lists.
const (
	DefaultPageItems = 200
	MaxPageItems     = 1000
)

// Page is a part of a list.
type Page[T any] struct {
	Items []T `json:"items"`
	// Next is where the next page begins, for ?after=; none at the end.
	Next string `json:"next,omitempty"`
	// Note is what there is to say about the whole list.
	Note string `json:"note,omitempty"`
}

// formatID is a number in a path.
func formatID(n uint64) string { return strconv.FormatUint(n, 10) }
