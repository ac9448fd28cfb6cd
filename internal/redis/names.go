package redis

import "github.com/cleavekv/cleave/internal/command"

// Families returns the commands that are not below others, by name.
func Families() (specs []*Spec) {
	below := map[*Spec]bool{}
	for _, s := range all {
		for _, sub := range s.Subs {
			below[sub] = true
		}
	}
	for _, s := range all {
		if !below[s] {
			specs = append(specs, s)
		}
	}
	return specs
}

// Named returns the command of a name in lower case, nil if there is none.
func Named(name string) *Spec { return byName[name] }

// flagNames are those of COMMAND INFO. Those that are ours alone have none.
var flagNames = []struct {
	flag Flag
	name string
}{
	{Write, "write"}, {ReadOnly, "readonly"}, {DenyOOM, "denyoom"}, {Admin, "admin"}, {PubSub, "pubsub"}, {NoScript, "noscript"},
	{Blocking, "blocking"}, {Loading, "loading"}, {Stale, "stale"}, {NoAuth, "no_auth"}, {Fast, "fast"}, {NoMulti, "no_multi"},
	{AllowBusy, "allow_busy"}, {MovableKeys, "movablekeys"},
}

// Names are the names of flags.
func (f Flag) Names() (names []string) {
	for _, n := range flagNames {
		if f&n.flag != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

// categoryNames are those of ACL CAT.
var categoryNames = []struct {
	category Category
	name     string
}{
	{Keyspace, "keyspace"}, {ReadType, "read"}, {WriteType, "write"}, {StringType, "string"}, {HashType, "hash"}, {BitmapType, "bitmap"},
	{Connection, "connection"}, {Transaction, "transaction"}, {Dangerous, "dangerous"}, {Slow, "slow"}, {FastType, "fast"},
	{ScriptingType, "scripting"}, {PubSubType, "pubsub"}, {AdminType, "admin"}, {BlockingType, "blocking"},
}

// Names are the names of categories.
func (c Category) Names() (names []string) {
	for _, n := range categoryNames {
		if c&n.category != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

// CategoryNamed returns the category of a name.
func CategoryNamed(name string) (c Category, ok bool) {
	for _, n := range categoryNames {
		if n.name == name {
			return n.category, true
		}
	}
	return 0, false
}

// Categories are those that a command is in.
func (s *Spec) Categories() Category {
	c := s.ACL
	for _, f := range []struct {
		flag Flag
		in   Category
	}{{Write, WriteType}, {ReadOnly, ReadType}, {Admin, AdminType | Dangerous}, {PubSub, PubSubType}, {Blocking, BlockingType}, {Fast, FastType}} {
		if s.Flags&f.flag != 0 {
			c |= f.in
		}
	}
	if s.Flags&Fast == 0 {
		c |= Slow
	}
	if s.Keys.First == 0 && s.ACL&(Keyspace|StringType|HashType|BitmapType) == 0 {
		c &^= WriteType | ReadType
	}
	return c
}

// TypeName is Redis' name of a type of values.
func TypeName(k command.Kind) string { return typeNames[k] }
