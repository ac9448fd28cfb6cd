package cleave

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cleavekv/cleave/internal/engine"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/reshard/mover"
	"github.com/cleavekv/cleave/internal/shard/admission"
	"github.com/cleavekv/cleave/internal/shard/command"
	"github.com/cleavekv/cleave/internal/shard/group"
	"github.com/cleavekv/cleave/internal/shard/index"
	"github.com/cleavekv/cleave/internal/storage/store"
	"github.com/cleavekv/cleave/internal/storage/wal"
	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/partition"
)

// What can go wrong. Errors match one of these with errors.Is, and their text
// says what to do. Besides them there are those of a context that has ended,
// and those of the operating system about a directory that cannot be made, read
// or, by Backup, used because it is not empty.
var (
	// ErrNotFound means that there is no such key or field.
	ErrNotFound = errors.New("cleave: not found")
	// ErrNotStored means that the condition of a Set did not hold.
	ErrNotStored = errors.New("cleave: the condition did not hold, nothing was stored")
	// ErrClosed means that the store was closed.
	ErrClosed = errors.New("cleave: closed")
	// ErrUnknown means that a write may or may not have taken effect: look
	// before you repeat it, or repeat it with the same RequestID.
	ErrUnknown = errors.New("cleave: outcome unknown")
	// ErrFailed means that the store stopped after an error of the disk or a
	// damaged file. Repair the cause and open it again: what was acknowledged
	// is there.
	ErrFailed = errors.New("cleave: the store has failed")
	// ErrDiskFull means that a write was refused because the disk is full, or
	// because no more files can be opened: the text says which. Reads go on;
	// writes do too, once there is room again.
	ErrDiskFull = errors.New("cleave: the disk is full")
	// ErrCorrupt means that bytes on disk are not what was written there. They
	// are not served: restore a backup.
	ErrCorrupt = errors.New("cleave: damaged data")
	// ErrDataLoss means that a log lacks what was acknowledged, or that one of several
	// stores was put back to an older copy. It matches ErrCorrupt. Restore a backup, or
	// open the store with Options.AcceptDataLoss.
	ErrDataLoss error = dataLossError{}
	// ErrLocked means that another process, or another DB of this one, has the
	// directory open: close that one first.
	ErrLocked = errors.New("cleave: the directory is in use")
	// ErrForeign means that the directory holds something else: name a new or
	// an empty one.
	ErrForeign = errors.New("cleave: the directory is not a store")
	// ErrVersion means that the directory was written by a version of Cleave
	// with a format that this one does not know: use that version or a newer one.
	ErrVersion = errors.New("cleave: the directory is of another version")
	// ErrSnapshots means that scans and transactions that are open keep as much
	// of the past in memory as they may: let some of them end.
	ErrSnapshots = errors.New("cleave: too many open scans and transactions")
	// ErrPinLimit means that a row cannot be pinned: it is too large for the cache, or
	// those that are pinned take the half of it that they may. Unpin some, or open the
	// store with more CacheBytes.
	ErrPinLimit = errors.New("cleave: no room for more pinned rows")
	// ErrOverloaded means that too many commands wait: slow down.
	ErrOverloaded = errors.New("cleave: overloaded")
	// ErrThrottled means that a write was not done because too many write to the same keys:
	// see [ThrottledError].
	ErrThrottled = errors.New("cleave: throttled")
	// ErrConflict means that something changed that a condition or a
	// transaction had read: read again and retry.
	ErrConflict = errors.New("cleave: conflict")
	// ErrWrongType means that the key holds another type of value.
	ErrWrongType = errors.New("cleave: wrong type of value")
	// ErrNotInteger means that a value is not a decimal integer of 64 bits.
	ErrNotInteger = errors.New("cleave: not an integer")
	// ErrOverflow means that a sum would not fit into 64 bits.
	ErrOverflow = errors.New("cleave: overflow")
	// ErrTooLarge means that a limit is passed: the text says which.
	ErrTooLarge = errors.New("cleave: too large")
	// ErrNoKeyspace means that there is no such keyspace: create it.
	ErrNoKeyspace = errors.New("cleave: no such keyspace")
	// ErrKeyspaceExists means that the name of a keyspace is taken.
	ErrKeyspaceExists = errors.New("cleave: the keyspace exists")
	// ErrNoIndex means that there is no such index: create it.
	ErrNoIndex = errors.New("cleave: no such index")
	// ErrIndexExists means that the name of an index is taken.
	ErrIndexExists = errors.New("cleave: the index exists")
	// ErrIndexBuilding means that an index does not have the entries of all rows yet:
	// wait for it with Index.Wait, or ask for what there is.
	ErrIndexBuilding = errors.New("cleave: the index is being built")
	// ErrUndeclared means that an index has a function that this program has not
	// declared since the store was opened: use OpenIndex with it, or drop the index.
	ErrUndeclared = errors.New("cleave: the function of the index is not declared")
	// ErrIndexRow means that a row cannot have its entries in an index, so that it was
	// not written: the text says why.
	ErrIndexRow = errors.New("cleave: an index refuses the row")
	// ErrUnique means that another row has the entry already: see [UniqueError].
	ErrUnique = errors.New("cleave: another row has the same entry in a unique index")
	// ErrBusy means that a job is at work on a part of the same keys, which the
	// text names: wait for it, or cancel it.
	ErrBusy = errors.New("cleave: another job is at work there")
	// ErrTooLate means that a job has made its decision and goes forward: wait
	// for it, and undo what it does with another one.
	ErrTooLate = errors.New("cleave: too late, the job goes forward")
	// ErrJobEnded means that a job has ended: start another to change more.
	ErrJobEnded = errors.New("cleave: the job has ended")
	// ErrJobUndone means that a job was taken back: what it changed is as before,
	// but for moves of a drain or regroup that were done by then. The text says why.
	ErrJobUndone = errors.New("cleave: the job was taken back")
	// ErrNoJob means that there is no such job, or that it ended long ago: DB.Jobs
	// lists those that are known.
	ErrNoJob = errors.New("cleave: no such job")
	// ErrNoCap means that there is no such cap: it has ended, or was removed.
	ErrNoCap = errors.New("cleave: no such cap")
	// ErrNoShard means that the map has no such shard: look at it again.
	ErrNoShard = errors.New("cleave: no such shard")
	// ErrNoGroup means that there is no such group: DB.Groups lists them.
	ErrNoGroup = errors.New("cleave: no such group")
	// ErrDraining means that the group takes no more shards: choose another.
	ErrDraining = errors.New("cleave: the group is draining")
	// ErrBoundary means that there cannot be a boundary: it is outside of the
	// keyspace, or at its start.
	ErrBoundary = errors.New("cleave: bad boundary")
	// ErrNotNeighbours means that shards to merge do not touch in that order: see
	// DB.Shards for the neighbours.
	ErrNotNeighbours = errors.New("cleave: not neighbours")
	// ErrDifferentGroups means that shards to merge are of different groups: move
	// one of them.
	ErrDifferentGroups = errors.New("cleave: shards of different groups")
	// ErrNoChange means that all is as it is asked for: there is nothing to do.
	ErrNoChange = errors.New("cleave: nothing to change")
	// ErrNowhere means that a shard of a group that is drained has nowhere to go:
	// add a group.
	ErrNowhere = errors.New("cleave: no group may take the shard")
	// ErrCatalog means that a shard is that of the catalog, which stays as it is,
	// with the first group: choose another.
	ErrCatalog = errors.New("cleave: the catalog stays where it is")
	// ErrRequestOld means that a RequestID is too old, or of the future, so
	// that it is unknown whether it was executed. It was not executed now.
	ErrRequestOld = errors.New("cleave: the request id is out of the remembered time")
	// ErrGone means that the feed does not go back that far: read the data, and
	// follow the feed from where you read.
	ErrGone = errors.New("cleave: the feed does not reach back that far")
	// ErrReadOnly means that a View tried to write: use Update.
	ErrReadOnly = errors.New("cleave: a View cannot write: use Update")
	// ErrTxnOver means that a Txn was used after its function had returned: do
	// all of it inside.
	ErrTxnOver = errors.New("cleave: the transaction is over: use a Txn only inside of its function")
)

