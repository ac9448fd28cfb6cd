// Package actor answers one question: who may touch this shard's state now?
//
// An [Actor] owns a state of type S. Messages of type M come in through a
// bounded mailbox, a [Handler] turns them into replies of type R, and at any
// instant at most one goroutine is inside the handler, so the state needs no
// locks. The handler sees every message that was waiting as one batch: what is
// paid once per batch (a lock, a cache miss, a sync to disk) is shared by all
// of its messages, and batches grow under load.
//
// # Two ways of running
//
// In mode [Combining], the default, an actor has no goroutine. A caller that
// finds it free runs its own message on the spot, for about the price of a
// mutex, and then the messages of those who came meanwhile. In mode [Owner]
// a goroutine of the actor's own runs everything: callers never run the
// handler, and every call pays for two switches between goroutines.
//
// # What is promised
//
//   - Messages of one sender are handled in the order in which it sent them.
//   - A message that was accepted is handled exactly once, whatever becomes of
//     the sender; the exceptions are a poisoned actor and a handler that ends
//     its goroutine. A message that was refused is never handled.
//   - [ErrFull], [ErrStopped], [ErrPoisoned] and a bare context error mean that
//     the message was not handled. [ErrAbandoned] means that it was accepted
//     and that the caller left before the reply came: it will be handled.
//   - When a call has returned, the package no longer touches what the caller
//     handed in, also when the call was abandoned.
//   - A panic in the handler reaches the callers as a [*PanicError] and not
//     the goroutine. By default the actor is then poisoned.
//
// # Limits
//
// A handler must not Call, CallBatch or Do its own actor, nor one that waits
// for its own: it would wait for itself until the context ends. It may Post to
// its own actor; with [Block] and a full mailbox that waits for itself too, so
// use [Refuse] for actors that talk to themselves. A handler must not keep the
// slices it is given. In mode Combining a caller cannot leave while it is
// running the handler: the context is looked at between batches.
package actor
