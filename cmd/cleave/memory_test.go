package main

import (
	"strconv"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/ops/config"
)

func loadSettings(t *testing.T, flags map[string]string) *config.Config {
	t.Helper()
	c, err := config.Load(config.Sources{
		Flags: flags,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCacheSizes_FitTheMemory(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		memory       int64
		flags        map[string]string
		rows, blocks int64
	}{
		{0, nil, 512, 256},
		{64 << 30, nil, 512, 256},
		{4 << 30, nil, 512, 256},
		{1 << 30, nil, 192, 96},
		{512 << 20, nil, 64, 32},
		{256 << 20, nil, 16, 8},
		{8 << 20, nil, 4, 2},
		{1 << 30, map[string]string{"stores": "4"}, 48, 24},
		{512 << 20, map[string]string{"cache-mib": "512"}, 512, 32},
		{256 << 20, map[string]string{"cache-mib": "16", "block-cache-mib": "100"}, 16, 100},
	} {
		rows, blocks := computeCacheSizes(loadSettings(t, c.flags), c.memory)
		if rows != c.rows*mib || blocks != c.blocks*mib {
			t.Errorf("%d MiB, %v: %d and %d MiB, want %d and %d", c.memory/mib, c.flags, rows/mib, blocks/mib, c.rows, c.blocks)
		}
	}
}

func TestHeapLimit_LeavesTheRest(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		memory int64
		flags  map[string]string
		want   int64
	}{
		{500 * mib, nil, 400*mib - 61*mib/4*5},
		{500 * mib, map[string]string{"cache-mib": "16"}, 380 * mib},
		{500 * mib, map[string]string{"cache-mib": "16", "stores": "2"}, 360 * mib},
		{500 * mib, map[string]string{"cache-mib": "1000"}, 200 * mib},
		{1000 * mib, map[string]string{"storage": "memory", "maxmemory": "300mb"}, 500 * mib},
	} {
		if got := computeHeapLimit(loadSettings(t, c.flags), c.memory); got/mib != c.want/mib {
			t.Errorf("%d MiB, %v: %d MiB, want %d", c.memory/mib, c.flags, got/mib, c.want/mib)
		}
	}
}

func TestFreed_IsDueWhenMuchWasFreed(t *testing.T) {
	const mib = 1 << 20
	var f memoryReclaimer
	now := time.Unix(1000, 0)
	for i, step := range []struct {
		stored int64
		heap   heapUse
		after  time.Duration
		want   bool
	}{
		{400 * mib, heapUse{}, time.Second, false},
		{350 * mib, heapUse{}, time.Second, false}, // little less
		{300 * mib, heapUse{}, time.Second, true},
		{200 * mib, heapUse{}, time.Second, false}, // it was done a moment ago
		{200 * mib, heapUse{}, freeInterval, true},
		{100 * mib, heapUse{}, freeInterval, true},
		{50 * mib, heapUse{}, freeInterval, false}, // less than is worth it
		{0, heapUse{}, freeInterval, true},
		{0, heapUse{mapped: 500 * mib, live: 400 * mib}, freeInterval, false}, // garbage that is let be
		{0, heapUse{mapped: 900 * mib, live: 400 * mib}, freeInterval, true},
		{0, heapUse{mapped: 900 * mib, live: 400 * mib}, time.Second, false},
		{0, heapUse{allocated: 100 * mib}, freeInterval, false}, // it is at work
		{0, heapUse{allocated: 101*mib - 1}, time.Second, false},
		{0, heapUse{allocated: 101*mib - 1}, time.Second, false},
		{0, heapUse{allocated: 101*mib - 1}, time.Second, false}, // it may begin again
		{0, heapUse{allocated: 101*mib - 1}, time.Second, true},
		{0, heapUse{allocated: 102*mib - 2}, freeInterval, false}, // nothing to speak of since
	} {
		now = now.Add(step.after)
		if got := f.shouldReclaim(step.stored, step.heap, now); got != step.want {
			t.Errorf("step %d, %d MiB: %v, want %v", i, step.stored/mib, got, step.want)
		}
	}
}

func TestClientMemory_FitsTheMemory(t *testing.T) {
	for memory, want := range map[int64]string{0: "1073741824", 64 << 30: "1073741824", 2 << 30: "536870912", 64 << 20: "134217728"} {
		if got := defaultClientMemory(memory); got != want {
			t.Errorf("%d bytes: %s, want %s", memory, got, want)
		}
	}
}

func TestGarbageIsAShareOfTheHeapAndNotTooLittle(t *testing.T) {
	for live, want := range map[uint64]int{0: 6400, 1 << 20: 6400, 64 << 20: 100, 100 << 20: 60, 256 << 20: 25, 8 << 30: 25} {
		if got := computeGarbagePercent(live); got != want {
			t.Errorf("%d MiB in use: %d %%, want %d", live>>20, got, want)
		}
	}
}

func TestMaxMemory_LeavesEnoughForTheServer(t *testing.T) {
	const mib = 1 << 20
	inMemory := func(more ...string) map[string]string {
		m := map[string]string{"storage": "memory"}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	for _, c := range []struct {
		memory int64
		flags  map[string]string
		want   int64
	}{
		{0, inMemory(), 0},
		{128 * mib, inMemory(), 32 * mib},
		{528 * mib, inMemory(), 240 * mib},
		{10128 * mib, inMemory(), 6000 * mib},
		{528 * mib, inMemory("maxmemory", "1gb"), 1024 * mib},
		{528 * mib, nil, 0},
	} {
		loaded := loadSettings(t, c.flags)
		if got := computeMaxMemory(loaded, c.memory); got/mib != c.want/mib {
			t.Errorf("%d MiB, %v: %d MiB, want %d", c.memory/mib, c.flags, got/mib, c.want/mib)
		}
		settings := loaded.ClientSettings()
		if deriveClientSettings(settings, loaded, c.memory); settings["maxmemory"] != strconv.FormatInt(computeMaxMemory(loaded, c.memory), 10) {
			t.Errorf("%d MiB, %v: clients see %s", c.memory/mib, c.flags, settings["maxmemory"])
		}
	}
}
