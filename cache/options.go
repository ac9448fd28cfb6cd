package cache

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Options of a cache. Load or LoadMany is needed; for the rest the zero value works.
type Options[K comparable, V any] struct {
	// Load returns the value of a key from where it lives. An error that matches
	// [ErrNotFound] means that there is none, which is remembered. Its context has
	// the values of that of a caller, and ends with LoadTimeout or Close.
	Load func(ctx context.Context, key K) (V, error)
	// LoadMany returns the values of several keys at once, for [Cache.GetMany]. Keys that
	// it leaves out are not found. If there is no Load it is used for single keys too.
	LoadMany func(ctx context.Context, keys []K) (map[K]V, error)
	// NotFound is another error by which Load says that there is no value, that of the source,
	// such as sql.ErrNoRows. Package storecache sets it to that of the store. Default none.
	NotFound error
	// LoadTimeout is when the context of a load ends. Default 30 s; -1 for never.
	LoadTimeout time.Duration

	// MaxEntries is how many keys are kept. Default 10,000, if there is no MaxBytes.
	MaxEntries int
	// MaxBytes is how much is kept instead, by Size and 128 bytes for each entry, which
	// is about what the cache needs for itself. At least 4 KiB.
	MaxBytes int64
	// Size is what a key with its value takes, for MaxBytes. It is asked with the zero V
	// for a key that was not found.
	Size func(key K, value V) int

	// TTL is how long a value is returned without being loaded again. Default 1 minute;
	// -1 for as long as it is neither evicted nor invalidated.
	TTL time.Duration
	// Jitter is by how much of it a TTL is cut at most, at random, so that values that
	// were loaded together are not loaded again together. Default 0.1; -1 for none.
	Jitter float64
	// NotFoundTTL is how long it is remembered that there is no value. Default a tenth
	// of TTL: a caller that asks for an absent value often waits for it. -1 for not at all.
	NotFoundTTL time.Duration
	// StaleFor is for how long after its TTL a value is still returned while it is loaded
	// again, and while that fails. What was invalidated is never returned. Default 0.
	StaleFor time.Duration
	// Backoff is for how long a key that could not be loaded is not tried again; its
	// error is returned meanwhile. It doubles with each failure, up to MaxBackoff, and is
	// cut by up to a half at random. Default 100 ms; -1 for none.
	Backoff time.Duration
	// MaxBackoff is the longest Backoff. Default 10 s. At least Backoff.
	MaxBackoff time.Duration
}

const (
	defaultEntries = 10_000
	minMaxBytes    = 4 << 10
	// entryOverhead is what an entry takes beside its key and value: that of ours, and a
	// node and a place in the table of the library.
	entryOverhead = 128
)

