// Package actor answers one question: which goroutine may touch this shard's state now?
//
// An [Actor] owns a state of type S. Messages of type M come in through a
// bounded mailbox, a [Handler] turns them into replies of type R, and at any
// instant at most one goroutine is inside the handler, so the state needs no
// locks. The handler sees the messages that were waiting as one batch: what is
// paid once per batch (a lock, a cache miss, a sync to disk) is shared by all
// of its messages, and batches grow under load, up to Options.MaxBatch.
//
// # Promises
//
//   - Messages of one sender are handled in the order in which it sent them.
//   - A message that was accepted is handled exactly once, whatever becomes of
//     the sender; the exceptions are a poisoned actor and a handler that ends
//     its goroutine. A message that was refused is never handled.
//   - [ErrFull], [ErrStopped], [ErrPoisoned] and a bare context error mean that
//     the message was not handled. [ErrAbandoned] means that it was accepted
//     and that the caller left before the reply came: the promise above holds for it.
//   - When a call has returned, the package no longer touches what the caller
//     handed in, also when the call was abandoned.
//   - A panic in the handler reaches the callers as a [*PanicError] and not
//     the goroutine. By default the actor is then poisoned.
//
// # Choices
//
// In mode [Combining], the default, an actor has no goroutine. A caller that
// finds it free runs its own message on the spot, with two atomic writes and no
// switch of goroutines, and then the messages that came meanwhile. In
// mode [Owner] a goroutine of the actor's own runs every message: a call waits
// for the switch to it and back, and callers never run the handler.
//
// A [sync.Mutex] around the state is simpler and, without contention, faster:
// BenchmarkCounter shows by how much. Prefer it unless messages gain from being
// handled together, or senders need what a mutex does not offer: a bound on the number of
// waiters, a context that ends the wait, messages without a reply, a panic that is
// contained. For a map that many goroutines share see package shardmap.
//
// # Limits
//
// A handler must not Call, CallBatch or Do its own actor, nor one that waits
// for its own: it would wait for itself until the context ends. It may Post to
// its own actor; with [Block] and a full mailbox that waits for itself too, so
// use [Refuse] for actors that talk to themselves. A handler must not keep the
// slices it is given. In mode Combining a caller cannot leave while it is
// running the handler: the context is looked at between batches.
//
// Nothing outlives the process: what must, the handler writes down before it
// returns.
package actor
