package cache

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var ctx = context.Background()

// newCountingLoader returns a loader of numbers that counts its calls.
func newCountingLoader(calls *atomic.Int64) func(context.Context, int) (int, error) {
	return func(_ context.Context, key int) (int, error) {
		calls.Add(1)
		return key * 10, nil
	}
}

func mustNew[K comparable, V any](t testing.TB, o Options[K, V]) *Cache[K, V] {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
	return c
}

func mustGet[K, V comparable](t testing.TB, c *Cache[K, V], key K, want V) {
	t.Helper()
	if got, err := c.Get(ctx, key); err != nil || got != want {
		t.Fatalf("%v is %v, %v; want %v", key, got, err, want)
	}
}

func TestOneOfManyCallersMayLeaveAndTheOthersGetTheValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type name struct{}
		loads := 0
		c := mustNew(t, Options[int, any]{Load: func(ctx context.Context, _ int) (any, error) {
			loads++
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(time.Second):
				return ctx.Value(name{}), nil
			}
		}})
		first, cancel := context.WithCancel(context.WithValue(ctx, name{}, "of the first"))
		var left, stayed sync.WaitGroup
		left.Go(func() {
			if _, err := c.Get(first, 1); !errors.Is(err, context.Canceled) {
				t.Errorf("who left got %v", err)
			}
		})
		synctest.Wait()
		for range 10 {
			stayed.Go(func() {
				if v, err := c.Get(ctx, 1); err != nil || v != "of the first" {
					t.Errorf("who stayed got %v, %v", v, err)
				}
			})
		}
		synctest.Wait()
		cancel()
		left.Wait()
		stayed.Wait()
		if loads != 1 {
			t.Errorf("%d loads", loads)
		}
		if m := c.Metrics(); m.Joined != 10 || m.Loads != 1 || m.LoadTime != time.Second {
			t.Errorf("%+v", m)
		}
	})
}

func TestALoaderThatPanicsOrExitsIsAnErrorToAllWhoWait(t *testing.T) {
	for _, test := range []struct {
		name string
		load func(context.Context, int) (int, error)
		is   error
	}{
		{"panic", func(context.Context, int) (int, error) { panic("boom") }, ErrPanic},
		{"exit", func(context.Context, int) (int, error) { runtime.Goexit(); return 1, nil }, errExit},
		{"error", func(context.Context, int) (int, error) { return 7, errSource }, errSource},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				many := func(ctx context.Context, keys []int) (map[int]int, error) {
					v, err := test.load(ctx, keys[0])
					return map[int]int{keys[0]: v}, err
				}
				c := mustNew(t, Options[int, int]{Load: test.load, LoadMany: many, Backoff: -1})
				var wg sync.WaitGroup
				for range 4 {
					wg.Go(func() {
						if _, err := c.Get(ctx, 1); !errors.Is(err, test.is) {
							t.Errorf("got %v", err)
						}
					})
				}
				wg.Wait()
				if _, err := c.GetMany(ctx, 1, 2, 3); !errors.Is(err, test.is) || strings.Count(err.Error(), "\n") > 0 {
					t.Errorf("GetMany got %v, want it once", err)
				}
			})
		})
	}
}

func TestAValueLivesForItsTTLAndNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loads atomic.Int64
		c := mustNew(t, Options[int, int]{Load: newCountingLoader(&loads), TTL: time.Minute})
		early := 0
		for key := range 1000 {
			mustGet(t, c, key, key*10)
		}
		for _, at := range []struct {
			wait       time.Duration
			least, all int64
		}{{54 * time.Second, 0, 0}, {3 * time.Second, 200, 800}, {3 * time.Second, 1000, 1000}} {
			time.Sleep(at.wait)
			before := loads.Load()
			for key := range 1000 {
				if e, ok := c.entries.GetIfPresent(key); ok && e.freshUntil <= c.elapsed() {
					mustGet(t, c, key, key*10)
				}
			}
			early += int(loads.Load() - before)
			if int64(early) < at.least || int64(early) > at.all {
				t.Errorf("%d of 1000 values were loaded again after %v, want %d to %d", early, c.elapsed(), at.least, at.all)
			}
		}
	})
}

func TestThatThereIsNothingIsRememberedForItsOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loads := 0
		c := mustNew(t, Options[int, int]{
			Load:        func(context.Context, int) (int, error) { loads++; return 0, ErrNotFound },
			NotFoundTTL: 10 * time.Second, Jitter: -1,
		})
		for i := range 5 {
			if _, err := c.Get(ctx, 1); !errors.Is(err, ErrNotFound) {
				t.Fatal(err)
			}
			if want := i/2 + 1; loads != want {
				t.Errorf("%d loads after %v, want %d", loads, c.elapsed(), want)
			}
			time.Sleep(5 * time.Second)
		}
		if m := c.Metrics(); m.LoadErrors != 0 {
			t.Errorf("%d errors: not being there is none", m.LoadErrors)
		}
	})
}

