// Package lanes answers one question: which messages of a sharded queue may be handed out
// now, and in which shard is the next one put?
//
// A message has a point, one of 256, by its key. A [Bucket] is a shard of the queue during
// an epoch: it has a stretch of the points, and its messages have ascending numbers in the
// order in which they were committed. A new number of shards begins a new epoch: the buckets
// of the old one take no more messages, and one of the new is read only when all older ones
// with a point in common are empty. So messages with equal keys keep their order.
//
// Of messages with equal keys only the oldest is ever out: the next one may be handed out
// when that is gone. The package only computes: package queue carries it out on a store,
// and the simulator on groups.
package lanes
