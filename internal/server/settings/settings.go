package settings

import (
	"maps"
	"strconv"
	"strings"

	"github.com/cleavekv/cleave/internal/server/pubsub"
	"github.com/cleavekv/cleave/internal/server/resp"
	"github.com/cleavekv/cleave/internal/shard/command"
)

// A setting of Redis is one of four: honoured, immutable while the server runs, constant (Cleave has one value,
// and refuses any other), or about the encodings of Redis. No other setting is accepted without an effect.

// honouredSettings are the settings that CONFIG SET changes and the server obeys, with their first values.
// Server.applySettings and the readers of config.get are where they have their effect.
var honouredSettings = map[string]string{
	"client-output-buffer-limit": defaultBufferLimits, "cluster-slot-stats-enabled": "no", "latency-monitor-threshold": "0", "latency-tracking": "yes",
	"latency-tracking-info-percentiles": "50 99 99.9", "loglevel": "notice", "maxmemory": "0", "maxmemory-clients": "1073741824",
	"notify-keyspace-events": "", "protected-mode": "yes", "requirepass": "", "slowlog-log-slower-than": "10000", "slowlog-max-len": "128", "timeout": "0",
}

// encodingSettings are the settings that say how Redis encodes small values. Cleave has no such encodings: the
// settings are accepted and have no effect; no answer of Cleave depends on them. Redis' test suite sets them, and a refusal
// would end it.
var encodingSettings = map[string]string{
	"hash-max-listpack-entries": "128", "hash-max-listpack-value": "64", "hash-max-ziplist-entries": "128", "hash-max-ziplist-value": "64",
	"list-max-listpack-size": "-2", "list-max-ziplist-size": "-2", "list-compress-depth": "0",
	"set-max-intset-entries": "512", "set-max-listpack-entries": "128", "set-max-listpack-value": "64",
	"zset-max-listpack-entries": "128", "zset-max-listpack-value": "64", "zset-max-ziplist-entries": "128", "zset-max-ziplist-value": "64",
	"stream-node-max-bytes": "4096", "stream-node-max-entries": "100", "hll-sparse-max-bytes": "3000",
}

// constantGroup is settings that have one value, and why: CONFIG SET of another is refused with the reason.
type constantGroup struct {
	reason string
	values map[string]string
}

var constantSettings = []constantGroup{
	{"Cleave evicts nothing: noeviction is the only policy", map[string]string{"maxmemory-policy": "noeviction"}},
	{"Cleave evicts nothing, so that it keeps no samples and no counts of uses: use EXPIRE", map[string]string{
		"maxmemory-samples": "5", "lfu-log-factor": "10", "lfu-decay-time": "1",
	}},
	{"Cleave keeps a log and no snapshots: use appendfsync when the server starts, and cleave backup create for copies", map[string]string{
		"save": "", "appendonly": "yes", "rdbcompression": "yes", "rdbchecksum": "yes", "rdb-key-save-delay": "0", "key-load-delay": "0", "stop-writes-on-bgsave-error": "yes",
		"auto-aof-rewrite-percentage": "100", "aof-use-rdb-preamble": "yes",
	}},
	{"Cleave always removes what a deleted key leaves in the background", map[string]string{
		"lazyfree-lazy-expire": "yes", "lazyfree-lazy-user-del": "yes", "lazyfree-lazy-user-flush": "yes", "lazyfree-lazy-server-del": "yes",
	}},
	{"Cleave has no allocator to defragment: use GOGC and GOMEMLIMIT in the environment", map[string]string{"activedefrag": "no"}},
	{"Cleave has no timer to tune: expired keys are never returned, and are removed in the background", map[string]string{
		"active-expire-effort": "1", "hz": "10", "dynamic-hz": "yes",
	}},
	{"Cleave has keyspaces with names: use SELECT and a name", map[string]string{"databases": "1"}},
	{"Cleave has no replicas", map[string]string{
		"close-on-replica-write": "yes", "min-replicas-to-write": "0", "repl-ping-replica-period": "10",
	}},
	{"Cleave has no scripts: use MULTI and WATCH", map[string]string{"lua-time-limit": "5000", "busy-reply-threshold": "5000"}},
	{"the limits of a request are fixed, see docs/redis.md", map[string]string{
		"proto-max-bulk-len": strconv.Itoa(RequestLimits.Bulk), "client-query-buffer-limit": strconv.Itoa(RequestLimits.Total),
	}},
	{"the number of tracked keys is fixed", map[string]string{"tracking-table-max-keys": strconv.Itoa(pubsub.MaxTrackedKeys)}},
	{"the number of refusals in ACL LOG is fixed", map[string]string{"acllog-max-len": strconv.Itoa(MaxDeniedEntries)}},
	{"the time between probes is fixed", map[string]string{"tcp-keepalive": "300"}},
}

// constantReasons are the reasons of the constant settings, by their names.
var constantReasons = func() map[string]string {
	reasons := map[string]string{}
	for _, g := range constantSettings {
		for name := range g.values {
			reasons[name] = g.reason
		}
	}
	return reasons
}()

// Start are the settings that are chosen when the server starts.
type Start struct {
	Fsync, Dir, LogFile string
	Clients, Loops      int
	// Cluster makes the server report itself as a cluster, and Memory is set if the store is in memory.
	Cluster, Memory bool
}

// immutableSettings returns the settings that are chosen when the server starts.
func immutableSettings(o *Start) map[string]string {
	return map[string]string{
		"appendfsync": o.Fsync, "dir": o.Dir, "maxclients": strconv.Itoa(o.Clients), "io-threads": strconv.Itoa(o.Loops),
		"bind": "", "port": "0", "tls-port": "0", "logfile": o.LogFile, "cluster-enabled": FormatYesNo(o.Cluster),
	}
}

// firstSettings returns all settings with their first values.
func firstSettings(o *Start) map[string]string {
	all := immutableSettings(o)
	maps.Copy(all, honouredSettings)
	maps.Copy(all, encodingSettings)
	for _, g := range constantSettings {
		maps.Copy(all, g.values)
	}
	return all
}

// IsKnown reports whether there is a setting of a name.
func IsKnown(name string) bool {
	_, ok := firstSettings(&Start{})[name]
	return ok
}

// IsSecret reports whether the value of a setting must not be logged.
func IsSecret(name string) bool {
	return strings.Contains(name, "pass") || strings.Contains(name, "auth")
}

// FormatYesNo returns a setting that is yes or no.
func FormatYesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// RequestLimits are the limits of clients with permissions.
var RequestLimits = resp.Limits{Args: 1 << 20, Bulk: command.MaxValueBytes, Total: 2 * command.MaxTxnBytes}

// MaxDeniedEntries is how many refusals are kept for ACL LOG.
const MaxDeniedEntries = 128
