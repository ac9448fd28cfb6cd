package backoff

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func mustNew(t *testing.T, o Options) *Queue {
	t.Helper()
	q, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// limitedStore admits a call in each interval, and says to others when the next one is.
type limitedStore struct {
	mu             sync.Mutex
	interval       time.Duration
	next           time.Time
	calls, refused int
}

func (s *limitedStore) call(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	now := time.Now()
	if wait := s.next.Sub(now); wait > 0 {
		s.refused++
		return fmt.Errorf("THROTTLED shard 7: capped: retry in %d ms", wait.Milliseconds()+1)
	}
	s.next = now.Add(s.interval)
	return nil
}

// Many callers of a hot key all succeed, and do not ask much more often than they have to.
func TestDo_ManyCallersOfAHotKey_DoNotStampede(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := mustNew(t, Options{MaxAttempts: 1000})
		s := &limitedStore{interval: 100 * time.Millisecond}
		const callers = 100
		began := time.Now()
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				if err := q.Do(context.Background(), "hot", s.call); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Millisecond) // they do not come in the same moment
		}
		all.Wait()
		took := time.Since(began)
		if s.calls > 4*callers || took > 2*callers*s.interval {
			t.Errorf("%d callers have asked %d times, of which %d were refused, in %v", callers, s.calls, s.refused, took)
		}
		time.Sleep(time.Minute)
		if keys := q.Throttled(); len(keys) > 0 {
			t.Errorf("%q are not forgotten", keys)
		}
	})
}

// Before the time that the store has said none of them asks; other keys are asked for at once.
func TestDo_Refused_NoneAsksBeforeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := mustNew(t, Options{})
		until := time.Now().Add(time.Second)
		var early atomic.Int64
		store := func(context.Context) error {
			if time.Now().Before(until) {
				early.Add(1)
				return &Error{After: time.Until(until), Cause: errors.New("later")}
			}
			return nil
		}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if err := q.Do(context.Background(), "hot", store); err != nil || time.Now().Before(until) {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		began := time.Now()
		if err := q.Do(context.Background(), "cool", func(context.Context) error { return nil }); err != nil || time.Since(began) != 0 {
			t.Errorf("another key has waited for %v: %v", time.Since(began), err)
		}
		all.Wait()
		if n := early.Load(); n != 1 {
			t.Errorf("%d have asked before the time", n)
		}
	})
}

// Callers are served in the order in which they came, once the key is throttled.
func TestDo_Throttled_ServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := mustNew(t, Options{})
		q.Note("hot", &Error{After: time.Second, Cause: errors.New("later")})
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				_ = q.Do(context.Background(), "hot", func(context.Context) error {
					mu.Lock()
					order = append(order, i)
					mu.Unlock()
					time.Sleep(time.Millisecond)
					return nil
				})
			})
			synctest.Wait()
		}
		all.Wait()
		if !slices.IsSorted(order[:2]) || len(order) != 5 {
			t.Errorf("served in the order %v", order)
		}
	})
}

func TestDo_GivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("THROTTLED shard 7: read-only: retry in 1000 ms")
		calls := 0
		store := func(context.Context) error { calls++; return refused }
		q := mustNew(t, Options{MaxAttempts: 3, MaxWaiting: 1})
		if err := q.Do(context.Background(), "hot", store); !errors.Is(err, refused) || calls != 3 {
			t.Errorf("%d calls, then %v", calls, err)
		}
		limited, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		if err := q.Do(limited, "hot", store); !errors.Is(err, context.DeadlineExceeded) || calls != 3 {
			t.Errorf("%d calls, then %v", calls, err)
		}
		time.Sleep(time.Minute)
		limited, cancel = context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		began := time.Now()
		if err := q.Do(limited, "hot", store); !errors.Is(err, refused) || time.Since(began) != 0 {
			t.Errorf("one that has no time for the next attempt was told %v after %v", err, time.Since(began))
		}
		var waiting sync.WaitGroup
		defer waiting.Wait()
		waiting.Go(func() { _ = q.Do(context.Background(), "hot", store) })
		synctest.Wait()
		if err := q.Do(context.Background(), "hot", store); !errors.Is(err, ErrQueueFull) {
			t.Errorf("one too many was told %v", err)
		}
		other := errors.New("other")
		if err := q.Do(context.Background(), "cool", func(context.Context) error { return other }); !errors.Is(err, other) {
			t.Errorf("told %v", err)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"THROTTLED shard 7: capped: retry in 120 ms":               120 * time.Millisecond,
		"THROTTLED shard 7: retry in 5 ms, he said: retry in 7 ms": 7 * time.Millisecond,
		"THROTTLED for reasons":                                    defaultRetry,
		"ERR THROTTLED retry in 7 ms":                              -1,
		"OOM":                                                      -1,
	} {
		if got, ok := RetryAfter(errors.New(text)); ok != (want >= 0) || ok && got != want {
			t.Errorf("%s: %v %v", text, got, ok)
		}
	}
	if _, ok := RetryAfter(nil); ok {
		t.Error("nothing is a refusal")
	}
}

func BenchmarkDo(b *testing.B) {
	q, _ := New(Options{})
	ctx := context.Background()
	f := func(context.Context) error { return nil }
	for b.Loop() {
		_ = q.Do(ctx, "key", f)
	}
}
