package cache

import (
	"errors"
	"fmt"

	"github.com/cleavekv/cleave"
)

var (
	// ErrOptions means that an option is out of its range, or missing: the text says
	// which and what to use. It matches cleave.ErrOptions too.
	ErrOptions = fmt.Errorf("%w of a cache", cleave.ErrOptions)
	// ErrClosed means that the cache was closed.
	ErrClosed = errors.New("cache: closed")
	// ErrKey means that a key is not equal to itself, as NaN is not: it would never be found.
	ErrKey = errors.New("cache: a key is not equal to itself: leave out what is not a number")
	// ErrPanic means that the loader panicked: the text says with what, and a
	// [PanicError] where.
	ErrPanic = errors.New("cache: the loader panicked")
	// ErrFollowing means that the cache follows a feed already: make another cache.
	ErrFollowing = errors.New("cache: it follows a feed already")
	// ErrNotFollowing means that the cache follows no feed, and so cannot wait for one:
	// call Follow first.
	ErrNotFollowing = errors.New("cache: it follows no feed: call Follow first")
)

// PanicError is what waiters get of a loader that panicked. It matches [ErrPanic].
type PanicError struct {
	Value any
	Stack []byte // of the loader
}

// Error tells what the loader panicked with.
func (e *PanicError) Error() string { return fmt.Sprintf("%v: %v", ErrPanic, e.Value) }

// Is matches ErrPanic.
func (e *PanicError) Is(target error) bool { return target == ErrPanic }

// errExit is of a loader that has ended its goroutine, as a test does that fails in it.
var errExit = errors.New("cache: the loader ended its goroutine instead of returning")
