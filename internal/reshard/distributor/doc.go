// Package distributor plans what is done about the size and the load of shards: it splits, moves and merges them, or
// says why it does nothing.
//
// A [Planner] is pure: it is given a [Situation] of shards and groups and the time, and returns proposals. The caller
// starts jobs for them, and shows their shards as busy until these have ended. Groups are abstract: those of one
// process or of several machines.
//
// The unit of load is work: the share of its time that a group, or a shard of it, is served. A group executes one
// batch at a time, so a work of 1 is all that a group can do, and neither operations nor bytes say that of mixed
// requests.
//
// See DESIGN.md for the rules, and for why they end.
package distributor
