// Package heat answers three questions about a key-value store or anything else that is split by key: how hot is each
// shard, which keys make it so, and where would a cut halve it?
//
// # Rates
//
// [ShardRates] turns counts that only grow into rates per second, over several exponential windows at once: a short
// one shows what begins, a long one what lasts.
//
//	rates, err := heat.NewShardRates[uint64](10*time.Second, 5*time.Minute)
//	…
//	rates.Record(elapsed, maps.All(counts)) // once a second
//	now, lasting := rates.Of(shard)[0], rates.Of(shard)[1]
//
// # Promises
//
//   - Time and randomness are handed in. Equal inputs give equal answers, in a test, a simulator and a server.
//   - Memory is bounded by options, whatever keys come.
//
// DESIGN.md beside this file has the states, the invariants and the reasons.
package heat
