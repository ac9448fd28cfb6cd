package heat

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
	"unsafe"
)

// TopKeys finds the keys with the most operations, bytes, service time or conflicts in a stream, in memory that does
// not depend on how many keys there are.
//
// It is the algorithm Space-Saving: a key that comes when the table is full takes the place of the one with the least
// count. Nothing is guessed: the count of a tracked key is at most too high by its error, and a key that is not
// tracked has at most [TopKeys.Floor], which is at most the total by the capacity. Summaries are merged, also of
// several processes, and the same holds for the merged one.
//
// It belongs to one goroutine at a time.
type TopKeys struct {
	by       Measure
	capacity int
	keys     map[string]*trackedKey
	heap     []*trackedKey // the least count first
	free     []*trackedKey
	keyBytes int
	total    float64
	// floor is what a key that is not tracked has at most. Invariant: no tracked count is below it, and
	// floor*capacity <= total - the sum of (count - floor).
	floor float64
}

// trackedKey is a key of the table.
type trackedKey struct {
	key   string
	index int // in the heap
	// count is at most errors too high, and never too low.
	count, errors float64
	// variance is what sampling adds to count-errors: it is 0 if every operation is handed in.
	variance float64
	// All that follows is of the operations since the key is tracked.
	ops, writes, bytes, service  float64
	times                        timeHistogram
	commands, clients, addresses nameCounts
}

// HotKey is a key of a report.
type HotKey struct {
	Key string
	// Count is at most how much the key has had by the measure of the table, but for sampling, and Count-Error at
	// least.
	Count, Error float64
	// Deviation is the standard deviation of Count by sampling. 0 if every operation was handed in.
	Deviation float64
	// Ops, Writes, Bytes and ServiceNS are those since the key is tracked.
	Ops, Writes, Bytes, ServiceNS float64
	// Mean and P99 are of the operations whose time is known. P99 is at most half too high.
	Mean, P99 time.Duration
	// Commands, Clients and Addresses are what was sent, and what sent it, the most frequent first. At most 4 of each
	// are known.
	Commands, Clients, Addresses []NameCount
}

// NewTopKeys returns an empty table of so many keys, 2 to 2^20. A key with more than the total by the capacity is
// always in it.
func NewTopKeys(by Measure, capacity int) (*TopKeys, error) {
	if by >= measures {
		return nil, fmt.Errorf("%w: measure %d: use ByOps, ByBytes, ByService or ByConflicts", ErrOptions, by)
	}
	if capacity < 2 || capacity > maxTopKeys {
		return nil, fmt.Errorf("%w: a table of %d keys: use 2 to %d", ErrOptions, capacity, maxTopKeys)
	}
	return &TopKeys{by: by, capacity: capacity, keys: map[string]*trackedKey{}}, nil
}

// By is what keys are compared by.
func (t *TopKeys) By() Measure { return t.by }

// Len is how many keys are tracked.
func (t *TopKeys) Len() int { return len(t.heap) }

// Capacity is how many keys may be tracked.
func (t *TopKeys) Capacity() int { return t.capacity }

// Total is the count of all keys together. It has no error.
func (t *TopKeys) Total() float64 { return t.total }

// Floor is the most that a key which is not tracked can have.
func (t *TopKeys) Floor() float64 { return t.floor }

// Bytes is how much memory the table takes, about.
func (t *TopKeys) Bytes() int {
	const entry = int(unsafe.Sizeof(trackedKey{})) + int(unsafe.Sizeof("")) + 3*int(unsafe.Sizeof(uintptr(0)))
	return (len(t.heap)+len(t.free))*entry + t.keyBytes
}

// Add counts an operation that stands for so many: 1, or one by the probability with which it was sampled.
func (t *TopKeys) Add(a *Access, weight float64) {
	var shared string
	t.add(a, weight, &shared)
}

// add is Add for several tables, which share the copy of the key that the first one makes.
func (t *TopKeys) add(a *Access, weight float64, shared *string) {
	value := t.by.of(a)
	if !(value > 0) || !(weight > 0) {
		return
	}
	n := value * weight
	t.total += n
	key := keptKey(a.Key)
	k := t.keys[string(key)]
	if k == nil {
		if *shared == "" {
			*shared = string(key)
		}
		k = t.track(*shared)
	}
	k.count += n
	k.variance += value * value * weight * max(weight-1, 0)
	k.ops += weight
	if a.Write {
		k.writes += weight
	}
	k.bytes += a.bytes() * weight
	if a.Service > 0 {
		k.service += float64(a.Service) * weight
		k.times[timeBin(a.Service)] += float32(weight)
	}
	k.commands.add(a.Command, weight)
	k.clients.add(a.Client, weight)
	k.addresses.add(a.Address, weight)
	t.siftDown(k.index)
}

// track gives a key that is not in the table a place: a free one, or that of the key with the least count.
func (t *TopKeys) track(key string) *trackedKey {
	var k *trackedKey
	if len(t.heap) < t.capacity {
		k = t.newEntry()
		k.index = len(t.heap)
		t.heap = append(t.heap, k)
	} else {
		k = t.heap[0]
		delete(t.keys, k.key)
		t.keyBytes -= len(k.key)
		t.floor = max(t.floor, k.count)
	}
	*k = trackedKey{key: key, index: k.index, count: t.floor, errors: t.floor}
	t.keys[key] = k
	t.keyBytes += len(key)
	t.siftUp(k.index) // only into an empty place: counts in the heap may be above the floor
	return k
}

func (t *TopKeys) newEntry() *trackedKey {
	if n := len(t.free); n > 0 {
		k := t.free[n-1]
		t.free = t.free[:n-1]
		return k
	}
	return new(trackedKey)
}

