package admin

import (
	"slices"

	"github.com/cleavekv/cleave/internal/api"
)

// routes is all that is served. The order is that of the document.
func (a *Admin) routes() []route {
	return slices.Concat(a.reads(), a.mapActions(), a.otherActions(), a.health())
}

var inKeyspace = param{api.QueryKeyspace, "string", "only those of a keyspace"}

// reads are what tells something.
func (a *Admin) reads() []route {
	return []route{
		read(api.PathStatus, "status", "How the server is: the verdict first.", nil, a.status),
		read(api.PathMap, "map", "Which group has which keys, at one version.", nil, a.wholeMap),
		list(api.PathShards, "listShards", "Shards in the order of their keys.", []param{inKeyspace, {api.QueryGroup, "integer", "only those of a group"}}, a.shards),
		read(api.PathShard, "getShard", "One shard, with its explanation.", nil, a.shard),
		list(api.PathGroups, "listGroups", "Groups by id.", nil, a.groups),
		list(api.PathKeyspaces, "listKeyspaces", "Keyspaces by name.", nil, a.keyspaces),
		list(api.PathIndexes, "listIndexes", "Indexes by keyspace and name, with how they are.", []param{inKeyspace}, a.indexes),
		list(api.PathJobs, "listJobs", "Jobs under way and the last ones that have ended, the oldest first.", []param{{api.QueryState, "string", "only those in a state"}}, a.jobs),
		read(api.PathJob, "getJob", "One job.", nil, a.job),
		list(api.PathSagas, "listSagas", "Sagas of a journal: those that have not ended, then the others, each by id.", []param{
			{api.QueryKeyspace, "string", "the keyspace of the journal: default sagas"}, {api.QueryState, "string", "only those in a state: running, compensating, completed, compensated or stuck"},
		}, a.sagas),
		read(api.PathExplain, "explain", "Where a key, a slot or a shard is, and why. One of them is given.", []param{
			{api.QueryKeyspace, "string", "the keyspace of the key or slot: default the default one"}, {api.QueryKey, "key", "a key"},
			{api.QuerySlot, "integer", "a slot of a hash keyspace"}, {api.QueryShard, "integer", "a shard"},
		}, a.explain),
		list(api.PathClients, "listClients", "Connections of Redis clients, the oldest first.", nil, a.clients),
		list(api.PathSlowlog, "listSlow", "Requests that took long, the newest first, without their values.", nil, a.slowlog),
		list(api.PathConfig, "listSettings", "Settings of the server.", nil, a.settings),
		list(api.PathBackups, "listBackups", "Backups, the oldest first.", nil, a.backups),
		list(api.PathAudit, "listAudit", "The newest entries of the audit log, the newest first.", nil, a.audited),
	}
}

// mapActions change which group has which keys.
func (a *Admin) mapActions() []route {
	return []route{
		action(a, api.PathSplit, "split", "Cut shards at slots or keys, or one in its middle.", a.split),
		action(a, api.PathPresplit, "presplit", "Cut a keyspace into many shards before it has many keys.", a.presplit),
		action(a, api.PathMerge, "merge", "Join two shards that are neighbours.", a.merge),
		action(a, api.PathMove, "move", "Give a shard to another group.", a.move),
		action(a, api.PathDrain, "drain", "Move all shards of a group to others.", a.drain),
		action(a, api.PathUndrain, "undrain", "Let a group have shards again.", a.undrain),
		action(a, api.PathRegroup, "regroup", "Change how many groups there are.", a.regroup),
		action(a, api.PathPauseJob, "pauseJob", "Let a job begin nothing more that carries rows.", a.pauseJob),
		action(a, api.PathResumeJob, "resumeJob", "Let a paused job go on.", a.resumeJob),
		action(a, api.PathCancelJob, "cancelJob", "Take a job back.", a.cancelJob),
		action(a, api.PathThrottleJob, "throttleJob", "Bound how fast a job copies rows.", a.throttleJob),
	}
}

// otherActions change what else there is.
func (a *Admin) otherActions() []route {
	return []route{
		action(a, api.PathCreateKeyspace, "createKeyspace", "Make a keyspace.", a.createKeyspace),
		action(a, api.PathDropKeyspace, "dropKeyspace", "Remove a keyspace with all its keys and indexes.", a.dropKeyspace),
		action(a, api.PathDropIndex, "dropIndex", "Remove an index.", a.dropIndex),
		action(a, api.PathSetConfig, "setConfig", "Change settings, all or none, until the server ends.", a.setConfig),
		action(a, api.PathCreateBackup, "createBackup", "Copy the store while it works.", a.createBackup),
		action(a, api.PathVerifyBackup, "verifyBackup", "Open a copy of a backup and read all of it.", a.verifyBackup),
		action(a, api.PathRestoreBackup, "restoreBackup", "Make a directory of data from a backup, to be served by another server.", a.restoreBackup),
	}
}
