// Package shardmap answers one question: how do many goroutines share one map
// in a process without waiting for each other?
//
// [Map] is a concurrent map for any comparable key and any value. Its zero
// value is ready to use.
//
// # Promises
//
//   - Operations on one key are linearizable. Range, Len and Clear are weaker
//     and say how.
//   - Load takes no lock and never waits, neither for writers nor for
//     growth. It tries again if a delete in the same bucket crossed it.
//   - Writers lock one bucket, which holds a handful of entries, for a few
//     stores. Writers elsewhere go on, unless their part of the map grows or
//     shrinks at that moment: they wait for the copy.
//   - The map grows and shrinks in bounded steps: one call copies about two
//     thousand entries at most, however large the map is. Only keys with
//     colliding hashes could make it more.
//
// # Choices
//
// Entries are stored in one of two ways, chosen by the types. Pointer-free
// keys and values of at most 8 bytes each lie in the buckets themselves, in
// memory that the garbage collector does not scan. Everything else (strings,
// interfaces, pointers, longer types; floats and structs with padding as keys)
// gets an object per entry.
//
// Hashes are seeded per map, so that keys which collide in one map do not in
// another and cannot be chosen in advance. The hash is not a cryptographic
// one: an attacker that can measure the time of very many operations may learn about it.
//
// Something else is the better choice when
//
//   - one goroutine uses the map, or few do and seldom at once: a plain map,
//     with a [sync.Mutex] around it if need be, is smaller and simpler;
//   - several entries must change together: a plain map and a mutex, or package
//     actor, which owns any state;
//   - there are many maps of few entries each: with the first entry a map here
//     gets at least 64 shards of 128 bytes, unless Options.Shards says less;
//   - no new dependency is wanted and keys are seldom overwritten: [sync.Map]
//     is in the standard library.
//
// The first kind of entry is what this package is best at. Maps of strings or
// of large values may well be served as fast by others: measure yours.
//
// # Limits
//
// A map is not ordered, has no transactions over several keys, no snapshot, and
// neither expires nor evicts. Stored values are copied: change them with
// [Map.Compute], not through a pointer that several goroutines hold.
package shardmap
