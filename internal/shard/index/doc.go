// Package index answers one question: which entries does a row have in an index?
//
// A [Definition] says what an index is about. An [Extractor] made of it turns a
// [Row] into entries: an ordered tuple of package key each, with the key of the
// row behind it, so that entries sort by the tuple and two rows never share one.
// [Diff] says what has to be written when a row changes.
//
// Everything here is pure: equal rows give equal entries in every process, which is
// what lets an old row tell which entries it left behind. Whoever hands in a function
// of his own has to keep to that.
//
// Nothing here knows when entries are written. An index that is Transactional is
// kept by the transaction that writes the row, one that is Asynchronous by a reader
// of the feed; DESIGN.md has both, with the bytes.
//
// Limits: a row has at most [MaxEntries] entries, and an entry's key, tuple and row
// key together, at most [MaxKeyBytes].
package index
