package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/internal/tally"
)

// seedOf returns the seed of a random test, and says how to play it again.
func seedOf(t *testing.T) uint64 {
	seed := rand.Uint64()
	if text := os.Getenv("CLEAVE_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("replay: CLEAVE_SEED=%d go test -run '^%s$' ./cache", seed, t.Name())
		}
	})
	return seed
}

// soaking returns how often to repeat something.
func soaking(n int) int {
	if os.Getenv("CLEAVE_SOAK") != "" {
		return 50 * n
	}
	return n
}

// dumb is what the cache should look like from outside: the source, whose values are
// numbers that grow, and what each caller may be told.
type dumb struct {
	mu      sync.Mutex
	values  map[int]int // by key; odd ones are not there
	since   map[int][]time.Time
	told    map[int]int // the newest that an invalidation has told of
	loading map[int]int
	faults  []error
}

func newDumb() *dumb {
	return &dumb{values: map[int]int{}, since: map[int][]time.Time{}, told: map[int]int{}, loading: map[int]int{}}
}

// write changes a key at the source.
func (d *dumb) write(key int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.values[key]++
	d.since[key] = append(d.since[key], time.Now())
}

// tell notes that all callers from now on are to see what the source has.
func (d *dumb) tell(keys ...int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range keys {
		d.told[key] = d.values[key]
	}
}

// least is the oldest value that a caller of now may get, who accepts what was current a
// while ago.
func (d *dumb) least(key int, ago time.Duration) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for n < len(d.since[key]) && !d.since[key][n].After(time.Now().Add(-ago)) {
		n++
	}
	return max(d.told[key], n)
}

func (d *dumb) fault(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, fmt.Errorf(format, args...))
}

// begin and end are a load: it reads at its beginning and returns what it read at its end.
func (d *dumb) begin(key int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.loading[key]++; d.loading[key] > 1 {
		d.faults = append(d.faults, fmt.Errorf("two loads of key %d at once", key))
	}
	return d.values[key]
}

func (d *dumb) end(key int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loading[key]--
}

var errSource = errors.New("the source is down")

// trial is one seeded run of a cache against the dumb one, in time of its own.
type trial struct {
	t      *testing.T
	random *rand.Rand
	dumb   *dumb
	cache  *Cache[int, int]
	ago    time.Duration // how old a value may be that nobody was told of
	gets   sync.WaitGroup
}

// load takes a while, and then succeeds, fails, panics or ends its goroutine.
func (x *trial) load(how uint64, took time.Duration) func(ctx context.Context, key int) (int, error) {
	return func(ctx context.Context, key int) (int, error) {
		got := x.dumb.begin(key)
		defer x.dumb.end(key)
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
			return 0, fmt.Errorf("%d: %w", got, cleave.ErrNotFound)
		}
		return got, nil
	}
}

// get asks for a key and judges the answer.
func (x *trial) get(key int, patience time.Duration) {
	least := x.dumb.least(key, x.ago)
	x.gets.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		got, err := x.cache.Get(ctx, key)
		switch {
		case errors.Is(err, cleave.ErrNotFound):
			_, _ = fmt.Sscanf(err.Error(), "%d:", &got)
		case err == nil && got%2 == 0:
		case err == nil:
			x.dumb.fault("key %d has a value at %d, where there is none", key, got)
		case errors.Is(err, errSource), errors.Is(err, ErrPanic), errors.Is(err, ErrClosed), ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return
		default:
			x.dumb.fault("key %d: %v: nobody did that", key, err)
			return
		}
		if got < least {
			x.dumb.fault("key %d is %d, but whoever asked then was to get %d at least", key, got, least)
		}
	})
}

// step does one thing at random.
func (x *trial) step() {
	key := x.random.IntN(4)
	switch n := x.random.IntN(20); {
	case n < 11:
		x.get(key, time.Duration(1+x.random.Int64N(int64(20*time.Second))))
	case n < 15:
		x.dumb.write(key)
		x.cache.Invalidate(key)
		x.dumb.tell(key)
	case n < 16:
		x.dumb.write(key) // and nobody is told
	case n < 17:
		x.dumb.write(key)
		x.cache.Flush()
		x.dumb.tell(0, 1, 2, 3)
	default:
		time.Sleep(time.Duration(x.random.Int64N(int64(3 * time.Second))))
	}
	if x.random.IntN(2) == 0 {
		synctest.Wait()
	}
}

func TestNoAnswerIsOlderThanAnInvalidationOrATTL(t *testing.T) {
	seed := seedOf(t)
	steps := 0
	for i := range soaking(200) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			x := &trial{t: t, random: r, dumb: newDumb()}
			o := Options[int, int]{
				Load: x.load(r.Uint64(), 2*time.Second), TTL: time.Duration(1 + r.Int64N(int64(5*time.Second))),
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
			x.ago = o.TTL + o.StaleFor + 2*time.Second // a load that is joined may have begun so long ago
			if o.NotFoundTTL == 0 {
				x.ago = max(x.ago, o.NotFoundTTL)
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
			for _, f := range x.dumb.faults {
				t.Errorf("run %d: %v", i, f)
			}
			for key, n := range x.dumb.loading {
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
