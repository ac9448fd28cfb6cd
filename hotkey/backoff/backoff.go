// Package backoff lets callers of a store obey when it says to try again later, and queue for each key, so that those
// of a hot key do not stampede.
//
//	q, err := backoff.New(backoff.Options{})
//	err = q.Do(ctx, "order:7", func(ctx context.Context) error { return client.Incr(ctx, "order:7").Err() })
//
// As long as nothing is refused, Do costs the load of a counter. Once a write of a key is refused with a time to try again, its callers
// of this process form a queue: none tries before that time, one does then, and each success lets one
// more be under way at once; another refusal halves how many. When the queue is empty, the key is forgotten.
//
// It knows the answer THROTTLED of a Cleave server and [Error]; Options.RetryAfter says what else is a refusal. For go-redis
// there is a hook in package redishook. Use one [Queue] for a process.
package backoff

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrOptions means that a queue cannot be made: the text says why.
	ErrOptions = errors.New("backoff: bad options")
	// ErrQueueFull means that too many callers wait for the key already: the function was not called. Leave the work for
	// later, in a durable queue say.
	ErrQueueFull = errors.New("backoff: too many wait for the key")
)

// Options configure a [Queue]. The zero value works.
type Options struct {
	// RetryAfter reports whether an error means that nothing was done, and after which time to try again. Default [RetryAfter].
	RetryAfter func(error) (time.Duration, bool)
	// MaxWaiting is how many callers wait for a key at most. Default 1024.
	MaxWaiting int
	// MaxAttempts is how often a function is called at most. Default 10; the context of the caller ends it sooner.
	MaxAttempts int
}

// Queue has the keys that were refused, and their callers. Its methods may be called by any goroutine.
type Queue struct {
	o Options
	// throttled is how many keys there are in byKey.
	throttled atomic.Int64
	mu        sync.Mutex
	byKey     map[string]*keyQueue
}

// keyQueue is the callers of one key.
type keyQueue struct {
	// window is how many may be under way at once, and busy how many are.
	window, busy int
	// until is when the first may try again.
	until   time.Time
	waiting []chan struct{} // closed when its turn has come
	timer   *time.Timer
}

// maxWindow is how many callers of a key are under way at most while others wait.
const maxWindow = 64

// New returns a queue.
func New(o Options) (*Queue, error) {
	if o.MaxWaiting < 0 || o.MaxAttempts < 0 {
		return nil, fmt.Errorf("%w: MaxWaiting is %d and MaxAttempts %d: use positive numbers, or 0 for the default", ErrOptions, o.MaxWaiting, o.MaxAttempts)
	}
	if o.RetryAfter == nil {
		o.RetryAfter = RetryAfter
	}
	if o.MaxWaiting == 0 {
		o.MaxWaiting = 1024
	}
	if o.MaxAttempts == 0 {
		o.MaxAttempts = 10
	}
	return &Queue{o: o, byKey: map[string]*keyQueue{}}, nil
}

// Error is a refusal with a time to try again, for functions that know it.
type Error struct {
	After time.Duration
	Cause error
}

// Error is that of the cause.
func (e *Error) Error() string { return e.Cause.Error() }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Cause }

// RetryAfter reads an [Error], and the answer of a Cleave server: "THROTTLED shard 7: … retry in 120 ms".
func RetryAfter(err error) (after time.Duration, ok bool) {
	var known *Error
	if errors.As(err, &known) {
		return known.After, true
	}
	if err == nil {
		return 0, false
	}
	text := err.Error()
	if !strings.HasPrefix(text, "THROTTLED ") {
		return 0, false
	}
	_, rest, ok := cutLast(text, "retry in ")
	ms, err := strconv.ParseUint(strings.TrimSuffix(rest, " ms"), 10, 31)
	if !ok || err != nil {
		return defaultRetry, true
	}
	return time.Duration(ms) * time.Millisecond, true
}

