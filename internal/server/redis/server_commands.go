package redis

// The commands that are about the connection or the server. They are described here and
// answered by package serve: a test holds the two together.

func init() {
	registerConnection()
	registerTransactions()
	registerServer()
	registerPubSub()
	registerCluster()
	registerScans()
	registerACL()
}

func newServerCommand(name, group, since, summary string, arity int, flags Flag, acl Category) *Spec {
	return &Spec{Name: name, Arity: arity, Flags: ServerCommand | flags, ACL: acl, Doc: Doc{group, since, summary, "O(1)", ""}}
}

// newFamily is a command with others below it.
func newFamily(name, group, since, summary string, subs ...*Spec) *Spec {
	return &Spec{Name: name, Arity: -2, Doc: Doc{group, since, summary, "", ""}, Subcommands: subs}
}

func registerConnection() {
	const group = "connection"
	flags := NoScript | Loading | Stale
	sub := func(name, since, summary string, arity int, more Flag) *Spec {
		return newServerCommand("client|"+name, group, since, summary, arity, flags|more, Connection)
	}
	register(
		newServerCommand("ping", group, "1.0.0", "Answers that the server is there.", -1, Fast, Connection),
		newServerCommand("echo", group, "1.0.0", "Answers with what it is given.", 2, Fast, Connection),
		newServerCommand("auth", group, "1.0.0", "Says who the client is.", -2, flags|Fast|NoAuth|AllowBusy, Connection),
		newServerCommand("hello", group, "6.0.0", "Chooses the version of the protocol, and says who the client is.", -1, flags|Fast|NoAuth|AllowBusy, Connection),
		newServerCommand("select", group, "1.0.0", "Chooses the keyspace, by its name or number 0.", 2, Loading|Stale|Fast, Connection),
		newServerCommand("quit", group, "1.0.0", "Closes the connection.", -1, flags|Fast|NoAuth|AllowBusy, Connection),
		newServerCommand("reset", group, "6.2.0", "Makes the connection as it was at first.", 1, flags|Fast|NoAuth|AllowBusy, Connection),
		newFamily("client", group, "2.4.0", "What is about connections.",
			sub("id", "5.0.0", "Returns the number of the connection.", 2, 0),
			sub("getname", "2.6.9", "Returns the name of the connection.", 2, 0),
			sub("setname", "2.6.9", "Gives the connection a name.", 3, 0),
			sub("setinfo", "7.2.0", "Says which library the client uses.", 4, 0),
			sub("info", "6.2.0", "Returns what is known about the connection.", 2, 0),
			sub("list", "2.4.0", "Returns what is known about all connections.", -2, Admin),
			sub("kill", "2.4.0", "Closes other connections.", -3, Admin),
			sub("reply", "3.2.0", "Turns answers off and on.", 3, 0),
			sub("tracking", "6.0.0", "Tells the client when what it has read changes.", -3, 0),
			sub("caching", "6.0.0", "Says whether what the next request reads is tracked.", 3, 0),
			sub("trackinginfo", "6.2.0", "Returns what the client wants to hear.", 2, 0),
			sub("getredir", "6.0.0", "Returns who is told for the client.", 2, 0),
			sub("no-evict", "7.0.0", "Accepted: connections are not evicted.", 3, Admin),
			sub("no-touch", "7.2.0", "Accepted: nothing remembers when a key was used.", 3, 0),
			sub("help", "5.0.0", "Returns how CLIENT is used.", 2, 0),
		),
	)
}

func registerTransactions() {
	const group = "transactions"
	flags := NoScript | Loading | Stale
	watch := newServerCommand("watch", group, "2.2.0", "Makes the next EXEC fail if a key was changed.", -2, flags|Fast, Transaction)
	watch.Keys = KeySpec{1, -1, 1}
	watch.Doc.Difference = "A key that was absent, and is made and deleted again, counts as unchanged."
	register(
		newServerCommand("multi", group, "1.2.0", "Begins a transaction.", 1, flags|Fast, Transaction),
		newServerCommand("exec", group, "1.2.0", "Executes what was queued since MULTI, as one.", 1, flags, Transaction),
		newServerCommand("discard", group, "2.0.0", "Forgets what was queued since MULTI.", 1, flags|Fast, Transaction),
		watch,
		newServerCommand("unwatch", group, "2.2.0", "Forgets the keys that are watched.", 1, flags|Fast, Transaction),
	)
}

