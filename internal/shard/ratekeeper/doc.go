// Package ratekeeper decides how many writes a hot shard should be asked for at most.
//
// It is pure: the caller hands in what was measured, and carries out what is decided, with package admission.
//
// It sets no limit for a store that is behind: that has one. Commits wait in package store while more is committed than the chunks
// that wait for the tables may have, 96 MiB by default, and are refused when the disk is full. The figures
// cleave_commit_wait_seconds_total and cleave_disk_full name these reasons.
//
// # A hot shard
//
// [HotShards] limits the writers of one shard whose group has no time for its others, and only if nothing better
// can be done: not while the shard can be split or moved, or a job is at it, since a throttle hides the load that would make
// it so; not unless its writes have at least half of its group's work; and not if no other shard of the group is asked for anything, since the
// time that it takes is nobody else's.
//
// All groups of a process share its loops and processors, so one shard may saturate these while no queue of a group is long:
// requests for others wait in sockets before they are read. [Process] stands for what they share. Its wait is the time of the
// rounds of loops (package load), and a move to another group is no relief of it.
//
// It learns by looking what the limit should be: it is lowered while writes of the group wait too long, and raised while they do
// not, so that what the others do not use is lent to the hot shard. A throttle that does not help after four steps ends, and its shard is left
// alone for a minute: they wait for something else. It is renewed as long as its writers wait, and ends by itself when
// none is there to renew it.
package ratekeeper