func TestAKeyThatCannotBeLoadedIsTriedLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		began, up := time.Now(), false
		c := mustNew(t, Options[int, int]{
			Load: func(context.Context, int) (int, error) {
				at = append(at, time.Since(began))
				if up {
					return 5, nil
				}
				return 0, errSource
			},
			Backoff: time.Second, MaxBackoff: 4 * time.Second,
		})
		c.random = func() float64 { return 0 }
		for range 120 {
			if _, err := c.Get(ctx, 1); !errors.Is(err, errSource) {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if got, want := fmt.Sprint(at), "[0s 1s 3s 7s 11s]"; got != want {
			t.Errorf("loads at %s, want %s", got, want)
		}
		up = true
		time.Sleep(4 * time.Second)
		mustGet(t, c, 1, 5)
	})
}

func TestAStaleValueIsReturnedWhileItIsLoadedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var value, loads atomic.Int64
		var down atomic.Bool
		value.Store(1)
		c := mustNew(t, Options[int, int]{
			Load: func(context.Context, int) (int, error) {
				loads.Add(1)
				got := int(value.Load())
				time.Sleep(time.Second)
				if down.Load() {
					return 0, errSource
				}
				return got, nil
			},
			TTL: 10 * time.Second, Jitter: -1, StaleFor: 20 * time.Second, Backoff: 5 * time.Second,
		})
		c.random = func() float64 { return 0 }
		mustGet(t, c, 1, 1)
		value.Store(2)
		time.Sleep(10 * time.Second)
		began := time.Now()
		mustGet(t, c, 1, 1) // the old one, at once
		mustGet(t, c, 1, 1)
		if time.Since(began) != 0 {
			t.Error("somebody waited")
		}
		time.Sleep(2 * time.Second)
		mustGet(t, c, 1, 2)
		if loads.Load() != 2 {
			t.Errorf("%d loads, want 2", loads.Load())
		}
		// While the source is down the old value serves until its time is up, and the
		// source is not asked all the time.
		down.Store(true)
		time.Sleep(9 * time.Second)
		for range 18 {
			mustGet(t, c, 1, 2)
			time.Sleep(time.Second)
		}
		if loads.Load() > 5 {
			t.Errorf("%d loads: there is no back-off", loads.Load())
		}
		time.Sleep(3 * time.Second)
		if _, err := c.Get(ctx, 1); !errors.Is(err, errSource) {
			t.Errorf("a value that is too old: %v", err)
		}
		// What was invalidated is never returned, stale or not.
		down.Store(false)
		c.Invalidate(1)
		mustGet(t, c, 1, 2)
		time.Sleep(12 * time.Second)
		value.Store(3)
		c.Invalidate(1)
		mustGet(t, c, 1, 3)
	})
}

func TestTheCacheIsBoundedInEntriesOrBytes(t *testing.T) {
	var loads atomic.Int64
	byEntries := mustNew(t, Options[int, int]{Load: newCountingLoader(&loads), MaxEntries: 100})
	byBytes := mustNew(t, Options[int, int]{Load: newCountingLoader(&loads), MaxBytes: 100 << 10, Size: func(int, int) int { return 1024 - entryOverhead }})
	for _, c := range []*Cache[int, int]{byEntries, byBytes} {
		for key := range 1000 {
			mustGet(t, c, key, key*10)
		}
		c.entries.CleanUp()
		m := c.Metrics()
		if m.Entries > 100 || m.Entries < 50 || m.Evictions != 1000-uint64(m.Entries) {
			t.Errorf("%d entries and %d evictions, want 100 at most", m.Entries, m.Evictions)
		}
		if c == byBytes && m.Bytes != int64(m.Entries)<<10 {
			t.Errorf("%d bytes of %d entries of 1 KiB", m.Bytes, m.Entries)
		}
	}
}

