// Package counter answers one question: how do many writers add to one number
// without all of them waiting at one key?
//
//	likes, err := counter.Open(db, db.Default(), counter.Options{})
//	if err != nil { … }
//	defer likes.Close()
//	err = likes.Add(ctx, "post/17", 1)
//	sum, err := likes.Sum(ctx, "post/17")
//
// # Promises
//
//   - An add that was acknowledged is in every sum that is asked for after it, once,
//     also while the counter grows, shrinks or is moved, and after a crash as far as
//     the store's durability goes.
//   - [Counters.Sum] is exact: the state of one moment between call and return, and
//     [Counters.SumTx] is part of a serializable transaction.
//   - [Counters.Fast] is a sum that was exact at most as long ago as the caller allows.
//   - A retry of [Counters.AddOnce] with the same id does not add again, whatever
//     happened to the counter meanwhile.
//
// # Choices
//
// A counter begins as one row, and costs what a plain counter costs. While adds crowd,
// it is given twice the parts, in other shards, and an add goes to any of them. They are
// kept only if adds then take less time, and folded again when the crowd has gone: see
// [Options]. In a keyspace of kind Hash parts are spread evenly over the slots. In one of
// kind Range a byte stands in front of the key, and [Counters.Spread] gives each group a piece.
//
// # Limits
//
// An add returns no value: one that must know the sum is for a plain counter,
// [cleave.Keyspace.Add]. A sum reads all parts. On one store with few cores a plain counter
// may be as fast, because its adds share a batch: docs/patterns/counters.md has figures.
// The keyspace may hold other things too, but the keys of counters are the package's own.
package counter
