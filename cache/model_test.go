package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavekv/cleave/internal/testkit/tally"
)

// testSeed returns the seed of a random test, and says how to play it again.
func testSeed(t *testing.T) uint64 { return tally.Seed(t, "./cache") }

// scaleRounds returns how often to repeat something.
func scaleRounds(n int) int {
	if os.Getenv("CLEAVE_SOAK") != "" {
		return 50 * n
	}
	return n
}

// sourceModel is what the cache should look like from outside: the source, whose values are
// numbers that grow, and what each caller may get.
type sourceModel struct {
	mu           sync.Mutex
	values       map[int]int // by key; odd ones are not there
	writtenAt    map[int][]time.Time
	minCommitted map[int]int // the newest of which there was an invalidation
	activeLoads  map[int]int
	faults       []error
}

func newSourceModel() *sourceModel {
	return &sourceModel{values: map[int]int{}, writtenAt: map[int][]time.Time{}, minCommitted: map[int]int{}, activeLoads: map[int]int{}}
}

// writeKey changes a key at the source.
func (d *sourceModel) writeKey(key int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.values[key]++
	d.writtenAt[key] = append(d.writtenAt[key], time.Now())
}

// requireCurrent notes that all callers from now on are to see what the source has.
func (d *sourceModel) requireCurrent(keys ...int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range keys {
		d.minCommitted[key] = d.values[key]
	}
}

// minVersion is the oldest value that a caller of now may get that accepts what was current a
// while ago.
func (d *sourceModel) minVersion(key int, ago time.Duration) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for n < len(d.writtenAt[key]) && !d.writtenAt[key][n].After(time.Now().Add(-ago)) {
		n++
	}
	return max(d.minCommitted[key], n)
}

func (d *sourceModel) recordFault(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, fmt.Errorf(format, args...))
}

// beginLoad and end are a load: it reads at its beginning and returns what it read at its end.
func (d *sourceModel) beginLoad(key int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.activeLoads[key]++; d.activeLoads[key] > 1 {
		d.faults = append(d.faults, fmt.Errorf("two loads of key %d at once", key))
	}
	return d.values[key]
}

func (d *sourceModel) endLoad(key int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.activeLoads[key]--
}

var errSource = errors.New("the source is down")

// modelRun is one seeded run of a cache against the dumb one, in time of its own.
type modelRun struct {
	t      *testing.T
	random *rand.Rand
	source *sourceModel
	cache  *Cache[int, int]
	maxAge time.Duration // the maximum age of a value that changed without a notification
	gets   sync.WaitGroup
}

// newLoader takes a while, and then succeeds, fails, panics or ends its goroutine.
func (x *modelRun) newLoader(how uint64, took time.Duration) func(ctx context.Context, key int) (int, error) {
	return func(ctx context.Context, key int) (int, error) {
		got := x.source.beginLoad(key)
		defer x.source.endLoad(key)
		r := rand.New(rand.NewPCG(how, uint64(got)<<8|uint64(key)))
		select {
		case <-time.After(time.Duration(r.Int64N(int64(took)))):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		switch n := r.IntN(12); {
		case n == 0:
			panic("a loader that panics")
		case n == 1:
			return 0, errSource
		case got%2 == 1:
			return 0, fmt.Errorf("%d: %w", got, ErrNotFound)
		}
		return got, nil
	}
}

// checkGet asks for a key and judges the answer.
func (x *modelRun) checkGet(key int, patience time.Duration) {
	least := x.source.minVersion(key, x.maxAge)
	x.gets.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		got, err := x.cache.Get(ctx, key)
		switch {
		case errors.Is(err, ErrNotFound):
			_, _ = fmt.Sscanf(err.Error(), "%d:", &got)
		case err == nil && got%2 == 0:
		case err == nil:
			x.source.recordFault("key %d has a value at %d, where there is none", key, got)
		case errors.Is(err, errSource), errors.Is(err, ErrPanic), errors.Is(err, ErrClosed), ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return
		default:
			x.source.recordFault("key %d: %v: nobody did that", key, err)
			return
		}
		if got < least {
			x.source.recordFault("key %d is %d, but whoever asked then was to get %d at least", key, got, least)
		}
	})
}

// step does one thing at random.
func (x *modelRun) step() {
	key := x.random.IntN(4)
	switch n := x.random.IntN(20); {
	case n < 11:
		x.checkGet(key, time.Duration(1+x.random.Int64N(int64(20*time.Second))))
	case n < 15:
		x.source.writeKey(key)
		x.cache.Invalidate(key)
		x.source.requireCurrent(key)
	case n < 16:
		x.source.writeKey(key) // without a notification
	case n < 17:
		x.source.writeKey(key)
		x.cache.Flush()
		x.source.requireCurrent(0, 1, 2, 3)
	default:
		time.Sleep(time.Duration(x.random.Int64N(int64(3 * time.Second))))
	}
	if x.random.IntN(2) == 0 {
		synctest.Wait()
	}
}

func TestNoAnswerIsOlderThanAnInvalidationOrATTL(t *testing.T) {
	seed := testSeed(t)
	steps := 0
	for i := range scaleRounds(200) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			x := &modelRun{t: t, random: r, source: newSourceModel()}
			o := Options[int, int]{
				Load: x.newLoader(r.Uint64(), 2*time.Second), TTL: time.Duration(1 + r.Int64N(int64(5*time.Second))),
				Backoff: time.Duration(1 + r.Int64N(int64(time.Second))),
			}
			if r.IntN(2) == 0 {
				o.StaleFor = time.Duration(r.Int64N(int64(3 * time.Second)))
			}
			if r.IntN(3) == 0 {
				o.NotFoundTTL, o.Backoff = -1, -1
			}
			if r.IntN(3) == 0 {
				o.MaxEntries = 2
			}
			x.maxAge = o.TTL + o.StaleFor + 2*time.Second // a load that is joined may have begun so long ago
			if o.NotFoundTTL == 0 {
				x.maxAge = max(x.maxAge, o.NotFoundTTL)
			}
			c, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			draw := rand.New(rand.NewPCG(seed, ^uint64(i)))
			var mu sync.Mutex
			c.random = func() float64 {
				mu.Lock()
				defer mu.Unlock()
				return draw.Float64()
			}
			x.cache = c
			for range 60 {
				x.step()
				steps++
			}
			if r.IntN(2) == 0 {
				x.gets.Wait()
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			x.gets.Wait()
			for _, f := range x.source.faults {
				t.Errorf("run %d: %v", i, f)
			}
			for key, n := range x.source.activeLoads {
				if n != 0 {
					t.Errorf("run %d: %d loads of key %d after Close", i, n, key)
				}
			}
		})
		if t.Failed() {
			break
		}
	}
	tally.Add(t, "steps of caches", steps)
}
