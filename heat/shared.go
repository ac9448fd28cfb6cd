package heat

import (
	"fmt"
	"math"
	"sync/atomic"

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
	rate      atomic.Pointer[sharedSampling]
}

// sharedSampling has, by cost, up to which random number an operation is in the sample.
type sharedSampling struct {
	*sampling
	chances [tabledCosts]uint64
}

func newSharedSampling(every int) *sharedSampling {
	s := &sharedSampling{sampling: newSampling(every)}
	for cost := range s.chances {
		s.chances[cost] = chanceOfWeight(s.weightOf(cost))
	}
	return s
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
	s.rate.Store(newSharedSampling(m.o.Every))
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
	rate := s.rate.Load()
	if cost < tabledCosts {
		if s.random() > rate.chances[cost] {
			return 0
		}
		return rate.weight[cost]
	}
	weight = rate.weightOf(cost)
	if s.random() > chanceOfWeight(weight) {
		return 0
	}
	return weight
}

// Record counts an operation with the weight that Sampled has returned.
func (s *SharedRecorder) Record(a *Access, weight float64) {
	i := s.random() % uint64(len(s.recorders))
	every := s.recorders[i].record(a, weight)
	if i == 0 && every != s.rate.Load().every { // they have about the same load
		s.rate.Store(newSharedSampling(every))
	}
}

// SlotOf is the slot of a key by its hash: see [Recorder.SlotOf].
func (s *SharedRecorder) SlotOf(h hash.Stable) uint16 { return s.recorders[0].SlotOf(h) }

// Release forgets the recorder, after what it still has is counted. It must not be used again.
func (s *SharedRecorder) Release(m *Meter) {
	for _, r := range s.recorders {
		m.Release(r)
	}
}
