package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/hash"
)

// story is a load that makes a shard hot.
type story struct {
	name, about string
	// keyspace is the one that is made and used, of kind range; empty for the default one.
	keyspace string
	// request writes a request; n is how many the connection has sent.
	request func(r *rand.Rand, n int, b []byte) []byte
	// class is what is to be found. quiet stories end with a wait for the map to be as small as before.
	class string
	quiet bool
	// grows is a load that adds keys all the time: it is compared with the same on a server with relief off.
	grows bool
}

const (
	connections = 16
	pipeline    = 16
	keys        = 100_000
	// measureTime is for how long throughput and shares are measured, stillTime for how long the map must not change
	// before that is measured again, and maxRelief the longest wait for that.
	measureTime = 15 * time.Second
	stillTime   = 15 * time.Second
	maxRelief   = 3 * time.Minute
	maxFind     = time.Minute
	// growTime is for how long a load that grows has relief before it is measured again.
	growTime = 90 * time.Second
	// maxQuiet is the longest wait for pieces to be merged again: shards stay for two minutes after each change.
	maxQuiet = 8 * time.Minute
)

func stories() []story {
	oneGroup := newZipf(1.2, keys, func(key string) bool { return hash.SlotOfString(key) < hash.Slots/2 })
	mixed := newZipf(1.2, keys, func(string) bool { return true })
	value := strings.Repeat("v", 64)
	set := func(b []byte, key string) []byte { return appendRequest(b, "SET", key, value) }
	var clock atomic.Int64
	return []story{
		{
			name: "zipf, hot keys in one group", class: "hot range", quiet: true,
			about:   "SET by zipf(1.2) of 100,000 keys of the default keyspace. The keys are named so that all lie in the slots of one of the two groups.",
			request: func(r *rand.Rand, _ int, b []byte) []byte { return set(b, oneGroup.draw(r)) },
		},
		{
			name: "zipf, as keys fall", class: "",
			about:   "The same with names as they come: the groups are nearly even, and little is to be done.",
			request: func(r *rand.Rand, _ int, b []byte) []byte { return set(b, mixed.draw(r)) },
		},
		{
			name: "warm neighbours", keyspace: "sessions", class: "hot range", quiet: true,
			about:   "SET of 20,000 neighbouring keys of a range keyspace, each as often as the others.",
			request: func(r *rand.Rand, _ int, b []byte) []byte { return set(b, fmt.Sprintf("session:%08d", r.IntN(20_000))) },
		},
		{
			name: "ids in the order of time", keyspace: "orders", class: "moving edge", grows: true,
			about:   "SET of keys that grow, in a range keyspace.",
			request: func(_ *rand.Rand, _ int, b []byte) []byte { return set(b, fmt.Sprintf("order:%016d", clock.Add(1))) },
		},
		{
			name: "one hot key", class: "hot key",
			about: "Four of five requests are INCR of one key, the others SET of 100,000 keys.",
			request: func(r *rand.Rand, _ int, b []byte) []byte {
				if r.IntN(5) > 0 {
					return appendRequest(b, "INCR", "stock:4711")
				}
				return set(b, mixed.draw(r))
			},
		},
	}
}

// zipf draws names of keys, the first most often.
type zipf struct {
	names []string
	upTo  []float64 // the share of a name and those before it
}

// newZipf names n keys that fit: the one of rank i has a share of 1/i^s.
func newZipf(s float64, n int, fits func(string) bool) *zipf {
	z := new(zipf)
	sum := 0.0
	for i := 0; len(z.names) < n; i++ {
		if name := fmt.Sprintf("user:%d", i); fits(name) {
			z.names = append(z.names, name)
			sum += math.Pow(float64(len(z.names)), -s)
			z.upTo = append(z.upTo, sum)
		}
	}
	for i := range z.upTo {
		z.upTo[i] /= sum
	}
	return z
}

func (z *zipf) draw(r *rand.Rand) string {
	i, _ := slices.BinarySearch(z.upTo, r.Float64())
	return z.names[min(i, len(z.names)-1)]
}

func appendRequest(b []byte, words ...string) []byte {
	b = fmt.Appendf(b, "*%d\r\n", len(words))
	for _, w := range words {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b
}

// result is what came of a story.
type result struct {
	class                   string
	found                   time.Duration
	shareBefore, shareAfter float64
	opsBefore, opsAfter     float64
	// afterAt is when the load had gone on for so long that it was measured again. The control was measured at the same times.
	afterAt                     time.Duration
	controlBefore, controlAfter float64
	changes                     string
	notes                       []string
}
