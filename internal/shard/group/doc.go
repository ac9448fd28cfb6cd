// Package group answers one question: in which order do things happen to the
// keys of a shard?
//
// A [Group] executes commands one batch at a time, in the order in which they
// came. It evaluates a batch against the committed state, hands the effects to a
// [Log], and answers when the log says that they are durable and visible. What
// waits meanwhile is the next batch, so batches grow under load and one sync
// serves them all. There is no goroutine in between: a caller that finds the
// group free executes for itself and for those who came meanwhile.
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
//   - A group serves what its list of ranges says, see package ownership, and nothing
//     else: neither commands nor readers past the queue get round that.
//   - What a transaction across groups has locked is left alone until it is
//     decided, see package txn. Plain commands wait for that and never hear of it.
//   - [ExecuteJoint] executes requests of several groups of one log as one.
//
// # Limits
//
// Who owns what, and who leads transactions, is decided elsewhere: a group only
// obeys. Requests are remembered for [Options.Remember]; older ones are refused.
package group
