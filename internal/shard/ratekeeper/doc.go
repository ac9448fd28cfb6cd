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
// it so; not unless its writes have at least half of its group's work; and not if the other shards have less than a twentieth of it,
// since the time that it takes is nobody else's.
//
// All groups of a process share its loops and processors, so one shard may saturate these while no queue of a group is long:
// requests for others wait in sockets before they are read. [Process] stands for what they share. Its wait is the time of the
// rounds of loops (package load), and a move to another group is no relief of it.
//
// # What a limit leaves
//
// Writers of the hot shard may have what the others leave of the capacity, which is what was done when the limit began. There is a
// budget for all work. It is lowered while others wait too long, and raised while they do not, and the hot shard has what it
// leaves beside the others. However long these wait,
//   - no more is kept free than they use. They may grow to twice as much from step to step, and who has next to nothing costs
//     the hot shard next to nothing: a benchmark or a bulk load beside a trickle goes on;
//   - the hot shard keeps half of the capacity, in writes at the price that they had first.
//
// So waits that are noise cannot take more than that, and what the others cease to use it has in the next step.
//
// A throttle that does not help after ten steps ends, and its shard is left alone for a minute, twice as long after each failure:
// they wait for something else. So does one with which the others have less than before, after four steps: they come on the
// connections that are held up. For the process a shard needs two thirds of the work, at two looks in a row, since the rates of
// what was split or moved linger. A throttle is renewed as long as its writers wait, and ends by itself when none is there to
// renew it.
package ratekeeper