func registerServer() {
	const group = "server"
	flags := Admin | NoScript | Loading | Stale
	config := func(name, since, summary string, arity int) *Spec {
		return newServerCommand("config|"+name, group, since, summary, arity, flags, Dangerous)
	}
	const measured = "Requests that were executed together have each taken all the time until they were durable, and waits for the disk, locks and other groups count. In `INFO commandstats` they share that time."
	slow := func(name, summary string, arity int) *Spec {
		s := newServerCommand("slowlog|"+name, group, "2.2.12", summary, arity, Admin|Loading|Stale, Dangerous)
		s.Doc.Difference = "The time is what the client has waited for; the last argument says in which shard and group, if it was one. Of requests that have waited together some are noted; a GET that is answered from memory at once is not."
		return s
	}
	latency := func(name, summary string, arity int) *Spec {
		s := newServerCommand("latency|"+name, group, "2.8.13", summary, arity, Admin|NoScript|Loading|Stale, Dangerous)
		s.Doc.Difference = "The events are `batch`, requests that were executed and made durable together, and `command`, one that waited for the disk, for a lock or for several groups."
		return s
	}
	hotkeys := func(name, summary string, arity int) *Spec {
		s := newServerCommand("hotkeys|"+name, group, "8.6.0", summary, arity, Admin|NoScript, Dangerous)
		s.Doc.Difference = "It is about the default keyspace, and of a key that is longer than 256 bytes it has the beginning and a hash. Time is that of the operation's share of its batch. `cleave hotkeys` needs no START."
		return s
	}
	histogram := newServerCommand("latency|histogram", group, "7.0.0", "Returns how many calls of commands took up to how long.", -2, Admin|NoScript|Loading|Stale, Dangerous)
	histogram.Doc.Difference = measured
	register(
		newFamily("config", group, "2.0.0", "What is about the configuration.",
			config("get", "2.0.0", "Returns the configuration.", -3),
			config("set", "2.0.0", "Changes the configuration.", -4),
			config("resetstat", "2.0.0", "Sets counters back to 0.", 2),
			config("rewrite", "2.8.0", "Is refused: the server does not write the file of its settings, and keeps users by itself.", 2),
			newServerCommand("config|help", group, "5.0.0", "Returns how CONFIG is used.", 2, Loading|Stale, 0),
		),
		newCommandFamily(),
		newFamily("slowlog", group, "2.2.12", "What is about requests that took long.",
			slow("get", "Returns the newest requests that took long.", -2),
			slow("len", "Returns how many requests that took long are kept.", 2),
			slow("reset", "Forgets the requests that took long.", 2),
			newServerCommand("slowlog|help", group, "6.2.0", "Returns how SLOWLOG is used.", 2, Loading|Stale, 0),
		),
		newFamily("hotkeys", group, "8.6.0", "What is about keys that are asked for much.",
			hotkeys("start", "Begins to track hot keys.", -2),
			hotkeys("stop", "Ends the tracking, and keeps what was found.", 2),
			hotkeys("get", "Returns what was found.", 2),
			hotkeys("reset", "Forgets what was found.", 2),
			newServerCommand("hotkeys|help", group, "8.6.0", "Returns how HOTKEYS is used.", 2, Loading|Stale, 0),
		),
		newFamily("latency", group, "2.8.13", "What is about times that were long.",
			latency("latest", "Returns the newest and the longest time of each event.", 2),
			latency("history", "Returns the longest times of an event, second by second.", 3),
			histogram,
			latency("reset", "Forgets the times of events.", -2),
			latency("doctor", "Returns what took long, as text.", 2),
			newServerCommand("latency|help", group, "2.8.13", "Returns how LATENCY is used.", 2, Loading|Stale, 0),
		),
		newServerCommand("info", group, "1.0.0", "Returns figures about the server.", -1, Loading|Stale, Dangerous),
		newServerCommand("time", group, "2.6.0", "Returns the time of the server.", 1, Loading|Stale|Fast, 0),
		newServerCommand("dbsize", group, "1.0.0", "Returns how many keys there are.", 1, ReadOnly|Fast, Keyspace),
		newServerCommand("flushdb", group, "1.0.0", "Removes all keys of the keyspace.", -1, Write, Keyspace|Dangerous),
		newServerCommand("flushall", group, "1.0.0", "Removes all keys of all keyspaces.", -1, Write, Keyspace|Dangerous),
		newServerCommand("save", group, "1.0.0", "Waits until all that was written is on disk.", 1, Admin|NoScript|NoMulti, Dangerous),
		newServerCommand("bgsave", group, "1.0.0", "Waits until all that was written is on disk.", -1, Admin|NoScript, Dangerous),
		newServerCommand("shutdown", group, "1.0.0", "Ends the server, as SIGTERM does: what was acknowledged is kept.", -1, Admin|NoScript|NoMulti|Loading|Stale, Dangerous),
		newServerCommand("lastsave", group, "1.0.0", "Returns the time: all that was acknowledged is kept.", 1, Loading|Stale|Fast, Dangerous),
		newServerCommand("lolwut", group, "5.0.0", "Returns the version.", -1, ReadOnly|Fast, 0),
		newServerCommand("role", group, "2.8.12", "Returns that this is a master without replicas.", 1, NoScript|Loading|Stale|Fast, Dangerous),
		newServerCommand("wait", "generic", "3.0.0", "Returns 0: there are no replicas.", 3, NoScript, Connection),
		newFamily("module", group, "4.0.0", "What is about modules.",
			newServerCommand("module|list", group, "4.0.0", "Returns one that is built in: the commands that Redis does not have.", 2, Admin|NoScript, 0),
			newServerCommand("module|help", group, "5.0.0", "Returns how MODULE is used.", 2, Loading|Stale, 0),
		),
		newFamily("function", "scripting", "7.0.0", "What is about functions.",
			newServerCommand("function|flush", "scripting", "7.0.0", "Is accepted: there are no functions.", -2, Write|NoScript, ScriptingType),
			newServerCommand("function|list", "scripting", "7.0.0", "Returns that there are none.", -2, NoScript, ScriptingType),
		),
	)
}

