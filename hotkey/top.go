package hotkey

import (
	"container/heap"
	"fmt"
	"hash/maphash"
	"math"
	"strings"
	"time"

	"github.com/cleavekv/cleave/internal/plant"
)

// MaxKeyBytes is how long a key is kept. Of a longer one the beginning is kept, with a
// hash of all of it, so that two of them are still told apart.
const MaxKeyBytes = 256

var seed = maphash.MakeSeed()

// short returns the key as it is kept, sharing no memory with what the caller has.
func short(key string) string {
	if len(key) <= MaxKeyBytes {
		return strings.Clone(key)
	}
	sum := fmt.Sprintf("…#%016x", maphash.String(seed, key))
	// The cut may go through a character, and whole stretches may be of other bytes: a
	// mark in the place of each never makes it longer.
	return strings.ToValidUTF8(key[:MaxKeyBytes-len(sum)], "?") + sum
}

// tracked is a key of the table.
type tracked struct {
	key string
	at  int // its place in the heap
	// count is at least how many samples the key has had, and count-missed at most. Both
	// are of the weight that samples have by now.
	count, missed float64
	// samples and sum are of the latencies since it is tracked.
	samples, sum float64
}

func (t *tracked) mean() float64 { return t.sum / t.samples }

// top is the keys with the most samples, by Space-Saving. Invariant: the counts add up to
// total, so that the least of a full table is at most total/size.
type top struct {
	size  int
	keys  map[string]*tracked
	least byCount
	total float64
}

func newTop(size int) top { return top{size: size, keys: map[string]*tracked{}} }

// add counts a sample.
func (t *top) add(key string, latency time.Duration) {
	t.total++
	k := t.keys[key]
	switch {
	case k != nil:
	case len(t.least) < t.size:
		k = &tracked{key: key}
		t.keys[key] = k
		heap.Push(&t.least, k)
	default:
		k = t.least[0]
		if plant.Bug("hotkey-evicts-any") {
			k = t.least[len(t.least)-1]
		}
		delete(t.keys, k.key)
		*k = tracked{key: key, at: k.at, count: k.count, missed: k.count}
		t.keys[key] = k
	}
	k.count++
	k.samples++
	k.sum += float64(latency)
	heap.Fix(&t.least, k.at)
}

// forgotten is the weight below which a key is dropped: that of one sample five windows
// ago.
const forgotten = 1.0 / 32

// decay halves all counts, once for each window.
func (t *top) decay(windows int) {
	half := math.Ldexp(1, -windows)
	if plant.Bug("hotkey-windows-do-not-end") {
		half = 1
	}
	t.total = 0
	kept := t.least[:0]
	for _, k := range t.least {
		k.count, k.missed, k.samples, k.sum = k.count*half, k.missed*half, k.samples*half, k.sum*half
		if k.count < forgotten {
			delete(t.keys, k.key)
			continue
		}
		t.total += k.count
		k.at = len(kept)
		kept = append(kept, k)
	}
	clear(t.least[len(kept):])
	t.least = kept
	heap.Init(&t.least)
}

// byCount is a heap with the least count first.
type byCount []*tracked

func (h byCount) Len() int           { return len(h) }
func (h byCount) Less(i, j int) bool { return h[i].count < h[j].count }
func (h byCount) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}
func (h *byCount) Push(x any) {
	k := x.(*tracked)
	k.at = len(*h)
	*h = append(*h, k)
}
func (h *byCount) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
