package heat

import (
	"fmt"
	"math"

	"github.com/cleavekv/cleave/hash"
)

// SharedRecorder samples the operations of goroutines that have no [Recorder] of their own. To decide that an
// operation is not in the sample takes a random number; one that is takes the lock of one of a few recorders.
//
//	if weight := shared.Sampled(heat.Cost(bytes, took)); weight > 0 {
//		shared.Record(&heat.Access{Key: key, …}, weight)
//	}
//
// Its methods may be called by any goroutine.
type SharedRecorder struct {
	recorders []*Recorder
	random    func() uint64
	chances   [tabledCosts]uint64 // by cost: up to which random number an operation is in the sample
}

// NewSharedRecorder returns a recorder for many goroutines that takes the memory of so many recorders, 1 to 64: about
// as many as there are processors. Random returns uniform numbers and is safe for concurrent use; rand.Uint64 of
// math/rand/v2 is such a function.
func (m *Meter) NewSharedRecorder(recorders int, random func() uint64) (*SharedRecorder, error) {
	if recorders < 1 || recorders > maxShared || random == nil {
		return nil, fmt.Errorf("%w: a shared recorder of %d, with random numbers: %t: use 1 to %d, and a source", ErrOptions, recorders, random != nil, maxShared)
	}
	s := &SharedRecorder{random: random}
	for range recorders {
		s.recorders = append(s.recorders, m.NewRecorder())
	}
	for cost := range s.chances {
		s.chances[cost] = chanceOfWeight(s.recorders[0].weightOf(cost))
	}
	return s, nil
}

// chanceOfWeight is up to which of all random numbers an operation is chosen that stands for so many.
func chanceOfWeight(weight float64) uint64 {
	if weight <= 1 {
		return math.MaxUint64
	}
	return uint64(math.MaxUint64 / weight)
}

// Sampled returns how many operations the next one stands for, of a cost of at least 1; 0 if it is not in the sample.
func (s *SharedRecorder) Sampled(cost int) (weight float64) {
	if cost < tabledCosts {
		if s.random() > s.chances[cost] {
			return 0
		}
		return s.recorders[0].weigh[cost]
	}
	weight = s.recorders[0].weightOf(cost)
	if s.random() > chanceOfWeight(weight) {
		return 0
	}
	return weight
}

// Record counts an operation with the weight that Sampled has returned.
func (s *SharedRecorder) Record(a *Access, weight float64) {
	s.recorders[s.random()%uint64(len(s.recorders))].record(a, weight)
}

// SlotOf is the slot of a key by its hash: see [Recorder.SlotOf].
func (s *SharedRecorder) SlotOf(h hash.Stable) uint16 { return s.recorders[0].SlotOf(h) }

// Release forgets the recorder, after what it still has is counted. It must not be used again.
func (s *SharedRecorder) Release(m *Meter) {
	for _, r := range s.recorders {
		m.Release(r)
	}
}
