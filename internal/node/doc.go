// Package node answers one question: what does one process run?
//
// A [Node] opens stores, runs groups on them, knows the map and the keyspaces, and
// owns the goroutines that tend them. It finds the group of a position. Everything
// else is done by the packages below it. DESIGN.md has the files, the catalog, and
// how a keyspace is made and dropped.
//
// The limit: a keyspace gets its shards and their groups when it is made, and keeps
// them; a command stays within one store.
package node
