package cleave

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
)

// Durability says when a write counts as done. The words are those of Redis.
type Durability uint8

const (
	// Always acknowledges what is synced to stable storage: "always".
	Always = Durability(wal.Always)
	// EverySec acknowledges what the operating system has, and syncs it within
	// about a second: "everysec".
	EverySec = Durability(wal.EverySec)
	// Never acknowledges what the operating system has, and syncs when a
	// segment of the log is full: "no".
	Never = Durability(wal.Never)
)

// String is the word for d.
func (d Durability) String() string { return wal.Durability(d).String() }

// ParseDurability is the inverse of String.
func ParseDurability(word string) (Durability, error) {
	d, err := wal.ParseDurability(word)
	if err != nil {
		return 0, optionErrorf("durability %q: use always, everysec or no", word)
	}
	return Durability(d), nil
}

// Options configure a store. The zero value works.
type Options struct {
	// Durability is when a write counts as done. Default Always.
	Durability Durability
	// Stores is how many logs and stores there are, each with its own disk
	// traffic. It is decided when the directory is made: later it must be the
	// same or 0. Default 1. At most 64. With several, the slots of a hash
	// keyspace are spread over them, and a range keyspace begins in one. A
	// transaction whose keys are in several takes two phases: about three times as
	// long as one in a group (bench/SHARDS.md).
	Stores int
	// Groups is how many groups execute commands, each by itself and one batch at
	// a time, on keys of its own. It is for a new directory: one that has groups keeps
	// them, whatever Groups says, as a [Regroup] may have changed their number since;
	// [DB.Groups] returns them. Default one for each processor that Go uses, or one more so that each store has as many.
	// At least as many as there are stores, at most 1024. A transaction whose keys are in several groups of one store
	// is committed by them together.
	Groups int
	// CacheBytes is the room for rows in memory, of each store. Default 64 MiB.
	// At least 64 KiB.
	CacheBytes int64
	// BlockCacheBytes is the room for blocks of the tables on disk, of each
	// store. It serves scans and what the row cache does not have. Default 128
	// MiB, 16 MiB in memory. At least 64 KiB.
	BlockCacheBytes int64
	// Preload brings all rows into memory after Open, while the store is used, if they are
	// small enough for CacheBytes: then reads need no disk, not even those of keys that do
	// not exist.
	Preload bool
	// QueueLimit bounds the commands that wait. Default 1024. At least 1.
	QueueLimit int
	// FailWhenFull makes a full queue fail with ErrOverloaded at once instead of
	// blocking until there is room or the context ends.
	FailWhenFull bool
	// RequestTTL is for how long a [RequestID] is remembered. Default 10 minutes. From
	// a second to a day. What was forgotten stays so: a store that is opened with a
	// longer one takes ids that it has forgotten for new. Raise it while nothing is
	// retried that is older than the shorter one.
	RequestTTL time.Duration
	// FeedBytes is how much of the log is kept for readers of the feed, of each
	// store, beyond what recovery needs. Default 64 MiB, 8 MiB in memory; -1 keeps none.
	FeedBytes int64
	// Logger receives what an operator should know: stores that were opened and how much of
	// their logs was read again, jobs, backups, builds of indexes, a slow or full disk, a store
	// that has failed. Values are never logged, and what comes often is counted. Default: silent,
	// but what Open repairs, or loses with AcceptDataLoss, goes to slog.Default().
	Logger *slog.Logger
	// AcceptDataLoss opens a store of which acknowledged writes are missing, where Open
	// otherwise fails with [ErrDataLoss], and goes on with what is left: of each log what
	// lies before the damage. What is known to be lost is logged, and up to how much may be.
	// Transactions across stores may be left in part. Copy the directory before: it cannot be
	// taken back.
	AcceptDataLoss bool
	// HeatOff leaves out which keys and ranges are hot: one operation of 128 is sampled for that, and takes up to about
	// 15 MiB of memory in a program that has many keys.
	HeatOff bool
	// ManualRelief makes the store only propose what it would do about hot, large and cold shards: an operator decides.
	// Default: it splits, moves and merges shards by itself.
	ManualRelief bool
	// Now is the clock that expiry and the age of a [RequestID] are judged by.
	// Default time.Now.
	Now func() time.Time
}

// checkRanges reports every option that is out of its range.
func (o *Options) checkRanges() error {
	var errs []error
	refuse := func(bad bool, option string, value any, use string, args ...any) {
		if bad {
			errs = append(errs, &OptionError{Option: option, Value: fmt.Sprint(value), Use: fmt.Sprintf(use, args...)})
		}
	}
	if o.Durability > Never {
		errs = append(errs, optionErrorf("%v: use Always, EverySec or Never", o.Durability))
	}
	refuse(o.Stores < 0 || o.Stores > maxStores, "Stores", o.Stores, "1 to %d, or 0 for the default", maxStores)
	refuse(o.Groups != 0 && (o.Groups < max(o.Stores, 1) || o.Groups > maxGroups), "Groups", o.Groups, "%d to %d, or 0 for the default", max(o.Stores, 1), maxGroups)
	refuse(o.CacheBytes != 0 && o.CacheBytes < minCacheBytes, "CacheBytes", o.CacheBytes, "at least %d, or 0 for the default", minCacheBytes)
	refuse(o.BlockCacheBytes != 0 && o.BlockCacheBytes < minCacheBytes, "BlockCacheBytes", o.BlockCacheBytes, "at least %d, or 0 for the default", minCacheBytes)
	refuse(o.QueueLimit < 0, "QueueLimit", o.QueueLimit, "at least 1, or 0 for the default")
	refuse(o.RequestTTL != 0 && (o.RequestTTL < time.Second || o.RequestTTL > 24*time.Hour), "RequestTTL", o.RequestTTL, "1s to 24h, or 0 for the default")
	refuse(o.FeedBytes < -1, "FeedBytes", o.FeedBytes, "a positive one, 0 for the default, or -1 for none")
	return errors.Join(errs...)
}

