// Package txn answers one question: did the transaction happen?
//
// A transaction over several groups is prepared in parts, one for each shard
// that it touches, and decided by one of its groups. [Prepare], [Decide],
// [Resolve], [Inquire] and [Collect] are commands that a group evaluates like
// any other; a [Coordinator] says which to send next. Everything that a group
// has to remember is in records that move with their positions, and in a
// decision that stays with its group.
//
// # Promises
//
//   - All parts of a transaction take effect or none, whatever crashes, however
//     often messages come and in whatever order.
//   - Transactions are strictly serializable: what one has read or written
//     is locked from its validation to its decision.
//   - Nobody waits for a coordinator that is gone for longer than until the
//     transaction's deadline.
//
// # Limits
//
// The package is pure: it is told the time, and what it wants to send is
// somebody else's to deliver. [Locks] and [ReservationQueue] are not safe for concurrent
// use. DESIGN.md has the protocol, the bytes, and why it holds.
package txn
