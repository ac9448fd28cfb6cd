package hotkey

import (
	"container/heap"
	"fmt"
	"hash/maphash"
	"math"
	"strings"
	"time"
)

// MaxKeyBytes is how long a key is kept. Of a longer one the beginning is kept, with a
// hash of all of it, so that two of them still differ.
const MaxKeyBytes = 256

var hashSeed = maphash.MakeSeed()

// truncateKey returns the key as it is kept, sharing no memory with what the caller has.
func truncateKey(key string) string {
	if len(key) <= MaxKeyBytes {
		return strings.Clone(key)
	}
	sum := fmt.Sprintf("…#%016x", maphash.String(hashSeed, key))
	// The cut may go through a character, and whole stretches may be of other bytes: a
	// mark in the place of each never makes it longer.
	return strings.ToValidUTF8(key[:MaxKeyBytes-len(sum)], "?") + sum
}

// trackedKey is a key of the table.
type trackedKey struct {
	key       string
	heapIndex int // its place in the heap
	// count is at least how many samples the key has had, and count-missed at most. Both
	// are of the weight that samples have by now.
	count, missed float64
	// samples and sum are of the latencies since it is tracked.
	samples, sum float64
}

func (t *trackedKey) meanLatency() float64 { return t.sum / t.samples }

// topKeys is the keys with the most samples, by Space-Saving. Invariant: the counts add up to
// total, so that the least of a full table is at most total/size.
type topKeys struct {
	capacity int
	keys     map[string]*trackedKey
	minHeap  byCount
	total    float64
}

func newTopKeys(size int) topKeys { return topKeys{capacity: size, keys: map[string]*trackedKey{}} }

// addSample counts a sample.
func (t *topKeys) addSample(key string, latency time.Duration) {
	t.total++
	k := t.keys[key]
	switch {
	case k != nil:
	case len(t.minHeap) < t.capacity:
		k = &trackedKey{key: key}
		t.keys[key] = k
		heap.Push(&t.minHeap, k)
	default:
		k = t.minHeap[0]
		delete(t.keys, k.key)
		*k = trackedKey{key: key, heapIndex: k.heapIndex, count: k.count, missed: k.count}
		t.keys[key] = k
	}
	k.count++
	k.samples++
	k.sum += float64(latency)
	heap.Fix(&t.minHeap, k.heapIndex)
}

// minKeptWeight is the weight below which a key is dropped: that of one sample five windows
// ago.
const minKeptWeight = 1.0 / 32

// halveCounts halves all counts, once for each window.
func (t *topKeys) halveCounts(windows int) {
	half := math.Ldexp(1, -windows)
	t.total = 0
	kept := t.minHeap[:0]
	for _, k := range t.minHeap {
		k.count, k.missed, k.samples, k.sum = k.count*half, k.missed*half, k.samples*half, k.sum*half
		if k.count < minKeptWeight {
			delete(t.keys, k.key)
			continue
		}
		t.total += k.count
		k.heapIndex = len(kept)
		kept = append(kept, k)
	}
	clear(t.minHeap[len(kept):])
	t.minHeap = kept
	heap.Init(&t.minHeap)
}

// byCount is a heap with the least count first.
type byCount []*trackedKey

func (h byCount) Len() int           { return len(h) }
func (h byCount) Less(i, j int) bool { return h[i].count < h[j].count }
func (h byCount) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i, j
}
func (h *byCount) Push(x any) {
	k := x.(*trackedKey)
	k.heapIndex = len(*h)
	*h = append(*h, k)
}
func (h *byCount) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
