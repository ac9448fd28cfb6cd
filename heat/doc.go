// Package heat answers three questions about a key-value store or anything else that is split by key: how hot is each
// shard, which keys make it so, and where would a cut halve it?
//
// # Meters
//
// A [Meter] answers for a whole process. Each goroutine that serves requests has a [Recorder], which samples
// operations: one that is not in the sample costs about a nanosecond.
//
//	m, err := heat.NewMeter(heat.Options{})
//	r := m.NewRecorder() // for each goroutine
//	…
//	if r.Sampled(heat.Cost(len(request)+len(reply), 0)) {
//		r.Record(&heat.Access{Key: key, BytesIn: len(request), BytesOut: len(reply), Command: "GET"})
//	}
//	…
//	m.Collect(elapsed) // once a second
//	hot, total := m.Top(heat.ByOps, 10)
//	splits, err := m.Split(heat.SplitOptions{Start: start, End: end})
//
// What it is made of can be used alone:
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
// # Hot keys
//
// [TopKeys] has the keys with the most operations, bytes, service time or conflicts, with the error of each count,
// what was asked of them and by which clients. Tables of several processes are merged.
//
// # Splits
//
// [Ranges] is a sample of operations that estimates the load of any range of keys, and returns keys at which a range
// is cut into pieces with even loads, or the one key that makes a cut useless.
//
// # Heat map
//
// [Map] keeps what was asked by time and key range: the last half hour in columns of ten seconds, a month in columns
// of four hours, in 3 MiB. [FindPatterns] finds the shapes in it that have a reason: a moving edge, a hot key, a burst.
//
// # Evenness
//
// [SkewOf] compares shards, [Fanout] counts requests that need several, [SlotCounts] has the entropy of operations over
// slots, and [Alarm] reports when it drops.
//
// # Promises
//
//   - Time and randomness are handed in. Equal inputs give equal answers, in a test, a simulator and a server.
//   - Memory is bounded by options, whatever keys come.
//   - A count has an error that is never exceeded, and what was missed has a bound, whatever order keys come in. If
//     operations are sampled, counts are right on average, and their deviation is reported beside the error.
//
// # Limits
//
// It measures what it is told, and decides nothing: what to do about a hot key or range is the caller's. Ranges,
// splits and the map are of operations, not of what is stored; SplitOptions.Size hands sizes in. A key with less than
// its table's floor, the total by Options.TopKeys at most, may be missing.
//
// DESIGN.md beside this file has the states, the invariants and the reasons.
package heat
