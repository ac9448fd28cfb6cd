// Package txn decides whether a transaction across groups happened.
//
// Such a transaction is prepared in parts, one for each shard that it touches, and decided by
// one of its groups. [Prepare], [Decide], [Resolve], [Inquire] and [Collect] are commands that a
// group evaluates like any other; a [Coordinator] returns which to send next. All that a group
// has to remember is in records that move with their positions, and in a decision that stays
// with its group.
//
// # Promises
//
//   - All parts of a transaction take effect or none, whatever crashes, however
//     often messages come and in whatever order.
//   - Transactions are strictly serializable: what one has read or written
//     is locked from its validation to its decision.
//   - No transaction waits for a dead coordinator for longer than until the dead
//     coordinator's transaction has reached its deadline.
//
// # Limits
//
// The package is pure: the caller passes in the time, and delivers the messages. [Locks] and
// [ReservationQueue] are not safe for concurrent use. DESIGN.md has the protocol, the bytes, and
// why it holds.
package txn
