// Package cache answers one question: how do many readers of a value that lives
// elsewhere cost that place one read?
//
//	prices, err := cache.New(cache.Options[string, Price]{Load: fromDatabase})
//	if err != nil { … }
//	defer prices.Close()
//	price, err := prices.Get(ctx, "tea")
//
// # Promises
//
//   - Of one key there is one load at a time, however many callers ask for it. A caller
//     whose context ends leaves alone; the load goes on for the others. A loader
//     that fails or panics is an error to the callers that wait for it, and to no other.
//   - A [Cache.Get] that begins after [Cache.Invalidate] or [Cache.Flush] has returned
//     does not return what was loaded before: a load that began earlier does not put its
//     value in later.
//   - A cache that follows a [Source] of changes ([Cache.Follow]), such as the feed of a store
//     (package storecache), returns values no staler than the source is behind, and no
//     staler than the TTL. If the source breaks off, everything is forgotten, and until it
//     goes on every Get loads. A stale answer of the loader itself is stale here too.
//   - [Cache.Wait] returns when the cache has received all that changed before a place in
//     what it follows: a writer that waits for the place behind its write reads it.
//   - It holds at most as many entries or bytes as Options allow, up to what is just being
//     evicted.
//
// # Choices
//
// Values are kept by how often and how lately they were used, so that a sweep over many
// keys does not evict those that are asked for all the time. Absent keys are remembered
// too, and so are, for a short and growing while, keys that could not be loaded. A value
// lives for a TTL that is cut at random, so that values loaded together are not loaded
// again together.
//
// # Limits
//
// The cache is one process's and is gone with it. Two caches that follow one feed read it
// twice. A value is shared by all callers that get it: do not change it.
package cache
