package cleave

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/testkit/eventually"
	"github.com/cleavekv/cleave/internal/testkit/tally"
)

// waitUntil waits for something that happens soon.
func waitUntil(t testing.TB, what string, is func() bool) {
	t.Helper()
	eventually.Holds(t, what, is)
}

// floodCache writes and reads many rows of a keyspace, more than a cache of 64 KiB holds by far.
func floodCache(t testing.TB, ks *Keyspace) {
	t.Helper()
	value := make([]byte, 200) // rows that share blocks with others
	for i := range 1500 {
		must(t, ks.Set(ctx, numberKey(i), value))
	}
	for range 3 {
		for i := range tally.Size(1500, 500) {
			_, err := ks.Get(ctx, numberKey(i))
			must(t, err)
		}
	}
}

func TestPinnedRowsAreReadFromMemoryWhateverElseIsRead(t *testing.T) {
	db := openSmall(t, 1)
	pinned, loose, other := rangeSpace(t, db, "pinned"), rangeSpace(t, db, "loose"), rangeSpace(t, db, "other")
	var keys [][]byte
	for i := range 20 {
		keys = append(keys, numberKey(i))
		must(t, pinned.Set(ctx, numberKey(i), []byte("value")))
		must(t, loose.Set(ctx, numberKey(i), []byte("value")))
	}
	_, err := pinned.HSet(ctx, []byte("hash"), Field{[]byte("a"), []byte("1")}, Field{[]byte("b"), []byte("2")})
	must(t, err)
	floodCache(t, other) // now they are in the tables, and not in memory
	must(t, pinned.Pin(ctx, time.Hour, keys...))
	must(t, pinned.Pin(ctx, time.Hour, []byte("absent")))
	must(t, pinned.PinFields(ctx, time.Hour, []byte("hash"), []byte("a"), []byte("none")))
	if m := pinned.CacheMetrics(); m.Pinned != 24 {
		t.Fatalf("%d rows are pinned, want 20, one that is not there, a hash, its field, and one that it has not: %+v", m.Pinned, m)
	}
	floodCache(t, other)
	before := pinned.CacheMetrics()
	for i, key := range keys {
		v, err := pinned.Get(ctx, key)
		if err != nil || string(v) != "value" {
			t.Fatalf("key %d: %q, %v", i, v, err)
		}
		_, err = loose.Get(ctx, key)
		must(t, err)
	}
	if _, err := pinned.Get(ctx, []byte("absent")); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	if v, err := pinned.HGet(ctx, []byte("hash"), []byte("a")); err != nil || string(v) != "1" {
		t.Fatalf("%q, %v", v, err)
	}
	if _, err := pinned.HGet(ctx, []byte("hash"), []byte("none")); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	after := pinned.CacheMetrics()
	if after.Misses != before.Misses || after.Hits < before.Hits+23 || after.HitRate() == 0 {
		t.Errorf("reads of pinned rows missed: %+v, then %+v", before, after)
	}
	if m := loose.CacheMetrics(); m.Misses == 0 || m.Evictions == 0 {
		t.Errorf("rows that are not pinned were not evicted, so this shows nothing: %+v", m)
	}
	if m := other.CacheMetrics(); m.Evictions == 0 || m.Rows == 0 || m.Bytes == 0 || m.Pinned != 0 {
		t.Errorf("%+v", m)
	}
	must(t, pinned.Unpin(ctx, append(keys, []byte("absent"))...))
	must(t, pinned.UnpinFields(ctx, []byte("hash"), []byte("a"), []byte("none")))
	if m := pinned.CacheMetrics(); m.Pinned != 0 || m.PinnedBytes != 0 {
		t.Errorf("something is pinned still: %+v", m)
	}
}

func TestAPinEndsWithItsTimeOrItsKeyspace(t *testing.T) {
	db := openSmall(t, 2)
	ks := rangeSpace(t, db, "short")
	must(t, ks.Pin(ctx, time.Millisecond, numberKey(1), numberKey(2)))
	must(t, ks.Pin(ctx, time.Hour, numberKey(2), numberKey(3))) // for longer
	waitUntil(t, "one pin ends", func() bool { return ks.CacheMetrics().Pinned == 2 })
	must(t, ks.Pin(ctx, time.Millisecond, numberKey(2))) // for less
	waitUntil(t, "another ends", func() bool { return ks.CacheMetrics().Pinned == 1 })
	must(t, db.DropKeyspace(ctx, "short"))
	waitUntil(t, "the keyspace is gone", func() bool { return ks.CacheMetrics().Pinned == 0 })
	if err := ks.Pin(ctx, time.Hour, numberKey(1)); !errors.Is(err, ErrNoKeyspace) {
		t.Errorf("pin in a keyspace that is gone: %v", err)
	}
}

func TestPinsTakeHalfOfTheCacheAndNoMore(t *testing.T) {
	db := openSmall(t, 1)
	ks := rangeSpace(t, db, "large")
	for i := range 100 {
		must(t, ks.Set(ctx, numberKey(i), make([]byte, 1000)))
	}
	n := 0
	for err := error(nil); err == nil; n++ {
		if err = ks.Pin(ctx, time.Hour, numberKey(n)); err != nil && !errors.Is(err, ErrPinLimit) {
			t.Fatal(err)
		}
	}
	n--
	if n < 20 || n > 40 {
		t.Errorf("%d rows of 1000 bytes are pinned in a cache of 64 KiB", n)
	}
	err := ks.Pin(ctx, time.Hour, []byte("small, first"), numberKey(99))
	if m := ks.CacheMetrics(); !errors.Is(err, ErrPinLimit) || !strings.Contains(err.Error(), "CacheBytes") || m.Pinned != int64(n) {
		t.Errorf("%v, and %d rows are pinned, want %d as before", err, m.Pinned, n)
	}
	must(t, ks.Unpin(ctx, numberKey(0), numberKey(1)))
	must(t, ks.Pin(ctx, time.Hour, numberKey(99)))
	// A value that becomes too large is released.
	must(t, ks.Set(ctx, numberKey(99), make([]byte, 30_000)))
	if m := ks.CacheMetrics(); m.Pinned != int64(n)-2 || m.Outgrown != 1 {
		t.Errorf("%+v: want %d pins, and one outgrown", m, n-2)
	}
	if err := ks.Pin(ctx, time.Hour, numberKey(99)); !errors.Is(err, ErrPinLimit) {
		t.Errorf("pin 30,000 bytes: %v", err)
	}
}

