package group

import (
	"time"

	"github.com/cleavekv/cleave/internal/shard/txn"
	"github.com/cleavekv/cleave/internal/storage/rowcache"
)

// Limits of a batch.
const (
	// maxBatchBytes is how many bytes of effects end a batch; a single command may have more. It
	// bounds how long the first caller waits for the last.
	maxBatchBytes = 1 << 20
	// maxRunAnswerBytes is how many bytes of answers non-blocking requests get that are executed
	// together: it bounds the memory of a pipeline of large reads. One answer may pass it.
	maxRunAnswerBytes = 16 << 20
	// maxBatchVersions is more versions than a batch gives out, whatever its commands are: each
	// version is in a row, which takes 16 bytes of effects at least, and a log takes 1 GiB at once.
	// It is far more than the sequences that a batch uses: one, and one for each ledger ahead of it.
	maxBatchVersions = 1 << 26
	// versionReserve is how many versions are reserved at once, and how many sequences: so many that a
	// reservation is rare, so few that 64 bits never run out.
	versionReserve = 2 * maxBatchVersions
	// maxQueuedJoints is how many joint requests wait for a batch. Each is a caller that waits too.
	maxQueuedJoints = 1 << 16
	// maxPiggybackWait is how long a piggybacked request waits for a batch: a few writes of the log,
	// and little for a caller that waits for the end of a transaction.
	maxPiggybackWait = time.Millisecond
	// prefetchAhead is for how many commands rows are fetched from memory together.
	prefetchAhead = rowcache.MaxPrefetchKeys
)

// Limits of non-blocking requests. Beyond them the request is refused.
const (
	// maxUncachedReads is how many rows on fast storage, but not in memory, the non-blocking commands
	// of a run read: each takes some microseconds. A scan counts as uncachedScanCost of them.
	maxUncachedReads, uncachedScanCost = 1024, 16
	// maxNonBlockingRows and maxNonBlockingBytes are how much one command scans, and looks up if it
	// only reads: about two milliseconds, in which no other is served. The row that passes a limit is
	// still read, so that one large row alone is none too many. Twice as much is a GET of another
	// client that waits twice as long; half as much gains nothing for hashes of some hundred fields,
	// which are nearly all.
	maxNonBlockingRows, maxNonBlockingBytes = 2048, 1 << 20
)

// Limits of readers past the queue.
const (
	// maxReadOnlyTries is how often EvalReadOnly looks before it takes its turn.
	maxReadOnlyTries = 3
	// maxValueBytes is how many bytes of values are read together, and maxNonBlockingValueBytes by
	// a reader that must not wait: what is beyond stays unknown.
	maxValueBytes            = 1 << 20
	maxNonBlockingValueBytes = 256 << 10
	// maxKeptValueBytes is how much memory for values a RowBuffer uses again.
	maxKeptValueBytes = 64 << 10
	// traceSlots is how many keys lockTraces distinguishes: many times those that are locked at
	// once, in 16 KiB for each group.
	traceSlots = 1024
)

// Times of requests that have to wait or to be known again.
const (
	// defaultRemember is for how long a RequestID is known: longer than clients go on retrying.
	defaultRemember = 10 * time.Minute
	// lockWaitTime is how long a command waits for the end of a transaction, which takes a few writes
	// of the log, before it asks for the outcome itself.
	lockWaitTime = 2 * time.Millisecond
	// reserveAfter is for how long other writers come first before a request asks for a reservation.
	// Mostly they are through before, and it goes without: reservations take commands of their own,
	// and every waiter looks again at the end of each.
	reserveAfter = 10 * time.Millisecond
)

// Limits of a round of housekeeping, which shares the group with commands.
const (
	// housekeepLimit is how many rows of each kind a round handles.
	housekeepLimit = 512
	// maxSweptKeys is of how many keys elements are swept in a round.
	maxSweptKeys = 16
	// maxSweepStep is how many elements are read together if there may be a disk to wait for.
	maxSweepStep = 16
	// minReportedSweep is how many elements that were swept at a key make Options.OnSwept be called:
	// a scan would take some milliseconds to step over their deletions.
	minReportedSweep = 1 << 14
	// retryUnreadMS is after how many milliseconds a row is read again that could not be read.
	// retryLockedMS is the same for one that was locked, or not tried, because those that could not
	// be read took more than maxFailedReadTime in a round.
	retryUnreadMS, retryLockedMS = 10_000, 1000
	maxFailedReadTime            = 200 * time.Millisecond
	// obsoleteScanMS is how many milliseconds pass between scans of what transactions have left:
	// seldom against how long it is kept, for a scan passes all that is too young, and the gaps of
	// what is deleted.
	obsoleteScanMS = txn.DecisionKeepMS / 2
	// maxIdleMS is up to how many milliseconds these looks move apart, twice as far each time that
	// nothing is found: a scan sorts what was written since the last one.
	maxIdleMS = 60_000
)