func (t *TopKeys) siftDown(i int) {
	h := t.heap
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].count < h[least].count {
				least = child
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		h[i].index, h[least].index = i, least
		i = least
	}
}

func (t *TopKeys) siftUp(i int) {
	h := t.heap
	for parent := (i - 1) / 2; i > 0 && h[i].count < h[parent].count; i, parent = parent, (parent-1)/2 {
		h[i], h[parent] = h[parent], h[i]
		h[i].index, h[parent].index = i, parent
	}
}

// Merge adds what another table of the same measure has counted, and leaves that as it is. It panics if the measures
// differ.
func (t *TopKeys) Merge(o *TopKeys) {
	if t.by != o.by {
		panic(fmt.Sprintf("heat: a table by %v is merged into one by %v", o.by, t.by))
	}
	// What a table does not track may have had its floor.
	for _, k := range t.heap {
		if o.keys[k.key] == nil {
			k.count += o.floor
			k.errors += o.floor
		}
	}
	for _, from := range o.heap {
		k := t.keys[from.key]
		if k == nil {
			k = t.newEntry()
			*k = *from
			k.count += t.floor
			k.errors += t.floor
			t.keys[k.key] = k
			t.heap = append(t.heap, k)
			t.keyBytes += len(k.key)
			continue
		}
		k.merge(from)
	}
	t.total += o.total
	t.floor += o.floor
	if len(t.heap) > t.capacity {
		slices.SortFunc(t.heap, func(a, b *trackedKey) int { return cmp.Compare(b.count, a.count) })
		t.floor = max(t.floor, t.heap[t.capacity].count)
		for _, k := range t.heap[t.capacity:] {
			t.drop(k)
		}
		clear(t.heap[t.capacity:])
		t.heap = t.heap[:t.capacity]
	}
	t.heapify()
}

func (k *trackedKey) merge(o *trackedKey) {
	k.count, k.errors, k.variance = k.count+o.count, k.errors+o.errors, k.variance+o.variance
	k.ops, k.writes, k.bytes, k.service = k.ops+o.ops, k.writes+o.writes, k.bytes+o.bytes, k.service+o.service
	k.times.merge(&o.times)
	k.commands.merge(&o.commands)
	k.clients.merge(&o.clients)
	k.addresses.merge(&o.addresses)
}

// drop forgets a key. The caller takes it off the heap.
func (t *TopKeys) drop(k *trackedKey) {
	delete(t.keys, k.key)
	t.keyBytes -= len(k.key)
	*k = trackedKey{}
	if len(t.free) < t.capacity {
		t.free = append(t.free, k)
	}
}

func (t *TopKeys) heapify() {
	for i, k := range t.heap {
		k.index = i
	}
	for i := len(t.heap)/2 - 1; i >= 0; i-- {
		t.siftDown(i)
	}
}

// Scale multiplies all counts by a factor from 0 to 1, so that what is older counts less, and forgets keys with less
// than so much left. What is forgotten is in no bound: keep it far below what matters.
func (t *TopKeys) Scale(factor, forget float64) {
	kept := t.heap[:0]
	for _, k := range t.heap {
		k.scale(factor)
		if k.count < forget {
			t.drop(k)
			continue
		}
		kept = append(kept, k)
	}
	clear(t.heap[len(kept):])
	t.heap = kept
	t.total *= factor
	if t.floor *= factor; t.floor < forget {
		t.floor = 0
	}
	t.heapify()
}

func (k *trackedKey) scale(factor float64) {
	k.count, k.errors, k.variance = k.count*factor, k.errors*factor, k.variance*factor*factor
	k.ops, k.writes, k.bytes, k.service = k.ops*factor, k.writes*factor, k.bytes*factor, k.service*factor
	k.times.scale(factor)
	k.commands.scale(factor)
	k.clients.scale(factor)
	k.addresses.scale(factor)
}

// Reset forgets all keys, and keeps the memory for others.
func (t *TopKeys) Reset() {
	for _, k := range t.heap {
		t.drop(k)
	}
	clear(t.heap)
	t.heap, t.total, t.floor = t.heap[:0], 0, 0
}

// Top returns the n keys with the highest counts, the highest first; all that are tracked if n is negative.
func (t *TopKeys) Top(n int) []HotKey { return reportTop(slices.Clone(t.heap), n) }

// TopIn is Top for the keys from start up to end, which is not included; nil is the end of all keys.
func (t *TopKeys) TopIn(start, end []byte, n int) []HotKey {
	var in []*trackedKey
	for _, k := range t.heap {
		if k.key >= string(start) && (end == nil || k.key < string(end)) {
			in = append(in, k)
		}
	}
	return reportTop(in, n)
}

func reportTop(keys []*trackedKey, n int) []HotKey {
	slices.SortFunc(keys, func(a, b *trackedKey) int { return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.key, b.key)) })
	if n >= 0 {
		keys = keys[:min(n, len(keys))]
	}
	top := make([]HotKey, len(keys))
	for i, k := range keys {
		top[i] = k.report()
	}
	return top
}

func (k *trackedKey) report() HotKey {
	h := HotKey{
		Key: k.key, Count: k.count, Error: k.errors, Deviation: math.Sqrt(k.variance), Ops: k.ops, Writes: k.writes, Bytes: k.bytes,
		ServiceNS: k.service, P99: k.times.quantile(0.99), Commands: k.commands.list(), Clients: k.clients.list(), Addresses: k.addresses.list(),
	}
	if n := k.times.total(); n > 0 {
		h.Mean = time.Duration(k.service / n)
	}
	return h
}