func newCommandFamily() *Spec {
	const group = "server"
	sub := func(name, since, summary string, arity int) *Spec {
		return newServerCommand("command|"+name, group, since, summary, arity, Loading|Stale, Connection)
	}
	f := newFamily("command", group, "2.8.13", "Returns all commands.",
		sub("count", "2.8.13", "Returns how many commands there are.", 2),
		sub("docs", "7.0.0", "Returns what commands are for.", -2),
		sub("getkeys", "2.8.13", "Returns which words of a request are keys.", -4),
		sub("info", "2.8.13", "Returns commands.", -2),
		sub("list", "7.0.0", "Returns the names of commands.", -2),
		sub("help", "5.0.0", "Returns how COMMAND is used.", 2),
	)
	f.Arity, f.Flags = -1, ServerCommand|Loading|Stale
	return f
}

func registerPubSub() {
	const group = "pubsub"
	flags := PubSub | NoScript | Loading | Stale
	spec := func(name, since, summary string, arity int, more Flag) *Spec {
		return newServerCommand(name, group, since, summary, arity, flags|more, PubSubType)
	}
	sub := func(name, since, summary string, arity int) *Spec {
		return spec("pubsub|"+name, since, summary, arity, 0)
	}
	register(
		spec("subscribe", "2.0.0", "Listens to channels.", -2, 0),
		spec("unsubscribe", "2.0.0", "Stops listening to channels.", -1, 0),
		spec("psubscribe", "2.0.0", "Listens to all channels that fit patterns.", -2, 0),
		spec("punsubscribe", "2.0.0", "Stops listening to channels that fit patterns.", -1, 0),
		spec("ssubscribe", "7.0.0", "Listens to channels that belong to slots.", -2, 0),
		spec("sunsubscribe", "7.0.0", "Stops listening to channels that belong to slots.", -1, 0),
		spec("publish", "2.0.0", "Sends a message to all who listen to a channel.", 3, Fast),
		spec("spublish", "7.0.0", "Sends a message to all who listen to a channel that belongs to a slot.", 3, Fast),
		newFamily("pubsub", group, "2.8.0", "What is about channels.",
			sub("channels", "2.8.0", "Returns the channels that somebody listens to.", -2),
			sub("numsub", "2.8.0", "Returns how many listen to channels.", -2),
			sub("numpat", "2.8.0", "Returns how many patterns somebody listens to.", 2),
			sub("shardchannels", "7.0.0", "Returns the channels of slots that somebody listens to.", -2),
			sub("shardnumsub", "7.0.0", "Returns how many listen to channels of slots.", -2),
			sub("help", "6.2.0", "Returns how PUBSUB is used.", 2),
		),
	)
}

