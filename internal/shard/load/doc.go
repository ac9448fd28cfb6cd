// Package load counts what is asked of each shard: operations, bytes, errors, and the time that they take.
//
// An operation is what a request does with one key: an MGET of three keys is three. Its bytes and its time are
// shared evenly among them. A [Meter] has the counts of all shards of a process. Those that count do so apart, each
// in a set of its own, which are added up when they are asked for:
//
//   - A loop of the server has a [Recorder]: plain numbers, which it adds to its set at the end of a round. A GET costs
//     four additions to memory that no other thread writes, and no look at the clock.
//   - Any other goroutine calls [Meter.Record] or [Meter.Begin], which add to one of a few shared sets, chosen by the goroutine, so
//     that readers on several processors seldom write to the same memory.
//
// # What waits unread
//
// A request that comes while a loop is at work waits in its socket for the end of the round, which no clock of ours sees. So
// rounds are timed, and each counts once for every socket that it has read: [Loads.Rounds].
//
// # Shards come and go
//
// Counts belong to the id of a shard, which is never used again. What is split keeps its id for the first piece and
// so its counts; the other pieces begin at zero. What is merged into its left neighbour is gone, and its counts stay
// as they are: they are part of [Loads.Gone], so that all that was ever counted is still there. So counts compare
// shards only over a time: package heat makes rates of them. For as long as its window is, the rates of a shard that was
// just split have what the other pieces were asked before.
//
// Of shards that are gone [maxGoneShards] are kept apart, for operations that began before; one that ends later than
// that is lost.
//
// # What is exact
//
// Operations, bytes and errors are: each is counted once, when its reply is made, for the shard in which its key was
// located then. Times are shared out. A batch is timed as a whole: each of its operations has its time as [ShardLoad.Service], and an
// even share of it as busy time, so that busy times of all shards together are what the batches took. GETs that are
// answered from memory are timed one window in several and have the mean of their round; of calls in a program one in
// [SampleEvery] is timed, for all of them.
package load
