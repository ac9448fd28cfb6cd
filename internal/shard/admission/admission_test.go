package admission

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavekv/cleave/partition"
)

func at(keys ...string) iter.Seq[partition.Position] {
	return func(yield func(partition.Position) bool) {
		for _, k := range keys {
			if !yield(partition.Position(k)) {
				return
			}
		}
	}
}

func spanOf(start, end string) partition.Span {
	return partition.Span{Start: partition.Position(start), End: partition.Position(end)}
}

func mustSet(t *testing.T, l *WriteLimits, key LimitKey, w WriteLimit) {
	t.Helper()
	if err := l.Set(key, w); err != nil {
		t.Fatal(err)
	}
}

// waitsFor is how long a request waits, and its error.
func waitsFor(l *WriteLimits, timeout time.Duration, keys ...string) (time.Duration, error) {
	ctx, cancel := context.Background(), func() {}
	if timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	began := time.Now()
	err := l.Wait(ctx, UntilContextEnds, at(keys...))
	return time.Since(began), err
}

var capKey = LimitKey{Cap, 1}

func TestWait_MoreWritersThanTurns_EachWaitsForItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewWriteLimits()
		mustSet(t, l, capKey, WriteLimit{Span: spanOf("b", "d"), PerSecond: 10, Reason: "capped"})
		var waits []time.Duration
		for range 5 {
			d, err := waitsFor(l, 0, "c")
			if err != nil {
				t.Fatal(err)
			}
			waits = append(waits, d)
		}
		want := []time.Duration{0, 100 * time.Millisecond, 100 * time.Millisecond, 100 * time.Millisecond, 100 * time.Millisecond}
		if !slices.Equal(waits, want) {
			t.Errorf("waited for %v, want %v", waits, want)
		}
		for _, k := range []string{"a", "d"} {
			if d, err := waitsFor(l, 0, k); d != 0 || err != nil {
				t.Errorf("a write outside of the span waits for %v: %v", d, err)
			}
		}
		if all := l.List(); len(all) != 1 || all[0].Waited != 4 || all[0].Refused != 0 {
			t.Errorf("%+v", all)
		}
		if d, err := waitsFor(l, 0, "c", "c", "c"); d != 100*time.Millisecond || err != nil {
			t.Errorf("a request of three writes waits for %v: %v", d, err)
		}
		if d, err := waitsFor(l, 0, "a", "b"); d != 300*time.Millisecond || err != nil {
			t.Errorf("the next waits for %v, want a turn for each of the three: %v", d, err)
		}
	})
}

// A caller waits until its context ends, and is told why and when to try again. It has taken no turn.
func TestWait_TurnBehindTheDeadline_IsThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewWriteLimits()
		mustSet(t, l, capKey, WriteLimit{PerSecond: 1, Reason: "capped at 1", Shard: 7})
		if d, err := waitsFor(l, 0, "a"); d != 0 || err != nil {
			t.Fatal(d, err)
		}
		for range 3 {
			d, err := waitsFor(l, 200*time.Millisecond, "a")
			var refused *ThrottledError
			if !errors.As(err, &refused) || !errors.Is(err, ErrThrottled) || refused.Shard != 7 || refused.Reason != "capped at 1" || refused.RetryAfter <= 0 || refused.RetryAfter > time.Second {
				t.Fatalf("told %v", err)
			}
			if d != 200*time.Millisecond {
				t.Errorf("it had 200ms, and was told after %v", d)
			}
		}
		if d, err := waitsFor(l, 0, "a"); d != 400*time.Millisecond || err != nil {
			t.Errorf("the next waits for %v, want the rest of the second: %v", d, err)
		}
	})
}

func TestWait_ContextCancelled_ReturnsItsErrorAndTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewWriteLimits()
		mustSet(t, l, capKey, WriteLimit{PerSecond: 1})
		_, _ = waitsFor(l, 0, "a")
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(100*time.Millisecond, cancel)
		if err := l.Wait(ctx, UntilContextEnds, at("a")); !errors.Is(err, context.Canceled) || errors.Is(err, ErrThrottled) {
			t.Errorf("told %v", err)
		}
		if d, err := waitsFor(l, 0, "a"); d != 900*time.Millisecond || err != nil {
			t.Errorf("the next waits for %v: %v", d, err)
		}
	})
}