// errNoFiles is how [ErrDiskFull] reads when it is not space that lacks.
var errNoFiles error = noFilesError{}

type noFilesError struct{}

func (noFilesError) Error() string        { return "cleave: no more files can be opened" }
func (noFilesError) Is(target error) bool { return target == ErrDiskFull }

type dataLossError struct{}

func (dataLossError) Error() string        { return "cleave: acknowledged data is missing" }
func (dataLossError) Is(target error) bool { return target == ErrCorrupt }

// publicErrors are the public names of what the packages below report. The first match
// counts: an unknown outcome is more important than why.
var publicErrors = []struct{ from, to error }{
	{group.ErrUnknown, ErrUnknown},
	{store.ErrUnknown, ErrUnknown},
	{engine.ErrClosed, ErrClosed},
	{group.ErrClosed, ErrClosed},
	{store.ErrClosed, ErrClosed},
	{store.ErrNoFiles, errNoFiles},
	{store.ErrDiskFull, ErrDiskFull},
	{store.ErrLocked, ErrLocked},
	{store.ErrTooManySnapshots, ErrSnapshots},
	{store.ErrNoRoom, ErrPinLimit},
	{store.ErrForeign, ErrForeign},
	{wal.ErrForeign, ErrForeign},
	{store.ErrFormat, ErrVersion},
	{wal.ErrVersion, ErrVersion},
	{store.ErrDataLoss, ErrDataLoss},
	{store.ErrCorrupt, ErrCorrupt},
	{command.ErrRow, ErrCorrupt},
	{store.ErrGone, ErrGone},
	{group.ErrFailed, ErrFailed},
	{store.ErrFailed, ErrFailed},
	{group.ErrOverloaded, ErrOverloaded},
	{group.ErrRequestOld, ErrRequestOld},
	{group.ErrOptions, ErrOptions},
	{node.ErrOptions, ErrOptions},
	{partition.ErrKeyspace, ErrOptions},
	{command.ErrConflict, ErrConflict},
	{command.ErrWrongType, ErrWrongType},
	{command.ErrNotStored, ErrNotStored},
	{command.ErrNotInteger, ErrNotInteger},
	{command.ErrOverflow, ErrOverflow},
	{command.ErrTooLarge, ErrTooLarge},
	{command.ErrSyntax, ErrOptions},
	{node.ErrNoKeyspace, ErrNoKeyspace},
	{node.ErrKeyspaceExists, ErrKeyspaceExists},
	{node.ErrNoIndex, ErrNoIndex},
	{node.ErrIndexExists, ErrIndexExists},
	{node.ErrIndexKeyspace, ErrOptions},
	{index.ErrDefinition, ErrOptions},
	{index.ErrEntry, ErrIndexRow},
	{mover.ErrBusy, ErrBusy},
	{mover.ErrTooLate, ErrTooLate},
	{mover.ErrJobEnded, ErrJobEnded},
	{mover.ErrFixedShard, ErrCatalog},
	{mover.ErrNowhere, ErrNowhere},
	{mover.ErrBadRequest, ErrOptions},
	{node.ErrNoJob, ErrNoJob},
	{node.ErrNoCap, ErrNoCap},
	{admission.ErrTooManyLimits, ErrTooLarge},
	{partition.ErrUnknownShard, ErrNoShard},
	{partition.ErrUnknownGroup, ErrNoGroup},
	{partition.ErrDraining, ErrDraining},
	{partition.ErrBoundary, ErrBoundary},
	{partition.ErrCut, ErrBoundary},
	{partition.ErrNotNeighbours, ErrNotNeighbours},
	{partition.ErrDifferent, ErrDifferentGroups},
	{partition.ErrNoChange, ErrNoChange},
	{partition.ErrLimit, ErrTooLarge},
	{engine.ErrOptions, ErrOptions},
	{engine.ErrConflict, ErrConflict},
	{engine.ErrReadOnly, ErrReadOnly},
	{engine.ErrTxnOver, ErrTxnOver},
	{engine.ErrUndeclared, ErrUndeclared},
}

