// Package hotkey answers one question: which keys does a client wait for longer than for
// the others?
//
// A shard's own figures do not show one hot key among thousands. The client sees it: calls
// about that key take many times as long as those about the rest. A [Detector] is given
// calls, measures a few of them, and reports keys whose latency is many times the median
// of all keys. It needs no store and wraps any client; package redishook has a hook for
// go-redis.
//
// # Promises
//
//   - A call that is not measured costs some nanoseconds, and no memory.
//   - Memory is bounded, whatever keys come: at most Options.Keys of them, with at most
//     [MaxKeyBytes] bytes each.
//   - A key that has more than 1/Keys of all samples is tracked, however many others there
//     are. [Report.Bound] is that number. What may have been missed of a key before it
//     was tracked is reported with it.
//   - Old samples count less: each window halves them.
//
// # Choices
//
// By default one call of 1000 is measured, and a key counts as hot if it has 20 samples,
// at least 3 keys have as many, and its mean latency is more than 10 times the median of
// theirs. All of these are [Options].
//
// Keys are chosen by the Space-Saving algorithm: a key that comes when the table is full
// takes the place of the one with the fewest samples, and inherits its count as its error.
// Latencies are never inherited.
//
// # Limits
//
// It distinguishes keys by how long callers waited. A key that is hot on a store that
// bears it well is not found, and one that is slow because its value is large is. With
// fewer than three busy keys there is no median to compare with.
package hotkey
