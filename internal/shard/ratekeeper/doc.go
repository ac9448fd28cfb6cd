// Package ratekeeper decides how many writes a node, and how many a hot shard, should be asked for at most.
//
// It is pure: the caller hands in what was measured, and carries out what is decided, with package admission.
//
// # A node that is behind
//
// A [NodeLimiter] looks at three things that grow while a store is asked for more than it can do: the time that writes wait for
// their groups, what is committed and not applied to the tables, and what is left of the disk. For each of them there is a rate of bytes at
// which it would stay as it is, and the limit is the rate of writes that makes as many bytes:
//
//	writes = min(actual x maxBps / max(1e-8, inputBps), maxBps x WritesPerByte)
//
// Below a target less a spring there is no limit; at the target writes come as fast as they are done; above it
// slower, down to half. So what is behind comes to the target and stays there, without a swing (TestNodeLimiter). The limit has a reason:
// write queue before durability lag before disk space, where two of them ask for the same.
//
// One group that is saturated is no reason: the queue of a store is the shortest of its groups'. For that is the other half.
//
// # A hot shard
//
// [HotShards] limits the writers of one shard whose group has no time for its others, and only if nothing better
// can be done: not while the shard can be split or moved, or a job is at it, since a throttle hides the load that would make
// it so; not unless it has at least half of its group's work; and not if no other shard of the group is asked for anything, since the
// time that it takes is nobody else's.
//
// It learns by looking what the limit should be: it is lowered while writes of the group wait too long, and raised while they do
// not, so that what the others do not use is lent to the hot shard. A throttle that does not help after four steps ends, and its shard is left
// alone for a minute: they wait for something else. It is renewed as long as its writers wait, and ends by itself when
// none is there to renew it.
package ratekeeper
