package drive

import (
	"bytes"
	"container/heap"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/cleavekv/cleave/internal/mover"
	"github.com/cleavekv/cleave/internal/own"
)

// touchedKeys is how many rows are compared while a range takes no writes. A store
// finds that many in a few milliseconds.
const touchedKeys = 2048

// touched remembers which rows of a range were brought to a destination since both
// sides were found to have the same, so that they can be compared again before the
// range changes hands. Of more than a few thousand it remembers a sample, in which
// each is as likely to be as any other.
//
// It is the memory of one driver of one job. Where it is lost, the log tells.
type touched struct {
	job     own.Job
	attempt uint64
	// since and upto are the places in the log between which all rows were seen.
	since, upto uint64
	// keys are those with the smallest hashes, the largest of them first: which rows
	// these are does not depend on how often one is written.
	keys sample
	has  map[uint64]bool
}

// begin forgets all: both sides are the same at a place.
func (t *touched) begin(x mover.Verify, place uint64) {
	*t = touched{job: x.Job, attempt: x.Attempt, since: place, upto: place, has: map[uint64]bool{}}
}

// follow sees what was read of the log.
func (t *touched) follow(l *Load) {
	if t.since == 0 || len(l.ingests) == 0 || l.ingests[0].After > t.upto {
		return
	}
	for i := range l.ingests {
		c := &l.ingests[i]
		for _, op := range c.Rows.All() {
			t.see(op.Key)
		}
		t.upto = max(t.upto, c.Upto)
	}
}

func (t *touched) see(key []byte) {
	h := xxh3.HashSeed(key, uint64(t.job))
	if len(t.keys) == touchedKeys && h >= t.keys[0].hash || t.has[h] {
		return
	}
	if len(t.keys) == touchedKeys {
		delete(t.has, t.keys[0].hash)
		heap.Pop(&t.keys)
	}
	heap.Push(&t.keys, touchedKey{h, bytes.Clone(key)})
	t.has[h] = true
}

// covers tells whether all rows were seen that a Verify at a place is about.
func (t *touched) covers(x mover.Verify, place uint64) bool {
	return t.job == x.Job && t.attempt == x.Attempt && t.since == x.Since && t.upto >= place
}

func (t *touched) sorted() [][]byte {
	var keys [][]byte
	for _, k := range t.keys {
		keys = append(keys, k.key)
	}
	slices.SortFunc(keys, bytes.Compare)
	return keys
}

// touchedKey is a store key.
type touchedKey struct {
	hash uint64
	key  []byte
}

// sample is a heap with the largest hash on top.
type sample []touchedKey

func (s sample) Len() int           { return len(s) }
func (s sample) Less(i, j int) bool { return s[i].hash > s[j].hash }
func (s sample) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *sample) Push(x any)        { *s = append(*s, x.(touchedKey)) }
func (s *sample) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	*s = (*s)[:last]
	return x
}
