// Package affinity answers one question: can the compiler keep a key away
// from the wrong shard? It can: shard identity is a type parameter here.
//
// Each shard is named by a type of yours, its tag:
//
//	type East struct{}
//	type West struct{}
//
// A [Space] declares the tags and how keys are placed. A [Home] is one shard
// of it, and [Home.Locate] makes a [Key]: a Key[East, string] only of a string
// that lives on East. A [Shard] of East takes no other keys, and neither does a
// function of yours with such a parameter. A function with one parameter S and
// two keys of it demands that both live on the same shard, whichever that is:
//
//	func transfer[S any](accounts *Shard[S, string, int], from, to Key[S, string], amount int) error
//
// Keys that arrive at run time enter typed code through a [Switch], whose
// construction fails if a shard has no case. To hand a key of one shard to
// another there is one door, [Bridge.Cross]: it is declared with its user and reason,
// counted, and shown to an audit function.
//
// What the compiler promises: no conversion, literal or assignment turns a key
// of one shard into a key of another. What is left to run time is refused with
// an error: the zero Key, and a key from another space that uses the same tags.
// Give every space its own tags and the compiler sees the latter too. Packages
// unsafe and reflect can break all of it. A tag that is not exported keeps its
// shard private to the package that can name it.
//
// Use it where the shards are few and known when the program is written:
// regions, tiers, a fixed set of in-process shards. It is no tool for shards
// that come and go, because types cannot. The number of tags and their indexes
// decide where keys live: changing either moves data, and nothing here does
// that for you.
package affinity
