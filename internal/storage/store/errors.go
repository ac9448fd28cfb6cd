package store

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cleavekv/cleave/internal/storage/wal"
)

// What the log already has a word for keeps that word, so that a caller asks
// with one errors.Is wherever the trouble began.
var (
	// ErrClosed means that the store was closed.
	ErrClosed = wal.ErrClosed
	// ErrFailed means that the store met an error it cannot continue from: a
	// failed write or sync of the log, or a failed flush or manifest of Pebble.
	// It stays. Nothing is acknowledged or served any more; repair the disk and
	// open the store again: all that was acknowledged is there.
	ErrFailed = wal.ErrFailed
	// ErrUnknown means that a commit may or may not have happened: the next
	// Open decides. It comes together with ErrFailed.
	ErrUnknown = wal.ErrUnknown
	// ErrDiskFull means that a commit was refused before it was logged because
	// the disk is full. Reads work. It goes away when there is space again.
	ErrDiskFull = wal.ErrDiskFull
	// ErrNoFiles means the same for want of files that may be open. It matches
	// ErrDiskFull.
	ErrNoFiles = wal.ErrNoFiles
	// ErrCorrupt means that bytes on disk are not what was written. They are
	// never served; restore a backup. [CorruptError] has the file.
	ErrCorrupt = wal.ErrCorrupt
	// ErrGone means that the feed no longer has the position: take a snapshot,
	// and read the feed from the snapshot's position.
	ErrGone = wal.ErrGone
)

var (
	// ErrLocked means that the directory is open already, here or in another
	// process: close that one first.
	ErrLocked = errors.New("store: directory is in use")
	// ErrForeign means that the directory has files and none says that it is a
	// store: name an empty or a new directory.
	ErrForeign = errors.New("store: directory is not a store")
	// ErrTooManySnapshots means that snapshots and scans that are open keep as much in
	// memory as they may: close some, or let them end.
	ErrTooManySnapshots = errors.New("store: too many open snapshots")
	// ErrDataLoss means that the log lacks what was acknowledged. It comes together with
	// ErrCorrupt: restore a backup, or open the store with [Options.AcceptLoss], which goes
	// on with what is left.
	ErrDataLoss = errors.New("store: acknowledged data is missing")
	// ErrPayload means that an entry's payload is not an effect batch. Nothing
	// was logged.
	ErrPayload = errors.New("store: payload is not an effect batch")
)

// CorruptError reports which file of the store is damaged. It matches [ErrCorrupt].
type CorruptError struct {
	File string
	Err  error // what was wrong, with the offset where it is known
}

// Error names the file, what to do, and what was wrong.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("store: %s is damaged, restore a backup: %v", e.File, e.Err)
}

// Unwrap returns what was wrong.
func (e *CorruptError) Unwrap() error { return e.Err }

// Is makes every CorruptError match [ErrCorrupt].
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// LossError is damage beyond which a store can be opened with what is left. It matches
// [ErrDataLoss], and [ErrCorrupt].
type LossError struct{ Err error }

// Error returns what is damaged and what can be done.
func (e *LossError) Error() string {
	return fmt.Sprintf("%v: restore a backup, or accept the loss of what the log does not have", e.Err)
}

// Unwrap returns the damage.
func (e *LossError) Unwrap() error { return e.Err }

// Is makes every LossError match [ErrDataLoss] and [ErrCorrupt].
func (e *LossError) Is(target error) bool { return target == ErrDataLoss || target == ErrCorrupt }

// lockHeldError is why a lock file could not be locked.
type lockHeldError struct {
	holder string // what the holder wrote about itself, if anything
	cause  error
}

func (e *lockHeldError) Error() string {
	switch {
	case e.holder != "":
		return "by " + e.holder
	case e.cause != nil:
		return e.cause.Error()
	}
	return "by someone else"
}

// readError gives an error of Pebble's read paths our words.
func readError(err error) error {
	if err == nil || errors.Is(err, ErrCorrupt) || !pebble.IsCorruptionError(err) {
		return err
	}
	file := "data"
	if info := pebble.ExtractDataCorruptionInfo(err); info != nil {
		file = info.Path
	}
	return &CorruptError{File: file, Err: err}
}
