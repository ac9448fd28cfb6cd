package lanes

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/cleavekv/cleave/hash"
	"github.com/cleavekv/cleave/internal/plant"
)

// Points is how many there are, and the most shards that a queue can have.
const Points = 256

// Point is that of a key.
func Point(key []byte) int { return int(hash.XXH3(key).Uint64() % Points) }

// Bucket is a shard during an epoch.
type Bucket struct {
	Epoch uint64
	// Index is which of so many it is.
	Index, Of int
}

// First is the first of its points, and End the one behind the last.
func (b Bucket) First() int { return first(b.Index, b.Of) }

// End is the point behind its last.
func (b Bucket) End() int { return first(b.Index+1, b.Of) }

// first is where the points of a shard begin: rounded up, so that shard
// point*of/Points has it.
func first(index, of int) int { return (index*Points + of - 1) / of }

// overlaps tells whether two buckets have a point in common.
func (b Bucket) overlaps(o Bucket) bool { return b.First() < o.End() && o.First() < b.End() }

// Epoch is a time with one number of shards.
type Epoch struct {
	Number uint64
	Shards int
	// ClosedMS is when its buckets took their last messages; 0 if they still do.
	ClosedMS int64 `json:",omitempty"`
	// Left are the buckets that may have messages.
	Left []int
}

// bucket is the one of its shards that has a point.
func (e *Epoch) bucket(point int) Bucket {
	return Bucket{e.Number, point * e.Shards / Points, e.Shards}
}

// Manifest is what there is of a queue: its epochs, of which the last takes messages.
type Manifest struct {
	// Log tells that it is of a log, whose entries stay.
	Log bool `json:",omitempty"`
	// Gone is how many entries a log has had in buckets that are drained: a reader that
	// has read fewer of them has missed some.
	Gone   uint64 `json:",omitempty"`
	Epochs []Epoch
}

// NewManifest is that of a new queue.
func NewManifest(shards int) Manifest { return Manifest{}.append(1, shards) }

func (m Manifest) append(number uint64, shards int) Manifest {
	e := Epoch{Number: number, Shards: shards}
	for i := range shards {
		e.Left = append(e.Left, i)
	}
	m.Epochs = append(slices.Clone(m.Epochs), e)
	return m
}

// Open is the epoch that takes messages.
func (m Manifest) Open() *Epoch { return &m.Epochs[len(m.Epochs)-1] }

// For is the bucket that takes a message with a point.
func (m Manifest) For(point int) Bucket { return m.Open().bucket(point) }

// Before are the buckets that took messages with a point before, the newest first.
func (m Manifest) Before(point int) (list []Bucket) {
	for i := len(m.Epochs) - 2; i >= 0; i-- {
		list = append(list, m.Epochs[i].bucket(point))
	}
	return list
}

// Buckets are those of the open epoch.
func (m Manifest) Buckets() (list []Bucket) {
	e := m.Open()
	for i := range e.Shards {
		list = append(list, Bucket{e.Number, i, e.Shards})
	}
	return list
}

// Left are all buckets that may have messages, the oldest first.
func (m Manifest) Left() (list []Bucket) {
	for _, e := range m.Epochs {
		for _, i := range e.Left {
			list = append(list, Bucket{e.Number, i, e.Shards})
		}
	}
	return list
}

// Ready are those of which messages may be handed out now.
func (m Manifest) Ready() (list []Bucket) {
	left := m.Left()
	for _, b := range left {
		if !slices.ContainsFunc(left, func(o Bucket) bool {
			return o.Epoch < b.Epoch && o.overlaps(b) && !plant.Bug("queue-new-epoch-first")
		}) {
			list = append(list, b)
		}
	}
	return list
}

// Resized is the manifest with another number of shards.
func (m Manifest) Resized(shards int, nowMS int64) Manifest {
	next := m.append(m.Open().Number+1, shards)
	next.Epochs[len(next.Epochs)-2].ClosedMS = max(nowMS, 1)
	return next
}

// Drained is the manifest without a bucket that is closed and empty.
func (m Manifest) Drained(b Bucket) Manifest {
	m.Epochs = slices.Clone(m.Epochs)
	for i, e := range m.Epochs {
		if e.Number == b.Epoch && e.ClosedMS != 0 {
			m.Epochs[i].Left = slices.DeleteFunc(slices.Clone(e.Left), func(n int) bool { return n == b.Index })
		}
	}
	return m
}

// Forgotten is the manifest without epochs that are empty and were closed before a
// time: nobody asks any more what was put there.
func (m Manifest) Forgotten(beforeMS int64) Manifest {
	m.Epochs = slices.DeleteFunc(slices.Clone(m.Epochs), func(e Epoch) bool {
		return e.ClosedMS != 0 && e.ClosedMS < beforeMS && len(e.Left) == 0
	})
	return m
}

// ErrManifest means that a row holds no manifest.
var ErrManifest = errors.New("lanes: not a manifest")

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
	if err := json.Unmarshal(b, &m); err != nil || !m.valid() {
		return Manifest{}, fmt.Errorf("%w: %.60q", ErrManifest, b)
	}
	return m, nil
}

func (m Manifest) valid() bool {
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
