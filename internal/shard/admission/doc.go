// Package admission holds up writers: it admits so many writes a second to a span, or delays each of them.
//
// [WriteLimits] are the limits of a process. Every way to write asks them once, before a group is asked: the engine by
// [WriteLimits.Wait], and the server, whose loops must not wait, by [WriteLimits.TryAdmit] and, on a goroutine of the
// client, [WriteLimits.Reserve]. Without limits that is the load of a pointer that is nil (BenchmarkWait).
//
// There are three reasons to hold up writers, told apart by [LimitSource]: a job that copies a span which is written faster
// than it is copied; a hot shard whose group or process has no time for others; and a cap that an operator has set. All of them are a [WriteLimit] of a span, so a writer waits once, for the longest of those it meets.
//
// # Turns
//
// A limit gives turns in the order in which they are asked for (see [throttle.Turns]). A write takes one of each limit of
// its position; a transaction takes one for each of its writes, and waits for the first. So a writer waits first, and
// is refused only if its turn would come too late: the error is a [ThrottledError] with what to do. What was refused took
// no turn, and has written nothing. When a limit changes, ends or is removed, those that wait ask anew.
//
// # Limits of it
//
// Every write looks at all limits while there are any, so there are [MaxWriteLimits] at most. Reads are not held up.
// Housekeeping, jobs, resolving of transactions and the catalog do not ask. A keyspace that is emptied or
// dropped as a whole is no write of its keys.
package admission