// errorAdvice is what to do about errors that cannot know it where they come from.
var errorAdvice = map[error]string{
	ErrPinLimit:      "unpin some, or open the store with more CacheBytes",
	ErrNoKeyspace:    "create it, or see DB.Keyspaces",
	ErrNoIndex:       "create it, or see DB.Indexes",
	ErrJobEnded:      "start another",
	ErrNoJob:         "see DB.Jobs",
	ErrNoShard:       "see DB.Shards",
	ErrNoCap:         "see DB.Caps",
	ErrNoGroup:       "see DB.Groups",
	ErrDraining:      "undrain it, or choose another",
	ErrNotNeighbours: "see DB.Shards",
	ErrNowhere:       "add a group, or undrain one",
	ErrCatalog:       "choose another",
}

// toPublicError makes err match its public name.
func toPublicError(err error) error {
	if err == nil {
		return nil
	}
	var said *publicError
	if errors.As(err, &said) {
		return err
	}
	if same := toEngineError(err); same != nil {
		return same
	}
	for _, w := range publicErrors {
		if errors.Is(err, w.from) {
			return &publicError{public: w.to, internal: w.from, cause: err}
		}
	}
	return err
}

// toEngineError returns the public error that is the same as one of the engine, or nil: one that is
// nothing but its name, or has parts.
func toEngineError(err error) error {
	switch err {
	case engine.ErrClosed:
		return ErrClosed
	case engine.ErrReadOnly:
		return ErrReadOnly
	case engine.ErrTxnOver:
		return ErrTxnOver
	}
	var unique *engine.UniqueError
	var building *engine.BuildingError
	var stalled *engine.StalledError
	var throttled *admission.ThrottledError
	switch {
	case errors.As(err, &stalled): // first: it wraps one of the others
		return fmt.Errorf("%w: %w", stalled.Ended, toPublicError(stalled.Stalled))
	case errors.As(err, &throttled):
		return (*ThrottledError)(throttled)
	case errors.As(err, &unique):
		return (*UniqueError)(unique)
	case errors.As(err, &building):
		text := fmt.Errorf("%w: %q of keyspace %q: use Wait", ErrIndexBuilding, building.Index, building.Keyspace)
		if building.Stalled != nil {
			text = fmt.Errorf("%w, but it stands still: %v", text, toPublicError(building.Stalled))
		}
		return text
	}
	return nil
}