// Writers of a span that is read-only go on when it is lifted, changed, or ends.
func TestWait_ReadOnlyEnds_WritersGoOn(t *testing.T) {
	for name, lift := range map[string]func(*WriteLimits){
		"removed": func(l *WriteLimits) { l.Remove(capKey) },
		"raised":  func(l *WriteLimits) { _ = l.Set(capKey, WriteLimit{PerSecond: 1000}) },
		"ended":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := NewWriteLimits()
				w := WriteLimit{Reason: "read-only"}
				if lift == nil {
					w.Until = time.Now().Add(time.Second)
				} else {
					time.AfterFunc(time.Second, func() { lift(l) })
				}
				mustSet(t, l, capKey, w)
				if d, err := waitsFor(l, 100*time.Millisecond, "a"); d != 100*time.Millisecond || !errors.Is(err, ErrThrottled) {
					t.Errorf("one that has 100ms is told %v after %v", err, d)
				}
				if d, err := waitsFor(l, 0, "a"); err != nil || d > 900*time.Millisecond {
					t.Errorf("it waits for %v: %v", d, err)
				}
				if lift == nil && !l.IsEmpty() {
					t.Error("a limit that has ended is still looked at")
				}
			})
		})
	}
}

// What is renewed with the same rate does not begin anew: its turns stay given.
func TestSet_SameRate_KeepsTurnsAndChangesItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewWriteLimits()
		renew := func() { mustSet(t, l, capKey, WriteLimit{PerSecond: 1, Until: time.Now().Add(3 * time.Second)}) }
		renew()
		_, _ = waitsFor(l, 0, "a")
		renew()
		if d, err := waitsFor(l, 0, "a"); d != time.Second || err != nil {
			t.Errorf("waited for %v: %v", d, err)
		}
		time.Sleep(2 * time.Second)
		if l.TryAdmit(partition.Position("a")); len(l.List()) != 0 || !l.IsEmpty() {
			t.Error("it has not ended 3 s after it was renewed")
		}
	})
}

func TestReserve_QueueIsFull_Refuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewWriteLimits()
		l.ShardAt = func(p partition.Position) partition.ShardID { return partition.ShardID(p[0]) }
		mustSet(t, l, capKey, WriteLimit{PerSecond: 100, Reason: "capped"})
		admitted := 0
		var refused *ThrottledError
		for range 100 {
			g, err := l.Reserve(partition.Position("a"))
			if err == nil {
				admitted++
				if g.Wait() > DefaultMaxWait {
					t.Fatalf("waits for %v", g.Wait())
				}
			} else if !errors.As(err, &refused) {
				t.Fatal(err)
			}
		}
		if admitted != 26 || refused == nil || refused.Shard != 'a' || refused.RetryAfter != 260*time.Millisecond {
			t.Errorf("%d of 100 were admitted, the others told %+v", admitted, refused)
		}
		if got := l.Totals(Cap); got.Refused != 74 {
			t.Errorf("%d refusals are counted", got.Refused)
		}
		if l.TryAdmit(partition.Position("a")) {
			t.Error("one more goes on at once")
		}
	})
}

func TestReserve_Delays_AddUpToAMaximum(t *testing.T) {
	l := NewWriteLimits()
	mustSet(t, l, LimitKey{Move, 3}, WriteLimit{Delay: 20 * time.Millisecond})
	var sum Grant
	for i := range 20 {
		g, err := l.Reserve(partition.Position("a"))
		if err != nil {
			t.Fatal(err)
		}
		sum.Add(g)
		if want := min(time.Duration(i+1)*20*time.Millisecond, maxDelay); sum.Wait() != want {
			t.Errorf("%d writes: %v, want %v", i+1, sum.Wait(), want)
		}
	}
}

