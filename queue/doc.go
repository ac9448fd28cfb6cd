// Package queue answers one question: how does a program hand out work, or keep a log, without
// one hot place at which all producers and consumers meet?
//
//	jobs, err := queue.Open(ctx, db, ks, "jobs", queue.Options{})
//	if err != nil { … }
//	defer jobs.Close()
//	err = jobs.Publish(ctx, queue.Message{Key: []byte("user/7"), Body: []byte("welcome")})
//	err = jobs.Consume(ctx, queue.ConsumeOptions{}, func(ctx context.Context, d *queue.Delivery) error {
//		… // acknowledged if it returns nil, else it comes again
//	})
//
// [Queue.Consume] is the loop that most receivers want; [Queue.Receive] and [Queue.Ack] are what it
// is made of.
//
// # Promises
//
//   - What Publish acknowledged is delivered at least once, and what Ack acknowledged never
//     again, whatever crashes or moves, as far as the store's durability goes.
//   - Messages with equal keys are delivered in the order of their publication: the next one
//     only when the one before is acknowledged or dead. That holds while [Queue.Resize]
//     changes the number of shards. Messages without a key come in no order.
//   - A delivery is its receiver's for the time of a lease. A receiver that lost it, because the lease
//     ran out and another got the message, gets an error: [ErrLost].
//   - A message that was delivered too often is set aside, and does not hold up others.
//   - A retry of Publish with the same [Message.ID] puts nothing there twice. When the
//     id is older than Options.Remember, the retry is refused: [cleave.ErrRequestOld].
//   - A [Log] keeps what was appended until it is trimmed; each [Reader] has its own place.
//
// # Choices
//
// Rows have keys of the form queue/shard/number in a keyspace of kind Range. Numbers ascend
// in the order of commits, by one row for each shard, which concurrent calls of Publish on
// that shard share. Receivers wait for the feed of the store and do not poll. A keyspace begins
// in one shard of one group: see [Queue.Spread].
//
// # Limits
//
// A receiver that stops for longer than its lease may work on a message at the same time as
// another: what it does must bear that, or be fenced by Ack in the same transaction
// ([Queue.AckTx]). Leases are judged by the clock of [Options.Now], to the millisecond.
package queue