const (
	maxStores     = 64
	maxGroups     = 1024
	minCacheBytes = 64 << 10
)

const (
	// minMemorySegmentBytes and maxMemorySegmentBytes bound the segments of a log in memory. Small ones
	// are merged into the tables more often; but zeros that wait for a log are unused
	// memory.
	minMemorySegmentBytes = 4 << 20
	maxMemorySegmentBytes = 16 << 20
	// memoryFeedBytes is how much log in memory is kept for readers of the feed: it takes as much memory.
	memoryFeedBytes = 8 << 20
	// memoryBlockCacheBytes is for blocks of tables in memory: they are there already, and a block is
	// copied sooner than it is read from a disk.
	memoryBlockCacheBytes = 16 << 20
	// memoryLayers is for tables in memory, where a scan does not wait for a disk: about a
	// sixth less of the processors for a write than with the default.
	memoryLayers = 8
)

// applyLinger is how long writes wait in memory and in the log for others to be brought into the
// tables with them: about as long as it takes to fill a segment.
const applyLinger = time.Second

// memorySegmentBytes is the size of segments beside a row cache of so many bytes: a part of it.
func memorySegmentBytes(cache int64) int64 {
	return min(max(cache/32, minMemorySegmentBytes), maxMemorySegmentBytes)
}

// groupsOfNewDirectory is Groups, or a group for each processor, as many of each store.
func (o Options) groupsOfNewDirectory() int {
	if o.Groups != 0 {
		return o.Groups
	}
	stores := max(o.Stores, 1)
	perStore := (runtime.GOMAXPROCS(0) + stores - 1) / stores
	return max(stores, min(perStore*stores, maxGroups))
}

func (o Options) toNodeOptions(dir string) (node.Options, error) {
	if err := o.checkRanges(); err != nil {
		return node.Options{}, err
	}
	no := node.Options{
		Dir: dir, Stores: o.Stores, Groups: o.groupsOfNewDirectory(), Queue: o.QueueLimit, Refuse: o.FailWhenFull, Remember: o.RequestTTL,
		Durability: wal.Durability(o.Durability), Log: o.Logger, HeatOff: o.HeatOff,
		Store: store.Options{CacheBytes: o.CacheBytes, BlockCacheBytes: o.BlockCacheBytes, RetainBytes: o.FeedBytes, Preload: o.Preload, Linger: applyLinger},
	}
	log := o.Logger
	if log == nil {
		log = slog.Default()
	}
	no.Store.AcceptLoss, no.Store.Report = o.AcceptDataLoss, func(message string) { log.Warn(message) }
	if dir == "" {
		if o.Durability == Always {
			no.Durability = wal.Never // there is nothing to wait for
		}
		no.Store.SegmentBytes = memorySegmentBytes(o.CacheBytes)
		no.Store.RetainBytes = cmp.Or(o.FeedBytes, memoryFeedBytes)
		no.Store.BlockCacheBytes = cmp.Or(o.BlockCacheBytes, memoryBlockCacheBytes)
		no.Store.Layers = memoryLayers
	}
	if now := o.Now; now != nil {
		no.Wall = func() int64 { return now().UnixMilli() }
	}
	return no, nil
}

// ErrOptions means that an option is out of its range: the text says which and
// what to use, and for [Options] an [OptionError] has it in parts.
var ErrOptions = errors.New("cleave: bad options")

func optionErrorf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrOptions, fmt.Sprintf(format, args...))
}

// OptionError is one of [Options] that cannot be as it is. It matches ErrOptions. Programs
// that have other names for options, such as flags, say with it what is wrong in their own
// words. When several are wrong the error has one for each.
type OptionError struct {
	// Option is the name of the field, and Value what it was, such as Stores and 3.
	Option, Value string
	// Use is what it may be, such as "1 to 64, or 0 for the default".
	Use string
	// Found is what the directory has that it does not go with, such as "data has 2
	// stores, not 3". It is empty if the value is out of its range in any directory.
	Found string
}

// Error returns what is wrong and what to use.
func (e *OptionError) Error() string {
	if e.Found != "" {
		return fmt.Sprintf("%v: %s: open it with %s %s", ErrOptions, e.Found, e.Option, e.Use)
	}
	return fmt.Sprintf("%v: %s is %s: use %s", ErrOptions, e.Option, e.Value, e.Use)
}

// Is makes it match ErrOptions.
func (e *OptionError) Is(target error) bool { return target == ErrOptions }

// As finds an option that does not go with the directory, which the packages below see.
func (e *publicError) As(target any) bool {
	to, ok := target.(**OptionError)
	var found *node.OptionError
	if !ok || !errors.As(e.cause, &found) {
		return false
	}
	*to = &OptionError{Option: found.Option, Value: fmt.Sprint(found.Value), Use: fmt.Sprintf("0 or %d", found.Have), Found: found.Found}
	return true
}
