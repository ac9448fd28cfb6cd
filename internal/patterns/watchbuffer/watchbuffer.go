// Package watchbuffer answers one question: which changes has a watcher not received
// yet, and from where can it go on?
//
// Promise: there is one entry for each key, whose owner makes it the newest state. A watcher
// that goes on from the place of an entry that was taken out misses nothing
// that was not: it may receive again what it has received.
//
// Choice: an entry knows the place before the first change that it stands for, and keeps
// its turn when there are more. Places are the caller's: cursors of package watch,
// positions of the simulator.
package watchbuffer

import (
	"bytes"
)

// Buffer is what waits, in the order in which it began to wait. The zero value is empty.
//
// The place before the first entry is behind all that was taken out, and before all that
// was not: entries are added in the order of places, and each is taken out whole.
type Buffer[P, V any] struct {
	entries []*Entry[P, V] // from head on
	head    int
	byKey   map[string]*Entry[P, V] // once there are many
}

// Entry is a key that has changed.
type Entry[P, V any] struct {
	Key []byte
	// Before is the place before the first change that it stands for.
	Before P
	Value  V
}

// Len is how many entries wait.
func (q *Buffer[P, V]) Len() int { return len(q.entries) - q.head }

// Clear takes all out.
func (q *Buffer[P, V]) Clear() { *q = Buffer[P, V]{} }

// minIndexedEntries is from where on a map is worth its while: most watchers wait for one key.
const minIndexedEntries = 16

// GetOrAdd returns the entry of a key, for a change behind a place. If none waits there is a new
// one.
func (q *Buffer[P, V]) GetOrAdd(key []byte, before P) *Entry[P, V] {
	e := q.find(key)
	if e != nil {
		return e
	}
	e = q.Append(key, before)
	switch {
	case q.byKey != nil:
		q.byKey[string(key)] = e
	case q.Len() > minIndexedEntries:
		q.byKey = map[string]*Entry[P, V]{}
		for _, e := range q.entries[q.head:] {
			q.byKey[string(e.Key)] = e
		}
	}
	return e
}

// Has reports whether an entry of a key waits.
func (q *Buffer[P, V]) Has(key []byte) bool { return q.find(key) != nil }

func (q *Buffer[P, V]) find(key []byte) *Entry[P, V] {
	if q.byKey != nil {
		return q.byKey[string(key)]
	}
	for _, e := range q.entries[q.head:] {
		if bytes.Equal(e.Key, key) {
			return e
		}
	}
	return nil
}

// Append adds an entry by itself, for a watcher that gets each change: then all are added
// so.
func (q *Buffer[P, V]) Append(key []byte, before P) *Entry[P, V] {
	if q.head > len(q.entries)/2 { // what was taken out is most of it
		n := copy(q.entries, q.entries[q.head:])
		clear(q.entries[n:])
		q.entries, q.head = q.entries[:n], 0
	}
	e := &Entry[P, V]{Key: key, Before: before}
	q.entries = append(q.entries, e)
	return e
}

// Pop takes the first entry out, and returns the place behind all that was: before the
// next entry, or what is behind the queue.
func (q *Buffer[P, V]) Pop(behind P) (e *Entry[P, V], after P) {
	e = q.entries[q.head]
	q.entries[q.head] = nil
	q.head++
	if delete(q.byKey, string(e.Key)); q.Len() == 0 {
		q.byKey = nil
	}
	if q.Len() > 0 {
		behind = q.entries[q.head].Before
	}
	return e, behind
}

// Cursor is a place in a feed of several stores.
type Cursor[P any] interface {
	// Covers reports whether all before the other place is before this one.
	Covers(P) bool
	// Join returns the place behind all that is before either.
	Join(P) P
}

// PlanJoin returns what a watcher has to do that has received all before at, and goes on with a source
// that has come to there: of two places each may have something before
// it that the other has not. Then it knows all before a place.
func PlanJoin[P Cursor[P]](at, there P) (known P, skip, own bool) {
	// It receives nothing twice: it passes over what is before known.
	skip = !there.Covers(at)
	// What the other has received by then it reads by itself, from at up to there.
	own = !at.Covers(there)
	return at.Join(there), skip, own
}