// defaultRetry is for a refusal without a time.
const defaultRetry = 100 * time.Millisecond

func cutLast(text, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(text, sep)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(sep):], true
}

// Do calls f, again as long as it is refused, when that makes sense. The error is that of the last call. If ctx
// ends before the next one could begin, Do does not wait for it.
func (q *Queue) Do(ctx context.Context, key string, f func(context.Context) error) error {
	for attempt := 1; ; attempt++ {
		k, err := q.enter(ctx, key)
		if err != nil {
			return err
		}
		err = f(ctx)
		after, refused := time.Duration(0), false
		if err != nil {
			after, refused = q.o.RetryAfter(err)
		}
		q.leave(key, k, refused, after)
		if !refused || attempt >= q.o.MaxAttempts || ctx.Err() != nil {
			return err
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < after {
			return err
		}
	}
}

// enter waits for the turn of a caller. What it returns is nil for a key that was not refused.
func (q *Queue) enter(ctx context.Context, key string) (*keyQueue, error) {
	if q.throttled.Load() == 0 {
		return nil, nil
	}
	q.mu.Lock()
	k := q.byKey[key]
	if k == nil {
		q.mu.Unlock()
		return nil, nil
	}
	if len(k.waiting) == 0 && k.mayGo() {
		k.busy++
		q.mu.Unlock()
		return k, nil
	}
	if len(k.waiting) >= q.o.MaxWaiting {
		q.mu.Unlock()
		return nil, fmt.Errorf("%w: %d", ErrQueueFull, q.o.MaxWaiting)
	}
	turn := make(chan struct{})
	k.waiting = append(k.waiting, turn)
	q.mu.Unlock()
	select {
	case <-turn:
		return k, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(k.waiting, turn); i >= 0 {
		k.waiting = slices.Delete(k.waiting, i, i+1)
	} else {
		k.busy-- // its turn has come meanwhile
	}
	q.wake(key, k)
	return nil, ctx.Err()
}

// mayGo reports whether one more may be under way.
func (k *keyQueue) mayGo() bool {
	if time.Now().Before(k.until) {
		return false
	}
	return k.busy < k.window
}

// leave notes what became of a call.
func (q *Queue) leave(key string, k *keyQueue, refused bool, after time.Duration) {
	if k == nil && !refused {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if k != nil {
		k.busy--
	} else if k = q.byKey[key]; k == nil {
		k = &keyQueue{window: 2}
		q.byKey[key] = k
		q.throttled.Add(1)
	}
	if refused {
		k.window = max(1, k.window/2)
		after += time.Duration(rand.Int64N(int64(after/8) + 1)) // other processes were told the same
		if until := time.Now().Add(after); until.After(k.until) {
			k.until = until
		}
	} else {
		k.window = min(k.window+1, maxWindow)
	}
	q.wake(key, k)
}

// wake lets those go whose turn has come, with mu held.
func (q *Queue) wake(key string, k *keyQueue) {
	for len(k.waiting) > 0 && k.mayGo() {
		close(k.waiting[0])
		k.waiting, k.busy = k.waiting[1:], k.busy+1
	}
	wait := time.Until(k.until)
	switch {
	case wait > 0 && k.timer == nil:
		k.timer = time.AfterFunc(wait, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			k.timer = nil
			q.wake(key, k)
		})
	case wait <= 0 && k.busy == 0 && len(k.waiting) == 0 && q.byKey[key] == k:
		delete(q.byKey, key)
		q.throttled.Add(-1)
	}
}

// Note notes the error of a call that was made without Do: if it is a refusal, callers of the key wait.
func (q *Queue) Note(key string, err error) {
	if after, refused := q.o.RetryAfter(err); refused {
		q.leave(key, nil, true, after)
	}
}

// Throttled returns the keys that were refused and are not forgotten, in no order.
func (q *Queue) Throttled() (keys []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for key := range q.byKey {
		keys = append(keys, key)
	}
	return keys
}