func registerCluster() {
	const group = "cluster"
	sub := func(name, since, summary string, arity int) *Spec {
		return newServerCommand("cluster|"+name, group, since, summary, arity, Loading|Stale, 0)
	}
	register(
		newFamily("cluster", group, "3.0.0", "What is about the cluster: this one has one node, which has all slots.",
			sub("info", "3.0.0", "Returns the state of the cluster.", 2),
			sub("nodes", "3.0.0", "Returns the nodes, as text.", 2),
			sub("slots", "3.0.0", "Returns which node has which slots.", 2),
			sub("shards", "7.0.0", "Returns which nodes have which slots.", 2),
			sub("myid", "3.0.0", "Returns the name of the node.", 2),
			sub("keyslot", "3.0.0", "Returns the slot of a key.", 3),
			sub("countkeysinslot", "3.0.0", "Returns how many keys a slot has.", 3),
			sub("getkeysinslot", "3.0.0", "Returns keys of a slot.", 4),
			sub("slot-stats", "8.2.0", "Returns what slots have, and what is asked of them.", -4),
			sub("help", "5.0.0", "Returns how CLUSTER is used.", 2),
		),
		newServerCommand("readonly", group, "3.0.0", "Is accepted: the node has the newest state.", 1, Loading|Stale|Fast, Connection),
		newServerCommand("readwrite", group, "3.0.0", "Is accepted.", 1, Loading|Stale|Fast, Connection),
		newServerCommand("asking", group, "3.0.0", "Is accepted: nothing is asked for twice.", 1, Fast, Connection),
	)
}

// registerScans are the commands that look at many keys.
func registerScans() {
	const group = "generic"
	spec := func(name, since, summary string, arity int, keys KeySpec, acl Category) *Spec {
		s := newServerCommand(name, group, since, summary, arity, ReadOnly, acl)
		s.Keys, s.Doc.Complexity = keys, "O(N) for N keys"
		return s
	}
	hscan := spec("hscan", "2.8.0", "Returns some fields of a hash, and where to go on.", -3, KeySpec{1, 1, 1}, HashType)
	hscan.Doc.Group = "hash"
	hscan.Doc.Difference = "Option NOVALUES is as in Redis 7.4."
	register(
		spec("scan", "2.8.0", "Returns some keys, and where to go on.", -2, KeySpec{}, Keyspace), hscan,
		spec("keys", "1.0.0", "Returns all keys that fit a pattern.", 2, KeySpec{}, Keyspace|Dangerous),
		spec("randomkey", "1.0.0", "Returns a key by chance.", 1, KeySpec{}, Keyspace),
	)
}

const aclDiffers = "There are no selectors, patterns have no spaces, and a rule cannot be about the first argument of a command, as `+get|x`."

func registerACL() {
	const group = "server"
	sub := func(name, summary string, arity int, flags Flag, acl Category) *Spec {
		return newServerCommand("acl|"+name, group, "6.0.0", summary, arity, NoScript|Loading|Stale|flags, acl)
	}
	setUser := sub("setuser", "Makes or changes a user.", -3, Admin, Dangerous)
	setUser.Doc.Difference = aclDiffers
	register(newFamily("acl", group, "6.0.0", "What is about users.",
		sub("cat", "Returns the categories of commands, or the commands of one.", -2, 0, 0),
		sub("deluser", "Removes users, and closes their connections.", -3, Admin, Dangerous),
		sub("dryrun", "Reports whether a user may do something.", -4, Admin, Dangerous),
		sub("genpass", "Returns a password by chance.", -2, 0, 0),
		sub("getuser", "Returns what a user may do.", 3, Admin, Dangerous),
		sub("list", "Returns all users with their rules.", 2, Admin, Dangerous),
		sub("load", "Takes the users as they are kept in the store.", 2, Admin, Dangerous),
		sub("log", "Returns what was refused.", -2, Admin, Dangerous),
		sub("save", "Accepted: a user is kept when it is changed.", 2, Admin, Dangerous),
		setUser,
		sub("users", "Returns the names of all users.", 2, Admin, Dangerous),
		sub("whoami", "Returns the name of the user of the connection.", 2, 0, 0),
		sub("help", "Returns how ACL is used.", 2, 0, 0),
	))
}

