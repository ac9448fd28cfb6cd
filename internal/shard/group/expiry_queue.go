package group

import (
	"bytes"
	"container/heap"
	"math"
)

// expiryQueue knows which keys expire next. It holds the soonest ones only, so its memory is
// bounded: when more were added it forgets the latest, is marked incomplete, and has to be
// filled again from the expiry table.
//
// It is a hint. Only a key's row determines when it expires, so an entry that is out of date
// costs a read of the row and nothing else.
type expiryQueue struct {
	soonest    expiryHeap // by time, the next first
	maxEntries int
	// horizon is the earliest time of what was forgotten: from there on the
	// queue is not complete.
	horizon int64
}

// Horizons of queues that know everything, and nothing.
const (
	completeHorizon = math.MaxInt64
	unknownHorizon  = math.MinInt64
)

func newExpiryQueue(most int) expiryQueue {
	return expiryQueue{maxEntries: most, horizon: completeHorizon}
}

type expiryEntry struct {
	expiryMS int64
	position []byte
}

// add notes that the key at position, whose bytes are kept, expires at a time.
func (q *expiryQueue) add(position []byte, at int64) {
	if at >= q.horizon {
		return // it will be found in the table
	}
	heap.Push(&q.soonest, expiryEntry{at, bytes.Clone(position)})
	if len(q.soonest) > 2*q.maxEntries {
		q.dropLatest()
	}
}

// dropLatest keeps the soonest entries.
func (q *expiryQueue) dropLatest() {
	kept := make(expiryHeap, 0, q.maxEntries+1)
	for len(kept) < q.maxEntries {
		kept = append(kept, heap.Pop(&q.soonest).(expiryEntry))
	}
	q.horizon = q.soonest[0].expiryMS
	q.soonest = kept // sorted, so a heap
}

// next removes an entry that is due at now.
func (q *expiryQueue) next(now int64) (position []byte, ok bool) {
	if len(q.soonest) == 0 || q.soonest[0].expiryMS > now {
		return nil, false
	}
	return heap.Pop(&q.soonest).(expiryEntry).position, true
}

// nextExpiryMS is a time before which nothing that the queue knows of expires.
func (q *expiryQueue) nextExpiryMS() int64 {
	if len(q.soonest) == 0 {
		return q.horizon
	}
	return min(q.soonest[0].expiryMS, q.horizon)
}

// needsFill reports whether only entries that were forgotten may still be due at
// now.
func (q *expiryQueue) needsFill(now int64) bool {
	return now >= q.horizon && (len(q.soonest) == 0 || q.soonest[0].expiryMS > now)
}

// reset empties the queue before it is filled from the table.
func (q *expiryQueue) reset() { *q = newExpiryQueue(q.maxEntries) }

// merge adds what another queue knows.
func (q *expiryQueue) merge(other *expiryQueue) {
	q.horizon = min(q.horizon, other.horizon)
	for _, e := range other.soonest {
		q.add(e.position, e.expiryMS)
	}
}

type expiryHeap []expiryEntry

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(i, j int) bool { return h[i].expiryMS < h[j].expiryMS }
func (h expiryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *expiryHeap) Push(x any)        { *h = append(*h, x.(expiryEntry)) }
func (h *expiryHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
