package storecache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/cache"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
	"github.com/cleavekv/cleave/internal/testkit/tally"
)

func openMemory(t testing.TB, o cleave.Options) *cleave.DB {
	t.Helper()
	db, err := cleave.OpenMemory(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, cleave.ErrClosed) {
			t.Error(err)
		}
	})
	return db
}

var ctx = context.Background()

func mustNew[K comparable, V any](t testing.TB, o cache.Options[K, V]) *cache.Cache[K, V] {
	t.Helper()
	c, err := cache.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, cache.ErrClosed) {
			t.Error(err)
		}
	})
	return c
}

func mustGet[K, V comparable](t testing.TB, c *cache.Cache[K, V], key K, want V) {
	t.Helper()
	if got, err := c.Get(ctx, key); err != nil || got != want {
		t.Fatalf("%v is %v, %v; want %v", key, got, err, want)
	}
}

// testSeed returns the seed of a random test, and says how to play it again.
func testSeed(t *testing.T) uint64 { return tally.Seed(t, "./cache/storecache") }

// scaleRounds returns how often to repeat something.
func scaleRounds(n int) int {
	if os.Getenv("CLEAVE_SOAK") != "" {
		return 50 * n
	}
	return n
}

// newStoreCache returns a cache of numbers that a keyspace has.
func newStoreCache(t testing.TB, ks *cleave.Keyspace) *cache.Cache[string, int] {
	return mustNew(t, cache.Options[string, int]{TTL: -1, NotFound: cleave.ErrNotFound, Load: func(ctx context.Context, key string) (int, error) {
		b, err := ks.Get(ctx, []byte(key))
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(string(b))
	}})
}

// flakyFeed is a feed that breaks off now and then, and then has lost what came meanwhile.
type flakyFeed struct {
	feed[string]
	breaks func() bool
}

func (f flakyFeed) Changes(ctx context.Context, at cache.Place) iter.Seq2[cache.Change[string], error] {
	return func(yield func(cache.Change[string], error) bool) {
		for change, err := range f.feed.Changes(ctx, at) {
			if err == nil && f.breaks() {
				err = cleave.ErrGone
			}
			if !yield(change, err) || err != nil {
				return
			}
		}
	}
}

// TestWhoWaitsForTheFeedReadsWhatHeWrote lets several writers, each with keys of its own,
// and readers of all keys use one cache, over moves of shards and a feed that breaks off.
func TestWhoWaitsForTheFeedReadsWhatHeWrote(t *testing.T) {
	for _, breaks := range []bool{false, true} {
		t.Run(fmt.Sprint("breaks=", breaks), func(t *testing.T) { checkReadYourWrites(t, breaks) })
	}
}

func checkReadYourWrites(t *testing.T, breaks bool) {
	const writers, keys = 4, 3
	seed := testSeed(t)
	db := openMemory(t, cleave.Options{Stores: 2, Groups: 4, Durability: cleave.Never})
	ks := db.Default()
	c := newStoreCache(t, ks)
	var from cache.Source[string] = feed[string]{db, Keys(ks)}
	if breaks {
		var mu sync.Mutex
		told := 0
		r := rand.New(rand.NewPCG(seed, 0))
		from = flakyFeed{feed[string]{db, Keys(ks)}, func() bool {
			mu.Lock()
			defer mu.Unlock()
			told++
			return told == 20 || r.IntN(40) == 0 // once for certain
		}}
	}
	if err := c.Follow(from); err != nil {
		t.Fatal(err)
	}
	var last [writers][keys]atomic.Int64 // the version that every cache must have
	var writing, reading sync.WaitGroup
	stop := make(chan struct{})
	for w := range writers {
		writing.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(w)+1))
			for i := 1; i <= scaleRounds(40); i++ {
				k := r.IntN(keys)
				key := fmt.Sprint("w", w, "-", k)
				if err := ks.Set(ctx, []byte(key), strconv.AppendInt(nil, int64(i), 10)); err != nil {
					t.Error(err)
					return
				}
				if err := Wait(ctx, c, db.Head()); err != nil {
					t.Error(err)
					return
				}
				last[w][k].Store(int64(i))
				if got, err := c.Get(ctx, key); err != nil || got != i {
					t.Errorf("%s is %d, %v, after %d was written and waited for", key, got, err, i)
					return
				}
			}
		})
	}
	for n := range 2 {
		reading.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(n)+100))
			for {
				select {
				case <-stop:
					return
				default:
				}
				w, k := r.IntN(writers), r.IntN(keys)
				least := last[w][k].Load()
				got, err := c.Get(ctx, fmt.Sprint("w", w, "-", k))
				if err != nil && !errors.Is(err, cleave.ErrNotFound) || int64(got) < least {
					t.Errorf("w%d-%d is %d, %v; %d was known before", w, k, got, err, least)
					return
				}
			}
		})
	}
	moveShards(t, db, stop, &reading)
	writing.Wait()
	close(stop)
	reading.Wait()
	if m := c.Metrics(); breaks != (m.Flushes > 1) {
		t.Errorf("the feed breaks off: %v, and the cache was flushed %d times", breaks, m.Flushes)
	}
}

// moveShards moves shards from store to store until it is stopped.
func moveShards(t *testing.T, db *cleave.DB, stop chan struct{}, wg *sync.WaitGroup) {
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			groups := db.Groups()
			shards, err := db.Shards(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			s := shards[1+i%(len(shards)-1)]
			job, err := db.Start(ctx, cleave.Move{Shard: s.ID, To: groups[i%len(groups)].ID})
			if err == nil {
				_, _ = job.Wait(ctx)
			}
		}
	})
}

