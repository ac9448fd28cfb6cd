// Package cleave answers one question: how does a Go program keep ordered,
// transactional data without running a database?
//
//	db, err := cleave.Open("data", cleave.Options{})
//	if err != nil { … }
//	defer db.Close()
//	ks := db.Default()
//	err = ks.Set(ctx, []byte("greeting"), []byte("hello"))
//
// # Promises
//
//   - With durability [Always], the default, a write that was acknowledged is on
//     stable storage and survives any crash, and so does whatever was ever read:
//     nothing is visible before it is durable. With [EverySec] a crash of the
//     machine may take back about the last second, with [Never] more; a crash of
//     the process alone takes back nothing with either. What is lost is always
//     the newest part, never something in the middle.
//   - Each operation on a key is linearizable: it takes effect at one instant
//     between call and return.
//   - [DB.Update] runs its function as a strictly serializable transaction,
//     again after a conflict, and [DB.View] on one consistent state.
//   - A transaction, a [Batch], and a call that changes several keys or fields,
//     takes effect as a whole or not at all.
//   - A key's version only grows, also over deletes, restarts and crashes, until
//     its keyspace is dropped. Time, for expiry, never goes back.
//   - After an error that matches [ErrUnknown] the write may or may not have
//     taken effect; after any other error it has not.
//   - Damaged files are reported, never served.
//
// # Choices
//
// Keys live in keyspaces. A hash keyspace, such as the default one, spreads its
// keys over 16384 slots as Redis Cluster does; a range keyspace keeps them in
// the order of their bytes, for scans. Values are strings of bytes, decimal
// counters, or hashes of fields.
//
// [DB.OpenIndex] finds rows by their contents: by entries that commit with them, or that
// follow them and report how late they are.
//
// [DB.Feed] yields what was changed, also to a reader that comes back later, and
// [DB.Backup] copies the store while it works. [OpenMemory] does without files.
//
// Packages counter, queue, table, cache, saga and watch are remedies for what goes wrong
// with hot keys and many steps, made of these parts alone; docs/patterns describes
// which one is for what.
//
// # Shards, groups and jobs
//
// The keys of a keyspace are cut into shards, and each shard belongs to a group,
// which executes its commands one after another and lives on one store. [DB.Shards]
// and [DB.Groups] show them. A [Split], [Merge], [Move], [Drain], [Undrain] or
// [Regroup] changes that while clients go on: [DB.Plan] returns what it would cost,
// [DB.Start] returns a [Job] that can be watched, paused, throttled and cancelled,
// and that goes on after a restart or a crash.
//
// What to rely on meanwhile:
//
//   - All promises above hold for keys that are being moved, transactions, scans,
//     expiry, request ids and the feed included. No call on keys fails because of a job.
//     [DB.CreateKeyspace] waits for one that is where the keyspace is to be, and fails
//     with [ErrBusy] if it is paused.
//   - Reads go on. Writes to a shard that goes to another store wait while it is
//     handed over: for some milliseconds, or some tens of them on a busy machine. A
//     hand-over that takes longer than 30 ms, and at later tries up to 240, is given
//     back and tried again. A client that writes faster than the rows can be copied is
//     delayed before that, by at most 20 ms a write. Splits, merges, and moves within a
//     store delay no client.
//   - A split, merge or move is done or taken back as a whole, whatever crashes. It can
//     be cancelled until it is decided, which is just before the shard changes hands;
//     after that it goes forward. A drain or regroup is made of moves: cancelled, it
//     begins no more of them, and those that are done stay so.
//   - Of two changes that overlap the second is refused with [ErrBusy].
//
// # Limits
//
// A key has at most 16 KiB and may be empty, a value 64 MiB, a transaction 64 MiB
// and 100,000 keys. One process opens a directory at a time. Even an empty one
// takes up to 4 MiB of disk for each store, for a log that is made ahead of need.
// The clock that judges expiry is the machine's, also over a restart: set it with care.
// If it is set back, time stands still until it has caught up, as what has expired
// stays so. When the disk is full, writes are refused and reads go on.
//
// The catalog of keyspaces, shards and jobs stays with the first group, which cannot
// be drained. A job that moves rows takes the room of a shard twice until it ends,
// keeps up to 1 GiB of log, and takes up to 128 MiB of memory to know what changes
// meanwhile; one that needs more of both begins again, and is taken back after some
// attempts. Jobs stand still during a [DB.Backup]. A group that
// has decided transactions is removed only when no participant can ask for them any more,
// some seconds later.
package cleave
