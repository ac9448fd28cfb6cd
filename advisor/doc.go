// Package advisor answers one question: by which key should these records be sharded?
//
// [Analyze] reads records from a [Source] in the order in which they were written, and returns a
// [Report]: what each column holds, and which keys would suit, ranked, each as a layout of package
// key for a hash or a range keyspace. A key is judged by how evenly it spreads data and the writes
// of a moment, by how many values it has, by its largest indivisible part, by whether every row has
// it, and, if [Options.Queries] say what programs ask, by how many shards a query asks.
// DESIGN.md has the formulas.
//
// # Promises
//
// The store agrees: candidates are encoded as package key encodes them and placed by package
// partition, so a skew that is reported is that of a store whose shards are cut alike.
//
// Estimates have intervals that hold the truth 95 % of the time; tests hold them against known
// truths. With fewer than 1000 rows, or 25 for each shard, there is no grade.
//
// Memory is bounded, below 500 MB, whatever the size of the input.
//
// If the context ends, what was read by then is reported.
//
// Input is parsed and counted by as many goroutines as there are processors; how many makes no
// difference to the report.
//
// # Choices
//
// Candidates are simulated on a sample: up to 65,536 rows by chance for data at rest, and up to 48
// runs of 1024 consecutive rows for the writes of a moment. The best 16 of all candidates are then
// simulated on the whole sample.
//
// With [Options.Traffic] records are operations on keys, such as package advisor/trafficlog reads, and
// keys are judged by load in place of what is stored.
//
// [Options.Together] says what transactions decide on at once, and the report which keys keep that in
// one shard. [Report.Tenants] are values that need a place of their own. [Compare] finds whether a key
// that was right still is. Package advisor/htmlreport writes a report as a page.
//
// In a hash keyspace the key is the partition, which is what stands before the bar of a layout: rows
// of one partition are elements of one key. In a range keyspace it is the whole layout, and shards
// are cut between any two keys.
//
// Without queries the ranking rests on a guess: that programs ask for what looks like an identifier, by the name of the
// column or else by its values. The notes say so.
//
// # Limits
//
// Writes of a moment are judged in the order of the input where a time or a counter follows it, and else in that of a
// time or of identifiers that begin with one. An input that is sorted by something else, without any time, says nothing
// about writes, and is noted. Reads
// count as far as queries show them: a key that is read more than others is not known. At most 256
// columns are analysed, and values above 256 bytes are no part of keys.
package advisor
