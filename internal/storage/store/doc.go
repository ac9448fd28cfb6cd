// Package store answers one question: what is the newest committed row of a
// key, and what are all rows at one moment?
//
// It stands behind the log of a node. [Store.Commit] writes effect batches to
// the log and returns when they are committed by the durability class and
// visible; nothing is visible earlier. [Store.Get] reads the newest row on the
// caller's goroutine. A [Snapshot] is everything that was committed up to one
// position of the log, for scans both ways and digests. [Store.Feed] reads the
// committed batches again in order, [Store.Backup] copies the store while it
// works.
//
// The choice: rows go to the log in one sequential write, into memory, and only
// much later, by the chunk, sorted, and with all but the newest of each key
// left out, into Pebble, whose own log is off. So there are three places for a
// row: the chunks that are not applied, the row cache, and Pebble. DESIGN.md
// follows a row and a chunk through them, and says why no reader can see a row
// too early, an older one after a newer, or one that was deleted.
//
// The limits: a store is dead after a failed write ([ErrFailed]) until it is
// opened again, reads included. What was committed with durability everysec or
// no may be lost in a crash, newest first, without a gap. A snapshot that is
// held keeps the memory of the chunks that were not applied when it was taken.
package store