// withDefaults spells the defaults out, with 0 for what is off, and reports every option
// that is out of its range.
func (o Options[K, V]) withDefaults() (Options[K, V], error) {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("%w: %s", ErrOptions, fmt.Sprintf(format, args...)))
		}
	}
	duration := func(d *time.Duration, name string, normal time.Duration) {
		refuse(*d < 0 && *d != -1, "%s is %v: use a positive one, 0 for the default, or -1 for none", name, *d)
		switch *d {
		case 0:
			*d = normal
		case -1:
			*d = 0
		}
	}
	refuse(o.Load == nil && o.LoadMany == nil, "there is no loader: give Load or LoadMany")
	refuse(o.MaxEntries < 0, "MaxEntries is %d: use a positive one, or 0 for the default", o.MaxEntries)
	refuse(o.MaxBytes != 0 && o.MaxBytes < minMaxBytes, "MaxBytes is %d: use at least %d, or MaxEntries", o.MaxBytes, minMaxBytes)
	refuse(o.MaxBytes != 0 && o.MaxEntries != 0, "use one of MaxEntries and MaxBytes")
	refuse((o.MaxBytes != 0) != (o.Size != nil), "MaxBytes and Size go together")
	refuse(o.Jitter != -1 && (o.Jitter < 0 || o.Jitter > 1), "Jitter is %v: use 0 to 1, or -1 for none", o.Jitter)
	refuse(o.StaleFor < 0, "StaleFor is %v: use a positive one, or 0 for none", o.StaleFor)
	refuse(o.StaleFor > 0 && o.TTL == -1, "StaleFor needs a TTL")
	refuse(o.MaxBackoff < 0, "MaxBackoff is %v: use a positive one, or 0 for the default", o.MaxBackoff)
	if o.MaxEntries == 0 && o.MaxBytes == 0 {
		o.MaxEntries = defaultEntries
	}
	duration(&o.LoadTimeout, "LoadTimeout", 30*time.Second)
	notFound := o.TTL / 10
	if notFound <= 0 {
		notFound = 6 * time.Second // a tenth of the default
	}
	duration(&o.TTL, "TTL", time.Minute)
	duration(&o.NotFoundTTL, "NotFoundTTL", notFound)
	duration(&o.Backoff, "Backoff", 100*time.Millisecond)
	switch o.Jitter {
	case 0:
		o.Jitter = 0.1
	case -1:
		o.Jitter = 0
	}
	if o.MaxBackoff == 0 {
		o.MaxBackoff = max(10*time.Second, o.Backoff)
	}
	refuse(o.MaxBackoff < o.Backoff, "MaxBackoff is %v, below Backoff (%v)", o.MaxBackoff, o.Backoff)
	return o, errors.Join(errs...)
}

// isNotFound reports whether a loader means by an error that there is no value.
func (c *Cache[K, V]) isNotFound(err error) bool {
	return errors.Is(err, ErrNotFound) || c.opts.NotFound != nil && errors.Is(err, c.opts.NotFound)
}

// notFound is the error of a key that LoadMany has left out. It matches that of the source, too.
func (o *Options[K, V]) notFound() error {
	if o.NotFound == nil {
		return ErrNotFound
	}
	return fmt.Errorf("%w: %w", ErrNotFound, o.NotFound)
}

var (
	// ErrOptions means that an option is out of its range, or missing: the text says
	// which and what to use.
	ErrOptions = errors.New("cache: bad options")
	// ErrNotFound means that the source has no value for the key: loaders return it, and Get
	// returns what its loader did.
	ErrNotFound = errors.New("cache: not found")
	// ErrClosed means that the cache was closed.
	ErrClosed = errors.New("cache: closed")
	// ErrKey means that a key is not equal to itself, as NaN is not: it would never be found.
	ErrKey = errors.New("cache: a key is not equal to itself: leave out what is not a number")
	// ErrPanic means that the loader panicked: the text says with what, and a
	// [PanicError] where.
	ErrPanic = errors.New("cache: the loader panicked")
	// ErrFollowing means that the cache follows a feed already: make another cache.
	ErrFollowing = errors.New("cache: it follows a feed already")
	// ErrSourceEnded means that a [Source] will never yield a change again: the cache does
	// not follow it any longer, and keeps nothing.
	ErrSourceEnded = errors.New("cache: the source of changes has ended")
	// ErrNotFollowing means that the cache follows no feed, and so cannot wait for one:
	// call Follow first.
	ErrNotFollowing = errors.New("cache: it follows no feed: call Follow first")
)

// PanicError is what waiters get of a loader that panicked. It matches [ErrPanic].
type PanicError struct {
	Value any
	Stack []byte // of the loader
}

// Error returns what the loader panicked with.
func (e *PanicError) Error() string { return fmt.Sprintf("%v: %v", ErrPanic, e.Value) }

// Is matches ErrPanic.
func (e *PanicError) Is(target error) bool { return target == ErrPanic }

// errExit is of a loader that has ended its goroutine, as a test does that fails in it.
var errExit = errors.New("cache: the loader ended its goroutine instead of returning")