// toPublicReason is why a job was taken back, or waits, in the words of this package: its record
// keeps the text of an error of those below.
func toPublicReason(why string) string {
	for _, w := range publicErrors {
		if strings.Contains(why, w.from.Error()) {
			e := &publicError{public: w.to, internal: w.from, cause: errors.New(why)}
			return strings.TrimPrefix(e.Error(), "cleave: ")
		}
	}
	// An error without a public name describes itself. Its package is no matter.
	if by, what, ok := strings.Cut(why, ": "); ok && !strings.Contains(by, " ") {
		return what
	}
	return why
}

// publicError is an error of the packages below that matches a public one.
type publicError struct{ public, internal, cause error }

// Error has the public word in the place of the one from below, which says the
// same: "package: what" of "package: what: what to do".
func (e *publicError) Error() string {
	text, said := e.cause.Error(), e.internal.Error()
	if name, rest, ok := strings.Cut(said, ": "); ok {
		what, _, _ := strings.Cut(rest, ": ")
		said = name + ": " + what
	}
	whole := e.public.Error()
	if text != said {
		whole += ": " + strings.Replace(text, said+": ", "", 1)
	}
	if do, ok := errorAdvice[e.public]; ok {
		whole += ": " + do
	}
	return whole
}

// Unwrap makes it match both.
func (e *publicError) Unwrap() []error { return []error{e.public, e.cause} }

// UniqueError reports which row has the entry of a unique index that another one was to
// get. It matches [ErrUnique].
type UniqueError struct {
	Keyspace, Index string
	// Entry is what both have.
	Entry key.Tuple
	// Key is the row that has it, and Row the one that was refused: in a transaction, or
	// while the index is built, that is not clear from the call.
	Key, Row []byte
}

// Error names the index and both rows.
func (e *UniqueError) Error() string {
	return strings.Replace((*engine.UniqueError)(e).Error(), engine.ErrUnique.Error(), ErrUnique.Error(), 1)
}

// Is matches [ErrUnique].
func (e *UniqueError) Is(target error) bool { return target == ErrUnique }

// ThrottledError reports why a write was not done whose turn did not come before its context ended, and when to try
// again. Nothing was written. Writers have to wait for turns where an operator has capped them, where a shard is so hot
// that others of its group would wait for it, and when the store is behind. It matches [ErrThrottled].
type ThrottledError struct {
	// Shard is the one that is written to.
	Shard  ShardID
	Reason string
	// RetryAfter is when a turn may be free: wait so long, and a little more at random, before you try again.
	RetryAfter time.Duration
}

// Error has all of it.
func (e *ThrottledError) Error() string { return "cleave: " + e.Unwrap().Error() }

// Is matches [ErrThrottled].
func (e *ThrottledError) Is(target error) bool { return target == ErrThrottled }

// Unwrap returns it as the packages below have it.
func (e *ThrottledError) Unwrap() error { return (*admission.ThrottledError)(e) }
