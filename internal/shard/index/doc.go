// Package index computes the entries that a row has in an index.
//
// A [Definition] describes an index. An [Extractor] made of it turns a [Row] into entries: each
// is an ordered tuple of package key, followed by the key of the row, so that entries sort by
// the tuple and two rows never share one. [Diff] returns what has to be written when a row
// changes.
//
// Everything here is pure: equal rows give equal entries in every process, so the entries of an
// old row can be computed from the row. A caller's own function has to keep to that.
//
// Nothing here decides when entries are written. An index that is Transactional is maintained by
// the transaction that writes the row, one that is Asynchronous by a reader of the feed;
// DESIGN.md has both, with the bytes.
//
// Limits: a row has at most [MaxEntries] entries, and an entry's key, tuple and row
// key together, at most [MaxKeyBytes].
package index
