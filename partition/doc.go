// Package partition answers one question: where in the one ordered space does
// this key live?
//
// Every key of every keyspace has one [Position], and positions compare as
// bytes. So a hash slot, a range of keys, a keyspace and a tenant are all the
// same thing: a [Span] of positions. Encoding is pure and stable: positions are
// written to disk and mean the same in every process and version.
//
// The limit: a position says where a key belongs, not who owns it now.
package partition
