// Package protocol carries out, on groups, what a coordinator or a job wants.
//
// Packages txn and mover decide and send nothing. This package has, for each of their effects,
// the command or the read that it takes, and the event that the answer makes. Nothing here
// waits, retries, or knows the time: a node calls it from goroutines, the simulator from its one
// loop, and both do the same to groups.
//
// The limit: it finds groups by a [Finder] that the caller provides, and keeps no records; those
// of jobs are the catalog's.
package protocol
