package redis

// The commands that Redis does not have. They are named as those of a module are, so that
// no command that Redis gets one day can mean something else. Package serve answers them.

func init() { extensions() }

// Module is the name that the commands of this server alone begin with.
const Module = "cleave"

func extensions() {
	const since = "1.0.0"
	spec := func(name, summary, cost string, arity int, flags Flag, acl Category) *Spec {
		s := edge(Module+"."+name, Module, since, summary, arity, flags|NoScript, acl)
		s.Doc.Complexity = cost
		return s
	}
	key := func(s *Spec, at int) *Spec {
		s.Keys = Keys{at, at, 1}
		return s
	}
	about := func(s *Spec, how string) *Spec {
		s.Doc.Differs = how
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
		family(Module+".counter", Module, since, "What is about split counters.",
			key(about(spec("counter|add", "Adds to a split counter, which it makes if there is none.", "O(1)", 4, Write|DenyOOM|NoMulti|Fast, Keyspace),
				"`CLEAVE.COUNTER ADD name n`: see package counter. It returns no number: SUM does. The patterns of a user are about the name."), 2),
			key(about(spec("counter|sum", "Returns the sum of a split counter, 0 if there is none.", "O(N) for N parts", -3, ReadOnly|NoMulti|Fast, Keyspace),
				"`CLEAVE.COUNTER SUM name [MAXAGE ms]`: exact, or exact at most so long ago."), 2),
			spec("counter|help", "Returns how CLEAVE.COUNTER is used.", "O(1)", 2, Loading|Stale, 0),
		),
		family(Module+".index", Module, since, "What is about indexes.",
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
