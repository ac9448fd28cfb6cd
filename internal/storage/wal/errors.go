package wal

import (
	"errors"
	"fmt"
	"slices"
)

var (
	// ErrClosed means that the log was closed: open it again.
	ErrClosed = errors.New("wal: log is closed")
	// ErrFailed means that a write or a sync failed. What the disk holds is no
	// longer known, so this Log refuses everything: replace the disk or free the
	// cause, and open again.
	ErrFailed = errors.New("wal: log has failed")
	// ErrUnknown means that the entries may be on disk or not: after the next Open
	// they are there or they are not. Errors without it mean that they are not.
	ErrUnknown = errors.New("wal: outcome is unknown")
	// ErrDiskFull means that there is no room for another segment: free space, or
	// apply and recycle. It goes away by itself.
	ErrDiskFull = errors.New("wal: disk is full")
	// ErrNoFiles means that there is no other segment because the process, or the system, has
	// as many files open as it may: close some, or raise the limit. It goes away by itself, and
	// matches [ErrDiskFull], as what it means for a caller is the same.
	ErrNoFiles error = noFilesError{}
	// ErrCorrupt means that bytes which had been durable are missing or damaged:
	// restore from a backup or a replica. The detail is a [*CorruptError].
	ErrCorrupt = errors.New("wal: log is corrupt")
	// ErrForeign means that a segment belongs to another store: check the directory.
	ErrForeign = errors.New("wal: segment belongs to another store")
	// ErrVersion means that a segment was written in a format that this program
	// does not know: use a newer program.
	ErrVersion = errors.New("wal: unknown format version")
	// ErrGone means that the entries after a position are no longer retained, or
	// were lost in a crash: take a snapshot, and read on from its position.
	ErrGone = errors.New("wal: position is not retained")
	// ErrTooLarge means that the entries exceed [MaxBytes]: split them.
	ErrTooLarge = errors.New("wal: entries too large for one frame")
	// ErrNoEntries means that Append was called with nothing to append.
	ErrNoEntries = errors.New("wal: no entries")
)

// CorruptError reports where the log is damaged and how that is known.
type CorruptError struct {
	Segment string   // file name
	At      Position // where the first unreadable byte should be
	Reason  string
}

// Error names the file, the offset in it, and how the damage is known.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("wal: log is corrupt: %s at offset %d: %s", e.Segment, e.At.offset(), e.Reason)
}

// Is makes the error match [ErrCorrupt].
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// Loss is what a log that was damaged has lost: see [Options.AcceptLoss].
type Loss struct {
	// Damages are the errors with which Open would have failed.
	Damages []error
	// From is where the log ends that is left. To is how far it is known to have gone;
	// there may have been more.
	From, To Position
	// Bytes is how much log lay between, at least. MaxBytes is how much is lost at most: what there
	// was room for behind From in the segments that are damaged or missing.
	Bytes, MaxBytes int64
	// IsUnbounded reports that there may be more than MaxBytes: the manifest is damaged, which says
	// what segments there were.
	IsUnbounded bool
}

// failedError wraps the cause of death so that it matches ErrFailed.
type failedError struct{ cause error }

func (e *failedError) Error() string        { return ErrFailed.Error() + ": " + e.cause.Error() }
func (e *failedError) Unwrap() error        { return e.cause }
func (e *failedError) Is(target error) bool { return target == ErrFailed }

// unknownError adds that the frame had been handed to the disk.
type unknownError struct{ error }

func (e *unknownError) Unwrap() error        { return e.error }
func (e *unknownError) Is(target error) bool { return target == ErrUnknown }

type noFilesError struct{}

func (noFilesError) Error() string {
	return "wal: no more files can be opened: raise the limit on open files"
}
func (noFilesError) Is(target error) bool { return target == ErrDiskFull }

// ShortageOf returns what is lacking, and may be there again soon, if that is what an error says:
// [ErrDiskFull], [ErrNoFiles] or nil.
func ShortageOf(err error) error {
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case is(ErrNoFiles) || slices.ContainsFunc(filesErrors, is):
		return ErrNoFiles
	case is(ErrDiskFull) || slices.ContainsFunc(fullErrors, is):
		return ErrDiskFull
	}
	return nil
}