func TestAFeedThatIsGoneIsFollowedAgainWithAnEmptyCache(t *testing.T) {
	// The store keeps no log for the feed, and a reader that is slow loses its place.
	db := openMemory(t, cleave.Options{FeedBytes: -1, Durability: cleave.Never})
	ks := db.Default()
	c := newStoreCache(t, ks)
	slow := make(chan struct{})
	if err := Follow(c, db, func(op cleave.ChangeOp) []string {
		<-slow
		return Keys(ks)(op)
	}); err != nil {
		t.Fatal(err)
	}
	set := func(key string, n int) {
		t.Helper()
		if err := ks.Set(ctx, []byte(key), strconv.AppendInt(nil, int64(n), 10)); err != nil {
			t.Fatal(err)
		}
	}
	set("a", 1)
	mustGet(t, c, "a", 1)
	set("a", 2)
	filler := make([]byte, 1<<20)
	for i := range 24 { // segments of the log are used again meanwhile
		if err := ks.Set(ctx, fmt.Appendf(nil, "filler-%d", i), filler); err != nil {
			t.Fatal(err)
		}
	}
	close(slow)
	if err := Wait(ctx, c, db.Head()); err != nil {
		t.Fatal(err)
	}
	if m := c.Metrics(); m.Flushes < 2 {
		t.Errorf("%d flushes: the place was not lost", m.Flushes)
	}
	mustGet(t, c, "a", 2)
	set("a", 3)
	if err := Wait(ctx, c, db.Head()); err != nil {
		t.Fatal(err)
	}
	mustGet(t, c, "a", 3)
}

func TestACacheWhoseStoreIsClosedKeepsNothing(t *testing.T) {
	db := openMemory(t, cleave.Options{})
	var loads atomic.Int64
	c := mustNew(t, cache.Options[int, int]{Load: func(_ context.Context, key int) (int, error) { loads.Add(1); return key * 10, nil }})
	if err := Follow(c, db, func(cleave.ChangeOp) []int { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := Follow(c, db, func(cleave.ChangeOp) []int { return nil }); !errors.Is(err, cache.ErrFollowing) {
		t.Errorf("a second Follow: %v", err)
	}
	if err := Wait(ctx, c, "0123abcd-1"); !errors.Is(err, cache.ErrOptions) {
		t.Errorf("wait for a place of another store: %v", err)
	}
	mustGet(t, c, 1, 10)
	mustGet(t, c, 1, 10)
	if m := c.Metrics(); loads.Load() != 1 || !m.Following {
		t.Fatalf("%d loads, %+v", loads.Load(), m)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "the cache follows no more", func() bool { return !c.Metrics().Following })
	mustGet(t, c, 1, 10)
	mustGet(t, c, 1, 10)
	if m := c.Metrics(); loads.Load() != 3 || m.FeedErr == nil {
		t.Errorf("%d loads, %+v: nobody tells what changes", loads.Load(), m)
	}
	if err := Wait(ctx, c, db.Head()); err != nil {
		t.Errorf("wait with nothing to wait for: %v", err)
	}
}

func TestAFunctionForKeysThatPanicsCostsTheCacheAndNoMore(t *testing.T) {
	db := openMemory(t, cleave.Options{})
	ks := db.Default()
	c := newStoreCache(t, ks)
	var once sync.Once
	if err := Follow(c, db, func(op cleave.ChangeOp) []string {
		once.Do(func() { panic("boom") })
		return Keys(ks)(op)
	}); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < 5; i++ {
		if err := ks.Set(ctx, []byte("a"), strconv.AppendInt(nil, int64(i), 10)); err != nil {
			t.Fatal(err)
		}
		if err := Wait(ctx, c, db.Head()); err != nil {
			t.Fatal(err)
		}
		mustGet(t, c, "a", i)
	}
}

// A loader that reads the store says with the store's own error that there is no value.
func TestNew_WhatTheStoreDoesNotHaveIsRemembered(t *testing.T) {
	db := openMemory(t, cleave.Options{})
	ks := db.Default()
	loads := 0
	c, err := New(db, Keys(ks), cache.Options[string, string]{TTL: -1, NotFoundTTL: time.Hour, Load: func(ctx context.Context, key string) (string, error) {
		loads++
		b, err := ks.Get(ctx, []byte(key))
		return string(b), err
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 3 {
		if _, err := c.Get(ctx, "a"); !errors.Is(err, cleave.ErrNotFound) {
			t.Fatal(err)
		}
	}
	if m := c.Metrics(); loads != 1 || m.LoadErrors != 0 || !m.Following {
		t.Errorf("%d loads, %+v", loads, m)
	}
	if err := ks.Set(ctx, []byte("a"), []byte("1")); err != nil {
		t.Fatal(err)
	}
	if err := Wait(ctx, c, db.Head()); err != nil {
		t.Fatal(err)
	}
	mustGet(t, c, "a", "1")
	if _, err := New(db, Keys(ks), cache.Options[string, string]{}); !errors.Is(err, cache.ErrOptions) {
		t.Errorf("without a loader: %v", err)
	}
	if _, err := New(nil, Keys(ks), cache.Options[string, int]{Load: func(context.Context, string) (int, error) { return 0, nil }}); !errors.Is(err, cache.ErrOptions) {
		t.Errorf("without a store: %v", err)
	}
}
