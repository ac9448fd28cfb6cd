// Package node answers one question: what does one process run?
//
// A [Node] opens stores, runs a group on each, knows the keyspaces, and owns the
// goroutines that tend them. It finds the group of a position. Everything else
// is done by the packages below it. DESIGN.md has the files, the catalog, and
// how a keyspace is dropped.
//
// The limit: which store holds which positions is fixed when the directory is
// made, and a command stays within one of them.
package node
