package store

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cleavekv/cleave/internal/wal"
)

// health is whether the store may go on. Pebble, the log and the applier report
// to it; every call asks it.
type health struct {
	dead atomic.Pointer[deathError]
	// While Pebble is being opened a cause of death only waits here. If a
	// compaction runs already when Open fails, Pebble pulls the files away from
	// under it and panics; so what a compaction finds must not make Open fail.
	opening atomic.Bool
	pending atomic.Pointer[deathError]
	full    atomic.Bool // Pebble met a full disk and has not succeeded since
	fullAt  atomic.Int64
	noFiles atomic.Bool // what it met was want of files that may be open
	wake    func()      // tells the applier that something changed
}

// deathError is the reason why the store is dead. It matches [ErrFailed] and
// whatever its cause matches.
type deathError struct{ cause error }

func (e *deathError) Error() string {
	return fmt.Sprintf("store: failed, repair the cause and open it again: %v", e.cause)
}
func (e *deathError) Unwrap() error        { return e.cause }
func (e *deathError) Is(target error) bool { return target == ErrFailed }

// die ends the store. The first cause is kept: the later ones follow from it.
func (h *health) die(cause error) {
	h.pending.CompareAndSwap(nil, &deathError{cause: readError(cause)})
	if !h.opening.Load() {
		h.dead.Store(h.pending.Load())
	}
	h.wake()
}

// opened ends the time in which nothing dies, and returns why the store is dead.
func (h *health) opened() error {
	h.opening.Store(false)
	h.dead.Store(h.pending.Load())
	return h.err()
}

// err returns why the store is dead, or nil.
func (h *health) err() error {
	if d := h.dead.Load(); d != nil {
		return d
	}
	return nil
}

// impaired reports whether the applier may not get on.
func (h *health) impaired() bool { return h.full.Load() || h.dead.Load() != nil }

// lack is what Pebble lacks, or lacked last.
func (h *health) lack() error {
	if h.noFiles.Load() {
		return ErrNoFiles
	}
	return ErrDiskFull
}

// background takes an error of a flush or compaction. A full disk passes, and so does want
// of files that may be open, and Pebble tries again by itself; anything else does not.
func (h *health) background(err error) {
	lack := wal.LackOf(err)
	switch {
	case errors.Is(err, pebble.ErrCancelledCompaction) || errors.Is(err, pebble.ErrClosed):
	case lack != nil || vfs.IsNoSpaceError(err):
		h.lacks(lack)
		h.wake()
	default:
		h.die(err)
	}
}

// lacks notes what passes.
func (h *health) lacks(lack error) {
	h.noFiles.Store(lack == ErrNoFiles)
	h.fullAt.Store(time.Now().UnixNano())
	h.full.Store(true)
}

// succeeded notes that Pebble wrote tables: the disk has space.
func (h *health) succeeded() {
	h.full.Store(false)
	h.wake()
}

// Pebble's logger. What it tells is in metrics and errors; values must not
// reach a log, and Pebble's lines may show keys.

func (h *health) Infof(string, ...any)  {}
func (h *health) Errorf(string, ...any) {}

// Fatalf is where Pebble ends when its manifest cannot be written. Unlike the
// process of its makers ours lives on, so it returns; but the guard lets
// nothing more reach the disk, and no call of the store succeeds any more.
func (h *health) Fatalf(format string, args ...any) {
	e := &fatalError{text: fmt.Sprintf("pebble: "+format, args...)}
	for _, a := range args {
		if cause, ok := a.(error); ok {
			e.cause = cause
		}
	}
	h.die(e)
}

// fatalError is a line of Pebble's log that still matches its cause.
type fatalError struct {
	text  string
	cause error
}

func (e *fatalError) Error() string { return e.text }
func (e *fatalError) Unwrap() error { return e.cause }
