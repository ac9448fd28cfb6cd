// Package delivery answers one question: which messages of a sharded queue may be handed out
// now, and in which shard is the next one put?
//
// A message has a point, one of 256, by its key. A [Bucket] is a shard of the queue during
// an epoch: it has a stretch of the points, and its messages have ascending numbers in the
// order in which they were committed. A new number of shards begins a new epoch: the buckets
// of the old one take no more messages, and one of the new is read only when all older ones
// with a point in common are empty. So messages with equal keys keep their order.
//
// Of messages with equal keys only the oldest is ever out: the next one may be handed out
// when that is gone. The package only computes: package queue carries it out on a store,
// and the simulator on groups.
package delivery

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/hash"
)

// Points is how many there are, and the most shards that a queue can have.
const Points = 256

// PointOf is that of a key.
func PointOf(key []byte) int { return int(hash.XXH3(key).Uint64() % Points) }

// Bucket is a shard during an epoch.
type Bucket struct {
	Epoch uint64
	// Index is which of so many it is.
	Index, Of int
}

// FirstPoint is the first of its points, and End the one behind the last.
func (b Bucket) FirstPoint() int { return firstPointOf(b.Index, b.Of) }

// EndPoint is the point behind its last.
func (b Bucket) EndPoint() int { return firstPointOf(b.Index+1, b.Of) }

// firstPointOf is where the points of a shard begin: rounded up, so that shard
// point*of/Points has it.
func firstPointOf(index, of int) int { return (index*Points + of - 1) / of }

// overlaps reports whether two buckets have a point in common.
func (b Bucket) overlaps(o Bucket) bool {
	return b.FirstPoint() < o.EndPoint() && o.FirstPoint() < b.EndPoint()
}

// Epoch is a time with one number of shards.
type Epoch struct {
	Number uint64
	Shards int
	// ClosedMS is when its buckets took their last messages; 0 if they still do.
	ClosedMS int64 `json:",omitempty"`
	// Left are the buckets that may have messages.
	Left []int
}

// bucketAt is the one of its shards that has a point.
func (e *Epoch) bucketAt(point int) Bucket {
	return Bucket{e.Number, point * e.Shards / Points, e.Shards}
}

// Manifest is what there is of a queue: its epochs, of which the last takes messages.
type Manifest struct {
	// Log reports whether it is of a log, whose entries stay.
	Log bool `json:",omitempty"`
	// Gone is how many entries a log has had in buckets that are drained: a reader that
	// has read fewer of them has missed some.
	Gone   uint64 `json:",omitempty"`
	Epochs []Epoch
}

// NewManifest is that of a new queue.
func NewManifest(shards int) Manifest { return Manifest{}.withEpoch(1, shards) }

func (m Manifest) withEpoch(number uint64, shards int) Manifest {
	e := Epoch{Number: number, Shards: shards}
	for i := range shards {
		e.Left = append(e.Left, i)
	}
	m.Epochs = append(slices.Clone(m.Epochs), e)
	return m
}

// OpenEpoch is the epoch that takes messages.
func (m Manifest) OpenEpoch() *Epoch { return &m.Epochs[len(m.Epochs)-1] }

// BucketFor is the bucket that takes a message with a point.
func (m Manifest) BucketFor(point int) Bucket { return m.OpenEpoch().bucketAt(point) }

// OlderBuckets are the buckets that took messages with a point before, the newest first.
func (m Manifest) OlderBuckets(point int) (list []Bucket) {
	for i := len(m.Epochs) - 2; i >= 0; i-- {
		list = append(list, m.Epochs[i].bucketAt(point))
	}
	return list
}

// OpenBuckets are those of the open epoch.
func (m Manifest) OpenBuckets() (list []Bucket) {
	e := m.OpenEpoch()
	for i := range e.Shards {
		list = append(list, Bucket{e.Number, i, e.Shards})
	}
	return list
}

// RemainingBuckets are all buckets that may have messages, the oldest first.
func (m Manifest) RemainingBuckets() (list []Bucket) {
	for _, e := range m.Epochs {
		for _, i := range e.Left {
			list = append(list, Bucket{e.Number, i, e.Shards})
		}
	}
	return list
}

// ReadyBuckets are those of which messages may be handed out now.
func (m Manifest) ReadyBuckets() (list []Bucket) {
	left := m.RemainingBuckets()
	for _, b := range left {
		if !slices.ContainsFunc(left, func(o Bucket) bool {
			return o.Epoch < b.Epoch && o.overlaps(b)
		}) {
			list = append(list, b)
		}
	}
	return list
}

// WithShards is the manifest with another number of shards.
func (m Manifest) WithShards(shards int, nowMS int64) Manifest {
	next := m.withEpoch(m.OpenEpoch().Number+1, shards)
	next.Epochs[len(next.Epochs)-2].ClosedMS = max(nowMS, 1)
	return next
}

// WithoutBucket is the manifest without a bucket that is closed and empty.
func (m Manifest) WithoutBucket(b Bucket) Manifest {
	m.Epochs = slices.Clone(m.Epochs)
	for i, e := range m.Epochs {
		if e.Number == b.Epoch && e.ClosedMS != 0 {
			m.Epochs[i].Left = slices.DeleteFunc(slices.Clone(e.Left), func(n int) bool { return n == b.Index })
		}
	}
	return m
}

// WithoutClosedEpochs is the manifest without epochs that are empty and were closed before a
// time: the ids that were published in them are no longer asked for.
func (m Manifest) WithoutClosedEpochs(beforeMS int64) Manifest {
	m.Epochs = slices.DeleteFunc(slices.Clone(m.Epochs), func(e Epoch) bool {
		return e.ClosedMS != 0 && e.ClosedMS < beforeMS && len(e.Left) == 0
	})
	return m
}

// ErrBadManifest means that a row holds no manifest.
var ErrBadManifest = errors.New("delivery: not a manifest")

// Encode is the value of its row.
func (m Manifest) Encode() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // numbers can be written
	}
	return b
}

// ParseManifest reads what Encode made.
func ParseManifest(b []byte) (m Manifest, err error) {
	if err := json.Unmarshal(b, &m); err != nil || !m.isValid() {
		return Manifest{}, fmt.Errorf("%w: %.60q", ErrBadManifest, b)
	}
	return m, nil
}

func (m Manifest) isValid() bool {
	last := uint64(0)
	for i, e := range m.Epochs {
		open := i == len(m.Epochs)-1
		if e.Number <= last || e.Shards < 1 || e.Shards > Points || open != (e.ClosedMS == 0) || open && len(e.Left) != e.Shards {
			return false
		}
		last = e.Number
		for j, n := range e.Left {
			if n < 0 || n >= e.Shards || j > 0 && n <= e.Left[j-1] {
				return false
			}
		}
	}
	return len(m.Epochs) > 0
}
