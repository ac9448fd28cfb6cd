package redis

func init() {
	edge := func(name, group, since, summary string, arity int, flags Flag, acl Category) *Spec {
		return &Spec{Name: name, Arity: arity, Flags: Edge | flags, ACL: acl, Doc: Doc{group, since, summary, "O(1)", ""}}
	}
	register(
		edge("ping", "connection", "1.0.0", "Answers that the server is there.", -1, Fast, Connection),
		edge("multi", "transactions", "1.2.0", "Begins a transaction.", 1, NoScript|Loading|Stale|Fast, Transaction),
		edge("exec", "transactions", "1.2.0", "Executes what was queued since MULTI.", 1, NoScript|Loading|Stale, Transaction),
		edge("discard", "transactions", "2.0.0", "Forgets what was queued since MULTI.", 1, NoScript|Loading|Stale|Fast, Transaction),
		&Spec{Name: "config", Arity: -2, Doc: Doc{"server", "2.0.0", "Reads and changes the configuration.", "", ""}, Subs: []*Spec{
			edge("config|get", "server", "2.0.0", "Returns the configuration.", -3, Admin|NoScript|Loading|Stale, Dangerous),
		}},
	)
}
