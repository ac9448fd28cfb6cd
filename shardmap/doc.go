// Package shardmap answers one question: how do many goroutines share one map
// in a process without waiting for each other?
//
// [Map] is a concurrent map for any comparable key and any value. Its zero
// value is ready to use.
//
//   - Load takes no lock and waits for nobody, neither for writers nor for
//     growth.
//   - Writers lock one bucket, which holds a handful of entries, for a few
//     stores. Writers of other keys do not notice.
//   - Operations on one key are linearizable. Range, Len and Clear are weaker
//     and say how.
//   - The map grows and shrinks in bounded steps: no call ever copies more
//     than one segment, about two thousand entries, however large the map is.
//
// Entries are stored in one of two ways, chosen by the types. Pointer-free
// keys and values of at most 8 bytes each lie in the buckets themselves, in
// memory that the garbage collector does not scan. Everything else (strings,
// interfaces, pointers, longer types; floats and structs with padding as keys)
// gets an object per entry.
//
// Hashes are seeded per map, so that keys which collide in one map do not in
// another and cannot be chosen in advance. The hash is not a cryptographic
// one: who can measure the time of very many operations may learn about it.
//
// A map is not ordered and has no transactions over several keys. Stored
// values are copied: change them with [Map.Compute], not through a pointer
// that several goroutines hold.
package shardmap
