package redis

// The commands that are about the connection or the server. They are described here and
// answered by package serve: a test holds the two together.

func init() {
	connection()
	transactions()
	server()
}

func edge(name, group, since, summary string, arity int, flags Flag, acl Category) *Spec {
	return &Spec{Name: name, Arity: arity, Flags: Edge | flags, ACL: acl, Doc: Doc{group, since, summary, "O(1)", ""}}
}

// family is a command with others below it.
func family(name, group, since, summary string, subs ...*Spec) *Spec {
	return &Spec{Name: name, Arity: -2, Doc: Doc{group, since, summary, "", ""}, Subs: subs}
}

func connection() {
	const group = "connection"
	flags := NoScript | Loading | Stale
	sub := func(name, since, summary string, arity int, more Flag) *Spec {
		return edge("client|"+name, group, since, summary, arity, flags|more, Connection)
	}
	register(
		edge("ping", group, "1.0.0", "Answers that the server is there.", -1, Fast, Connection),
		edge("echo", group, "1.0.0", "Answers with what it is given.", 2, Fast, Connection),
		edge("auth", group, "1.0.0", "Says who the client is.", -2, flags|Fast|NoAuth|AllowBusy, Connection),
		edge("hello", group, "6.0.0", "Chooses the version of the protocol, and says who the client is.", -1, flags|Fast|NoAuth|AllowBusy, Connection),
		edge("select", group, "1.0.0", "Chooses the keyspace, by its name or number 0.", 2, Loading|Stale|Fast, Connection),
		edge("quit", group, "1.0.0", "Closes the connection.", -1, flags|Fast|NoAuth|AllowBusy, Connection),
		edge("reset", group, "6.2.0", "Makes the connection as it was at first.", 1, flags|Fast|NoAuth|AllowBusy, Connection),
		family("client", group, "2.4.0", "What is about connections.",
			sub("id", "5.0.0", "Returns the number of the connection.", 2, 0),
			sub("getname", "2.6.9", "Returns the name of the connection.", 2, 0),
			sub("setname", "2.6.9", "Gives the connection a name.", 3, 0),
			sub("setinfo", "7.2.0", "Says which library the client uses.", 4, 0),
			sub("info", "6.2.0", "Returns what is known about the connection.", 2, 0),
			sub("list", "2.4.0", "Returns what is known about all connections.", -2, Admin),
			sub("kill", "2.4.0", "Closes other connections.", -3, Admin),
			sub("reply", "3.2.0", "Turns answers off and on.", 3, 0),
			sub("no-evict", "7.0.0", "Accepted: connections are not evicted.", 3, Admin),
			sub("no-touch", "7.2.0", "Accepted: nothing remembers when a key was used.", 3, 0),
			sub("help", "5.0.0", "Returns how CLIENT is used.", 2, 0),
		),
	)
}

func transactions() {
	const group = "transactions"
	flags := NoScript | Loading | Stale
	watch := edge("watch", group, "2.2.0", "Makes the next EXEC fail if a key was changed.", -2, flags|Fast, Transaction)
	watch.Keys = Keys{1, -1, 1}
	register(
		edge("multi", group, "1.2.0", "Begins a transaction.", 1, flags|Fast, Transaction),
		edge("exec", group, "1.2.0", "Executes what was queued since MULTI, as one.", 1, flags, Transaction),
		edge("discard", group, "2.0.0", "Forgets what was queued since MULTI.", 1, flags|Fast, Transaction),
		watch,
		edge("unwatch", group, "2.2.0", "Forgets the keys that are watched.", 1, flags|Fast, Transaction),
	)
}

func server() {
	const group = "server"
	flags := Admin | NoScript | Loading | Stale
	register(
		family("config", group, "2.0.0", "What is about the configuration.",
			edge("config|get", group, "2.0.0", "Returns the configuration.", -3, flags, Dangerous),
			edge("config|set", group, "2.0.0", "Changes the configuration.", -4, flags, Dangerous),
			edge("config|resetstat", group, "2.0.0", "Sets counters back to 0.", 2, flags, Dangerous),
			edge("config|rewrite", group, "2.8.0", "Is refused: the configuration is not written by the server.", 2, flags, Dangerous),
			edge("config|help", group, "5.0.0", "Returns how CONFIG is used.", 2, Loading|Stale, 0),
		),
		edge("command", group, "2.8.13", "Returns all commands.", -1, Loading|Stale, Connection),
		edge("info", group, "1.0.0", "Returns figures about the server.", -1, Loading|Stale, Dangerous),
		edge("time", group, "2.6.0", "Returns the time of the server.", 1, Loading|Stale|Fast, 0),
		edge("dbsize", group, "1.0.0", "Returns how many keys there are.", 1, ReadOnly|Fast, Keyspace),
		edge("flushdb", group, "1.0.0", "Removes all keys of the keyspace.", -1, Write, Keyspace|Dangerous),
		edge("flushall", group, "1.0.0", "Removes all keys of all keyspaces.", -1, Write, Keyspace|Dangerous),
	)
}