// Spans with delays of their own, and writers that give up.
func TestWait_DelayedSpans_WriterWaitsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewWriteLimits()
		first, second := LimitKey{Move, 1}, LimitKey{Move, 2}
		mustSet(t, l, first, WriteLimit{Span: spanOf("b", "d"), Delay: time.Second})
		mustSet(t, l, second, WriteLimit{Span: spanOf("d", "e"), Delay: time.Minute})
		check := func(want map[string]time.Duration) {
			t.Helper()
			for key, d := range want {
				if got, err := waitsFor(l, 0, key); got != min(d, maxDelay) || err != nil {
					t.Errorf("a write at %q waits for %v, want %v: %v", key, got, d, err)
				}
			}
		}
		check(map[string]time.Duration{"a": 0, "b": time.Second, "c": time.Second, "d": time.Minute, "e": 0})
		if _, err := waitsFor(l, time.Millisecond, "d"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one that gives up is told %v", err)
		}
		mustSet(t, l, first, WriteLimit{Span: spanOf("b", "d"), Delay: time.Millisecond})
		check(map[string]time.Duration{"b": time.Millisecond})
		l.Remove(second)
		check(map[string]time.Duration{"d": 0})
		if l.Remove(first); !l.IsEmpty() {
			t.Error("there is a list of nothing")
		}
	})
}

func TestWriteLimit_Prefix_CoversItInAllSlots(t *testing.T) {
	k := partition.Keyspace{ID: 9, Name: "k", Kind: partition.Hash}
	p := k.PrefixSpan([]byte("order:"))
	skip := len(k.Span().Start) + 2
	w := WriteLimit{Span: k.Span(), Prefix: p.Start[skip:], Skip: skip}
	for key, want := range map[string]bool{"order:1": true, "order:": true, "order": false, "orders": false, "x": false} {
		if got := w.covers(k.AppendPosition(nil, []byte(key))); got != want {
			t.Errorf("%q: %v", key, got)
		}
	}
}

func TestSet_TooMany_IsRefused(t *testing.T) {
	l := NewWriteLimits()
	for i := range MaxWriteLimits {
		mustSet(t, l, LimitKey{Cap, uint64(i)}, WriteLimit{PerSecond: 1})
	}
	if err := l.Set(LimitKey{Cap, MaxWriteLimits}, WriteLimit{}); !errors.Is(err, ErrTooManyLimits) {
		t.Errorf("told %v", err)
	}
	mustSet(t, l, LimitKey{Cap, 1}, WriteLimit{PerSecond: 2})
}

// While limits come and go, no more are admitted than the highest of them allows, and none waits for ever.
func TestWait_LimitsChangeUnderLoad_AdmitsNoMoreThanAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewWriteLimits()
		mustSet(t, l, capKey, WriteLimit{PerSecond: 100})
		var admitted atomic.Int64
		var writers sync.WaitGroup
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for range 50 {
			writers.Go(func() {
				for l.Wait(ctx, UntilContextEnds, at("a")) == nil {
					admitted.Add(1)
				}
			})
		}
		for i := range 40 {
			time.Sleep(200 * time.Millisecond)
			mustSet(t, l, capKey, WriteLimit{PerSecond: 100 - float64(i%2), Until: time.Now().Add(time.Hour)})
		}
		writers.Wait()
		// After each change a write is at once.
		if got := admitted.Load(); got < 900 || got > 1050 {
			t.Errorf("%d writes were admitted in 10 s at 100 a second", got)
		}
	})
}

func BenchmarkWait(b *testing.B) {
	position := partition.Position("abcdefgh")
	ctx := context.Background()
	for name, set := range map[string]func(*WriteLimits){
		"limits=none":  func(*WriteLimits) {},
		"limits=other": func(l *WriteLimits) { _ = l.Set(capKey, WriteLimit{Span: spanOf("b", "c")}) },
		"limits=own":   func(l *WriteLimits) { _ = l.Set(capKey, WriteLimit{PerSecond: 1e9}) },
	} {
		b.Run(name, func(b *testing.B) {
			l := NewWriteLimits()
			set(l)
			b.ReportAllocs()
			for b.Loop() {
				if !l.IsEmpty() {
					if err := l.Wait(ctx, UntilContextEnds, yieldOne(position)); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
