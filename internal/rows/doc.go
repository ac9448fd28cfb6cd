// Package rows answers one question: what is the newest value of this key, if
// memory knows it?
//
// [Table] holds two kinds of rows at once. A row that was published but is not
// yet in the state behind the log is pinned: it is in memory until [Table.Applied]
// says otherwise. Every other row is cached and may go at any time, unless it is held
// ([Table.Hold]).
//
// # Promises
//
//   - [Table.Get] answers with the value published last, or [Unknown]. It never
//     answers with an older one, and never Unknown while the row is pinned.
//   - A slow [Table.Fill] cannot bring back an old value: it needs a [Ticket]
//     taken before the state was read, and a publication in between voids it.
//   - A row that is held stays, and what is published for its key takes its place. Held
//     rows take at most half of Options.Bytes; a row that no longer fits is let go.
//   - In a full table a row that was read is cached only if its key was asked for
//     before, not long ago: reads that come once do not drive out what is hot.
//   - Unpinned rows take at most Options.Bytes, index and headers included. What
//     is pinned comes on top; DESIGN.md states the slack.
//   - Get with a large enough buffer does not allocate. Publish and Fill take
//     whole blocks, and none while what is pinned stays the same; only a row
//     with a block of its own is an allocation.
//
// # Choices
//
// Keys are spread over stripes, each with a lock that is held for a lookup and
// one copy. Rows lie in a few large blocks without pointers, so that the garbage
// collector sees blocks and not rows. Space is reclaimed block by block, oldest
// first; a row that was used since gets a second chance. Hashes are seeded:
// keys that share a stripe or a slot cannot be chosen in advance.
//
// # Limits
//
// The table has no order and no snapshots (package runs has the unapplied rows
// in order). The blocks are ordinary Go memory: the collector does not
// scan them, but counts them when it decides how much garbage to allow. A row
// that alone exceeds a quarter of a stripe's share is cached only while it is pinned.
package rows
