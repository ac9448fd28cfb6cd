// Package runs answers one question: which operations wait to be applied, in
// the order of their keys?
//
// A [Set] takes the operations of one chunk of the log as they are committed.
// Nobody pays for order until somebody asks: a [View] sorts what came since the
// last one, and joins sorted runs so that only few are left.
//
// # Promises
//
//   - [Set.Append] waits for nobody and never sorts. All operations of one call
//     become visible at once.
//   - A View never changes. It shows every operation appended before it was
//     asked for, of each key the newest only.
//   - However often Views are taken, an operation is sorted once and then moved
//     O(log n) times.
//   - [Set.Cut] is a constant number of steps: take it under a lock, and its
//     View later.
//   - [Drain] returns what several Sets hold, of each key the newest.
//
// # Choices
//
// Keys and values are not copied. Sorting works on 32-byte entries without
// pointers, of which 24 bytes are a piece of the key: most comparisons touch no
// key. DESIGN.md has the details.
//
// # Limits
//
// One goroutine appends at a time; everything else may be called from any.
// The slices handed in must not change as long as the Set or one of its Views
// is in use. At most 2^32-1 operations.
package runs
