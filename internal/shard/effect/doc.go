// Package effect encodes what a batch changed.
//
// A group evaluates commands once and keeps only what came out of it: a list of rows put and
// deleted. [Builder] writes such a list, [Parse] reads it. The bytes go into the log, to
// replicas and into the feed, and mean the same in every process and version: Parse accepts
// exactly what a Builder can write.
//
// A batch is, with integers little-endian:
//
//	0    1  format, 1
//	1    8  Header.Seq
//	9    8  Header.ClockMS
//	17   4  number of operations
//	21      operations, in order: of two on one key the later wins
//
// and an operation is
//
//	uvarint  length of the key << 1 | 1 if it deletes
//	         key
//	uvarint  length of the value   (only if it puts)
//	         value
//
// Lengths are written in as few bytes as they need and nothing follows the last
// operation, so equal batches are equal bytes.
//
// The limit: there is no checksum here. The log guards what it stores.
package effect
