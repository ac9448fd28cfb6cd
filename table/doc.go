// Package table answers one question: how are rows kept in the order of time when
// all of them are written at its end?
//
// A key that grows with time puts all writers into one shard, and that of one entity
// makes a stretch of keys that grows for ever. The two remedies are a salt in front
// of the key, and a time bucket in it. Both are declared by the layout of a keyspace
// of kind Range, in the notation of package key:
//
//	salt(16) | ts:time, id          16 places to write to, any of them for a row
//	salt(16, id) | ts:time, id      the same, and id selects which
//	(device, day(ts)) | ts          a stretch for each device and day
//
// A [Table] writes the salt and the bucket, and hides them from readers.
//
// # Promises
//
//   - Rows come in the order of the layout's fields without the salt, whatever salts
//     they have, both ways, and a limit or a loop that is left costs no more than it says.
//   - A call reads one state of the store: [Table.Scan] all of its rows, [Table.ScanPage]
//     one page. In a transaction, [Table.In], it is the state of the transaction, and
//     what was read is validated with the rest of it.
//   - A page has the place where the next begins; that place stays good whatever happens to rows
//     and shards.
//   - Columns name one row. Put replaces it, wherever it is; only Append, which does not
//     look, can make a second one, and only under a salt that is picked.
//   - A key that is not of the layout is never taken for a row: it is an error that
//     names it, or, if asked for, passed over and counted.
//
// # What a salt costs
//
// A salt that is derived from given columns is known: such a read or write is
// one, as without a salt. A salt that is picked is unknown to readers: Append writes once,
// but Get and Delete ask for a key of each salt, and Put does so in a transaction.
// Ordered reads that leave the salt open read each of the salts and merge.
// So prefer salt(16, id), with a column that differs between rows, to salt(16), and use
// [Table.Append] under the latter.
//
// # Choices
//
// All reads are made on the goroutine of the caller, one after another, so there is
// no more concurrency than callers. Rows are read ahead in pages that grow, from a few
// to 256 for each salt, and shrink where rows are large: about 8 MiB for a read.
//
// # Limits
//
// A salted keyspace still begins in one shard: see [Table.Spread]. Times are compared
// exactly if the layout has the column itself; of one that is only in buckets, a read
// gets whole buckets. The number of salts is part of every key and does not change.
package table
