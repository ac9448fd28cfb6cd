// Package group orders what happens to the keys of a shard.
//
// A [Group] executes commands one batch at a time, in the order in which they came. It evaluates
// a batch against the committed state, hands the effects to a [Log], and replies when the log
// reports that they are durable and visible. What waits meanwhile is the next batch, so batches
// grow under load and one sync serves them all. There is no goroutine in between: a caller that
// finds the group free executes for itself and for the callers that came meanwhile.
//
// # Promises
//
//   - Commands are linearizable: each takes effect at one instant between its
//     call and its answer, and nothing is seen before it is durable.
//   - A command that was refused had no effect. After [ErrUnknown] it may have
//     had one; the group then takes no more commands.
//   - Versions are never given out twice and time never goes back, whatever
//     crashes: both stay below ceilings that are durable before they are used.
//   - A command with a [RequestID] that was executed before is not executed
//     again: it gets the reply it got then.
//   - A group serves the ranges that its table has as its own, see package ownership, and
//     nothing else: neither commands nor readers past the queue get round that.
//   - What a transaction across groups has locked is left alone until it is
//     decided, see package txn. Plain commands wait for that and get no error of it.
//   - [ExecuteJoint] executes requests of several groups of one log as one.
//
// # Limits
//
// Ownership of ranges, and the coordination of transactions, are decided elsewhere: a group only
// obeys. Requests are remembered for [Options.Remember]; older ones are refused.
package group