func TestManyKeysAreLoadedByOneCall(t *testing.T) {
	calls := 0
	c := mustNew(t, Options[int, int]{LoadMany: func(_ context.Context, keys []int) (map[int]int, error) {
		calls++
		out := map[int]int{}
		for _, k := range keys {
			if k%10 != 0 {
				out[k] = k
			}
		}
		return out, nil
	}})
	mustGet(t, c, 3, 3) // by LoadMany too
	got, err := c.GetMany(ctx, 1, 2, 3, 2, 10)
	if err != nil || len(got) != 3 || got[1] != 1 || got[2] != 2 || got[3] != 3 {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := c.Get(ctx, 10); !errors.Is(err, ErrNotFound) || calls != 2 {
		t.Errorf("%v after %d calls: a key that was left out is not found, and that is remembered", err, calls)
	}
	if m := c.Metrics(); m.Loads != 2 || m.Hits != 2 {
		t.Errorf("%+v", m)
	}
}

func TestKeysThatNoMapCanHold(t *testing.T) {
	loads := func(_ context.Context, keys []any) (map[any]int, error) {
		out := map[any]int{}
		for _, k := range keys {
			out[k] = 1
		}
		return out, nil
	}
	c := mustNew(t, Options[any, int]{LoadMany: loads})
	_, one := c.Get(ctx, math.NaN())
	got, many := c.GetMany(ctx, 1, math.NaN())
	if !errors.Is(one, ErrKey) || !errors.Is(many, ErrKey) || got[1] != 1 {
		t.Errorf("not a number: %v, %v, %v", one, got, many)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a slice is a key")
			}
		}()
		_, _ = c.GetMany(ctx, 2, []int{3})
	}()
	mustGet(t, c, 2, 1) // no caller waits for a load that never began
}

func TestAClosedCacheSaysSo(t *testing.T) {
	started := make(chan struct{})
	c := mustNew(t, Options[int, int]{Load: func(ctx context.Context, _ int) (int, error) {
		close(started)
		<-ctx.Done()
		return 0, ctx.Err()
	}, LoadTimeout: -1})
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := c.Get(ctx, 1); !errors.Is(err, ErrClosed) {
			t.Errorf("who waited got %v", err)
		}
	})
	<-started
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	_, get := c.Get(ctx, 1)
	_, many := c.GetMany(ctx, 1, 2)
	for _, err := range []error{get, many, c.Close(), c.Wait(ctx, "")} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
}

func TestBadOptionsAreNamed(t *testing.T) {
	load := func(context.Context, int) (int, error) { return 0, nil }
	for _, test := range []struct {
		o    Options[int, int]
		text string
	}{
		{Options[int, int]{}, "loader"},
		{Options[int, int]{Load: load, MaxEntries: -1}, "MaxEntries"},
		{Options[int, int]{Load: load, MaxBytes: 1 << 20}, "Size"},
		{Options[int, int]{Load: load, MaxBytes: 1, Size: func(int, int) int { return 1 }}, "MaxBytes"},
		{Options[int, int]{Load: load, MaxBytes: 1 << 20, MaxEntries: 1, Size: func(int, int) int { return 1 }}, "one of"},
		{Options[int, int]{Load: load, TTL: -2}, "TTL"},
		{Options[int, int]{Load: load, TTL: -1, StaleFor: 1}, "StaleFor"},
		{Options[int, int]{Load: load, StaleFor: -1}, "StaleFor"},
		{Options[int, int]{Load: load, Jitter: 2}, "Jitter"},
		{Options[int, int]{Load: load, NotFoundTTL: -2}, "NotFoundTTL"},
		{Options[int, int]{Load: load, LoadTimeout: -2}, "LoadTimeout"},
		{Options[int, int]{Load: load, Backoff: time.Hour, MaxBackoff: 1}, "MaxBackoff"},
		{Options[int, int]{Load: load, MaxBackoff: -1}, "MaxBackoff"},
	} {
		if _, err := New(test.o); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%+v: %v, want something about %s", test.o, err, test.text)
		}
	}
	c := mustNew(t, Options[int, int]{Load: load})
	if err := c.Follow(nil); !errors.Is(err, ErrOptions) {
		t.Errorf("follow nothing: %v", err)
	}
	if err := c.Wait(ctx, ""); !errors.Is(err, ErrNotFollowing) {
		t.Errorf("wait for nothing: %v", err)
	}
}

// zipf draws keys of which the i-th is asked for with a weight of 1/(i+1)^s. The
// standard library has it for s > 1 only.
type zipf struct {
	random *rand.Rand
	sums   []float64
}

func newZipf(r *rand.Rand, keys int, s float64) *zipf {
	z := &zipf{random: r, sums: make([]float64, keys)}
	sum := 0.0
	for i := range z.sums {
		sum += math.Pow(float64(i+1), -s)
		z.sums[i] = sum
	}
	return z
}

func (z *zipf) next() int {
	return sort.SearchFloat64s(z.sums, z.random.Float64()*z.sums[len(z.sums)-1])
}