func TestAPinFollowsItsKeyToAnotherStore(t *testing.T) {
	db := openSmall(t, 2)
	ks := rangeSpace(t, db, "moving")
	for i := range 10 {
		must(t, ks.Set(ctx, numberKey(i), []byte("value")))
	}
	must(t, ks.Pin(ctx, time.Hour, numberKey(1), numberKey(5)))
	for range 3 {
		shards, err := db.Shards(ctx)
		must(t, err)
		groups := db.Groups()
		var from, to GroupInfo
		var shard ShardID
		for _, s := range shards {
			if s.Keyspace == ks.Name() {
				shard = s.ID
				for _, g := range groups {
					if g.ID == s.Group {
						from = g
					}
				}
			}
		}
		for _, g := range groups {
			if g.Store != from.Store {
				to = g
			}
		}
		job, err := db.Start(ctx, Move{Shard: shard, To: to.ID})
		must(t, err)
		_, err = job.Wait(ctx)
		must(t, err)
		held := func(store int) int { return db.node.StoreHosts()[store].Store.CacheMetrics(ks.keyspace.ID).PinnedRows }
		waitUntil(t, "the pins follow", func() bool { return held(to.Store) == 2 && held(from.Store) == 0 })
	}
	must(t, ks.Unpin(ctx, numberKey(1), numberKey(5)))
	if m := ks.CacheMetrics(); m.Pinned != 0 {
		t.Errorf("%+v", m)
	}
}

func TestPinsAreRefusedWithAReason(t *testing.T) {
	db := openSmall(t, 1)
	ks := db.Default()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	long := bytes.Repeat([]byte("k"), 20<<10)
	for what, c := range map[string]struct {
		err, is error
	}{
		"no time":        {ks.Pin(ctx, 0, []byte("k")), ErrOptions},
		"less than none": {ks.PinFields(ctx, -1, []byte("k")), ErrOptions},
		"a long key":     {ks.Pin(ctx, time.Hour, []byte("k"), long), ErrTooLarge},
		"a long field":   {ks.PinFields(ctx, time.Hour, []byte("k"), long), ErrTooLarge},
		"unpin a long":   {ks.Unpin(ctx, long), ErrTooLarge},
		"an ended ctx":   {ks.Pin(ended, time.Hour, []byte("k")), context.Canceled},
		"nothing":        {ks.Pin(ctx, time.Hour), nil},
	} {
		if !errors.Is(c.err, c.is) {
			t.Errorf("%s: %v, want %v", what, c.err, c.is)
		}
	}
	if m := ks.CacheMetrics(); m.Pinned != 0 {
		t.Errorf("%+v", m)
	}
	mustClose(t, db)
	if err := ks.Pin(ctx, time.Hour, []byte("new")); !errors.Is(err, ErrClosed) {
		t.Errorf("pin in a closed store: %v", err)
	}
}

// TestPinnedKeysAreReadAsTheyAre lets writers, each with keys of its own, compare every
// read with what they wrote last, while keys are pinned and unpinned, shards are moved and
// a small cache overflows.
func TestPinnedKeysAreReadAsTheyAre(t *testing.T) {
	db := openSmall(t, 2)
	ks := rangeSpace(t, db, "law")
	seed := seedOf(t)
	const clients, keys = 4, 8
	stop := make(chan struct{})
	var working, moving sync.WaitGroup
	for c := range clients {
		working.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(c)))
			last := map[int]string{}
			for i := range scaleRounds(400) {
				k := r.IntN(keys)
				key := fmt.Appendf(nil, "%d/%d", c, k)
				switch r.IntN(8) {
				case 0:
					if err := ks.Pin(ctx, time.Duration(1+r.Int64N(int64(5*time.Millisecond))), key); err != nil && !errors.Is(err, ErrPinLimit) {
						t.Error(err)
					}
				case 1:
					if err := ks.Unpin(ctx, key); err != nil {
						t.Error(err)
					}
				case 2, 3:
					last[k] = strings.Repeat(fmt.Sprint(i), 1+r.IntN(2000))
					if err := ks.Set(ctx, key, []byte(last[k])); err != nil {
						t.Error(err)
					}
				case 4:
					delete(last, k)
					if _, err := ks.Delete(ctx, key); err != nil {
						t.Error(err)
					}
				default:
					v, err := ks.Get(ctx, key)
					want, ok := last[k]
					if string(v) != want || ok == errors.Is(err, ErrNotFound) {
						t.Errorf("step %d: %s has %d bytes, %v; want %d", i, key, len(v), err, len(want))
						return
					}
				}
			}
		})
	}
	moving.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			shards, err := db.Shards(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			groups := db.Groups()
			if job, err := db.Start(ctx, Move{Shard: shards[len(shards)-1].ID, To: groups[i%len(groups)].ID}); err == nil {
				_, _ = job.Wait(ctx)
			}
		}
	})
	working.Wait()
	close(stop)
	moving.Wait()
	waitUntil(t, "all pins end", func() bool { return ks.CacheMetrics().Pinned == 0 })
}
