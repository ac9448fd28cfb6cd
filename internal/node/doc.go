// Package node runs the stores and groups of one process.
//
// A [Node] opens stores, runs groups on them, knows the map and the keyspaces, and owns the
// goroutines of their housekeeping. It finds the group of a position, drives the jobs that
// change which one that is, leads transactions across stores, and shows several stores as of one
// moment. Everything else is done by the packages below it. DESIGN.md has the files, the
// catalog, how a keyspace is made and dropped, and how jobs, transactions and snapshots hold.
//
// The limit: the catalog stays with the first group, and the number of stores is
// decided when the directory is made.
package node