// The commands that Redis does not have. They are named as those of a module are, so that
// no command that Redis gets one day can mean something else. Package serve answers them.

func init() { registerExtensions() }

// ModuleName is the name that the commands of this server alone begin with.
const ModuleName = "cleave"

func registerExtensions() {
	const since = "1.0.0"
	spec := func(name, summary, cost string, arity int, flags Flag, acl Category) *Spec {
		s := newServerCommand(ModuleName+"."+name, ModuleName, since, summary, arity, flags|NoScript, acl)
		s.Doc.Complexity = cost
		return s
	}
	key := func(s *Spec, at int) *Spec {
		s.Keys = KeySpec{at, at, 1}
		return s
	}
	about := func(s *Spec, how string) *Spec {
		s.Doc.Difference = how
		return s
	}
	register(
		about(spec("range", "Returns keys in order, and where to go on.", "O(N) for N keys of the page", -3, ReadOnly, Keyspace),
			"`CLEAVE.RANGE from to [PREFIX p] [REV] [LIMIT n] [WITHVALUES] [CURSOR c]`: bounds are as in ZRANGEBYLEX, `-`, `+`, `[key` or `(key`. "+
				"Only a keyspace of kind range has an order to bound; others are visited whole. The value of a hash is null. Keys that the user may not read are left out."),
		key(about(spec("explain", "Returns where a key is and what it holds.", "O(1)", 2, ReadOnly, Keyspace),
			"`CLEAVE.EXPLAIN key`: its keyspace, slot, shard, group and store, its type, size, version and expiry."), 1),
		about(spec("shards", "Returns the shards with what they have and who serves them.", "O(N) for N shards", -1, Admin, Dangerous),
			"`CLEAVE.SHARDS [keyspace]`. Rows and bytes are estimates."),
		newFamily(ModuleName+".counter", ModuleName, since, "What is about split counters.",
			key(about(spec("counter|add", "Adds to a split counter, which it makes if there is none.", "O(1)", 4, Write|DenyOOM|NoMulti|Fast, Keyspace),
				"`CLEAVE.COUNTER ADD name n`: see package counter. It returns no number: SUM does. The patterns of a user are about the name."), 2),
			key(about(spec("counter|sum", "Returns the sum of a split counter, 0 if there is none.", "O(N) for N parts", -3, ReadOnly|NoMulti|Fast, Keyspace),
				"`CLEAVE.COUNTER SUM name [MAXAGE ms]`: exact, or exact at most so long ago."), 2),
			spec("counter|help", "Returns how CLEAVE.COUNTER is used.", "O(1)", 2, Loading|Stale, 0),
		),
		newFamily(ModuleName+".index", ModuleName, since, "What is about indexes.",
			about(spec("index|create", "Makes an index on fields of the hashes of the keyspace.", "O(1), and O(N) for N keys in the background", -5, Write|Admin|DenyOOM|NoMulti, Keyspace|Dangerous),
				"`CLEAVE.INDEX CREATE name COLUMNS \"country, age:int\" [STORED n field …] [UNIQUE] [ASYNC]`. Not by a function: that takes a program that embeds the store."),
			about(spec("index|drop", "Removes an index.", "O(1), and O(N) for N entries in the background", 3, Write|Admin|NoMulti, Keyspace|Dangerous), "`CLEAVE.INDEX DROP name`"),
			about(spec("index|get", "Returns the first entry of an index with some values.", "O(log N)", -4, ReadOnly, Keyspace),
				"`CLEAVE.INDEX GET name value …`. Keys that the user may not read are left out."),
			about(spec("index|scan", "Returns entries of an index in order, and where to go on.", "O(N) for N entries of the page", -3, ReadOnly, Keyspace),
				"`CLEAVE.INDEX SCAN name [PREFIX n value …] [FROM n value …] [TO n value …] [REV] [LIMIT n] [CURSOR c] [FRESH]`: TO is not included. Keys that the user may not read are left out."),
			about(spec("index|info", "Returns what an index is and how it is.", "O(1)", 3, ReadOnly, Keyspace), "`CLEAVE.INDEX INFO name`"),
			about(spec("index|list", "Returns the names of the indexes of the keyspace.", "O(N) for N indexes", 2, ReadOnly, Keyspace), "`CLEAVE.INDEX LIST`"),
			spec("index|help", "Returns how CLEAVE.INDEX is used.", "O(1)", 2, Loading|Stale, 0),
		),
	)
}