// hottestShare is how much of all requests the hottest keys have.
func (z *zipf) hottestShare(keys int) float64 { return z.sums[keys-1] / z.sums[len(z.sums)-1] }

func TestNinetyFivePercentHitsAreTwentyTimesFewerReads(t *testing.T) {
	// A cache of a tenth of the keys, under requests whose skew makes for 95 % of hits,
	// while one request in a thousand is a write.
	const keys, requests = 20_000, 60_000
	seed := testSeed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	z := newZipf(r, keys, 1.4)
	var loads atomic.Int64
	c := mustNew(t, Options[int, int]{Load: newCountingLoader(&loads), MaxEntries: keys / 10, TTL: -1})
	serve := func() {
		for range requests {
			key := z.next()
			if r.IntN(1000) == 0 {
				c.Invalidate(key)
			}
			mustGet(t, c, key, key*10)
		}
	}
	serve() // until it has what is hot
	before, cold := c.Metrics(), loads.Load()
	serve()
	m := c.Metrics()
	m.Hits, m.Misses = m.Hits-before.Hits, m.Misses-before.Misses
	behind := loads.Load() - cold
	t.Logf("%d requests, %.1f %% of them hits, are %d reads behind the cache: %.1f times fewer; the hottest tenth of the keys has %.1f %%",
		requests, 100*m.HitRate(), behind, requests/float64(behind), 100*z.hottestShare(keys/10))
	if m.HitRate() < 0.95 {
		t.Errorf("only %.1f %% of requests were hits, want 95", 100*m.HitRate())
	}
	if behind*20 > requests {
		t.Errorf("%d requests were %d reads behind the cache: want 20 times fewer", requests, behind)
	}
}

func TestASweepDoesNotDriveOutWhatIsHot(t *testing.T) {
	const keys, requests = 10_000, 50_000
	r := rand.New(rand.NewPCG(testSeed(t), 2))
	z := newZipf(r, keys, 1)
	var loads atomic.Int64
	c := mustNew(t, Options[int, int]{Load: newCountingLoader(&loads), MaxEntries: keys / 10})
	lru := newLRU(keys / 10)
	swept, hits, plain := keys, 0, 0
	for i := range 2 * requests {
		key := z.next()
		if i%2 == 1 { // every other request is for a key that is asked for once
			key = swept
			swept++
		}
		before := loads.Load()
		mustGet(t, c, key, key*10)
		hit := lru.get(key)
		if i >= requests && key < keys {
			if loads.Load() == before {
				hits++
			}
			if hit {
				plain++
			}
		}
	}
	rate := func(n int) float64 { return float64(n) / (requests / 2) }
	t.Logf("hits among requests for keys of the working set: %.1f %%, by recency alone %.1f %%, at best %.1f %%",
		100*rate(hits), 100*rate(plain), 100*z.hottestShare(keys/10))
	if rate(hits) < rate(plain)+0.05 {
		t.Errorf("%.3f of requests were hits, %.3f without admission by frequency", rate(hits), rate(plain))
	}
}

// lru is a cache that goes by recency alone.
type lru struct {
	size  int
	order *list.List
	at    map[int]*list.Element
}

func newLRU(size int) *lru { return &lru{size: size, order: list.New(), at: map[int]*list.Element{}} }

// get reports whether a key was there, and puts it in.
func (l *lru) get(key int) bool {
	if e, ok := l.at[key]; ok {
		l.order.MoveToFront(e)
		return true
	}
	l.at[key] = l.order.PushFront(key)
	if l.order.Len() > l.size {
		delete(l.at, l.order.Remove(l.order.Back()).(int))
	}
	return false
}

func TestNotFound_TheErrorOfTheSourceCountsAsNone(t *testing.T) {
	errNoRows := errors.New("no rows")
	for name, o := range map[string]Options[int, int]{
		"Load":     {Load: func(context.Context, int) (int, error) { return 0, fmt.Errorf("query: %w", errNoRows) }},
		"LoadMany": {LoadMany: func(context.Context, []int) (map[int]int, error) { return nil, nil }},
	} {
		o.NotFound = errNoRows
		c := mustNew(t, o)
		for range 3 {
			if _, err := c.Get(ctx, 1); !errors.Is(err, errNoRows) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if found, err := c.GetMany(ctx, 1, 2); len(found) != 0 || err != nil {
			t.Errorf("%s: GetMany: %v, %v", name, found, err)
		}
		if m := c.Metrics(); m.Loads != 2 || m.LoadErrors != 0 {
			t.Errorf("%s: %+v", name, m)
		}
	}
}
