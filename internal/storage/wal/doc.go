// Package wal answers one question: which entries were committed, and in which
// order?
//
// It is the log of one node, for all of its groups. Callers that append at the
// same time share one frame, one write and one sync. An entry that was
// acknowledged is replayed after any crash, once and in order, as far as the
// durability class promises; the entries of one Append are replayed all or not
// at all; bytes that were durable and can no longer be read are reported, never
// skipped.
//
// Segments are files of real zeros, made ahead of need and recycled by rename, so
// that a commit is one write to blocks that the file system has already placed.
// A segment is staged in a page-aligned image in memory, a [Chunk], which the
// consumer keeps until it has applied the entries.
//
// Limits: a damaged last frame looks like a write that a crash interrupted and is
// dropped, unless the log was closed or something behind it proves that it was
// durable. Reserved space is only as good as the file system's word that
// overwriting a block needs no new one; those that copy on write do not give it.
// A directory belongs to one Log at a time; locking it is the caller's part.
//
// DESIGN.md beside this file has the formats in bytes and the reasons.
package wal
