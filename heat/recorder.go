package heat

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cleavekv/cleave/hash"
)

// Recorder samples the operations of one goroutine, such as an event loop of a server, for a [Meter]. To decide that
// an operation is not in the sample takes a subtraction and writes to no memory that another goroutine reads; one
// that is takes a lock for which the goroutine waits only while the meter takes what was recorded, an exchange of
// pointers.
//
//	if recorder.Sampled(heat.Cost(bytes, 0)) {
//		recorder.Record(&heat.Access{Key: key, …})
//	}
type Recorder struct {
	left   int     // cost until the next operation that is in the sample
	weight float64 // of the operation that Sampled has chosen
	rate   *sampling
	wanted int // what rate.every should be from the next operation on
	random rand.PCG
	slots  int

	base, maxSamples int // of Options

	mu      sync.Mutex
	current *Summary // guarded by mu
	samples int      // guarded by mu: operations in current
	every   int      // guarded by mu: see take
	_       [64]byte // other recorders lie in other cache lines
}

// sampling is how rarely operations are sampled: of every small ones one, which stands for the weight of its cost.
type sampling struct {
	every  int
	weight [tabledCosts]float64
}

// tabledCosts is how many weights are computed beforehand.
const tabledCosts = 64

func newSampling(every int) *sampling {
	s := &sampling{every: every}
	for cost := range s.weight {
		s.weight[cost] = weightOfCost(cost, every)
	}
	return s
}

func newRecorder(o Options, seed uint64) (*Recorder, error) {
	s, err := newSummary(o, seed)
	if err != nil {
		return nil, err
	}
	r := &Recorder{weight: 1, rate: newSampling(o.Every), wanted: o.Every, slots: o.Slots, base: o.Every, maxSamples: o.MaxSamples, current: s, every: o.Every}
	r.random.Seed(seed, recorderStream)
	r.left = r.drawGap()
	return r, nil
}

// weightOfCost is how many operations one stands for that was chosen by any of so many draws, each of which chooses
// one of every.
func weightOfCost(cost, every int) float64 {
	if every == 1 {
		return 1
	}
	return -1 / math.Expm1(float64(cost)*math.Log1p(-1/float64(every)))
}

// drawGap returns for how much cost no operation is chosen.
func (r *Recorder) drawGap() int {
	if r.rate.every == 1 {
		return 0
	}
	u := float64(r.random.Uint64()>>11+1) / (1 << 53)
	return int(math.Log(u) / math.Log1p(-1/float64(r.rate.every)))
}

// Cost is by how many times an operation is more likely to be sampled than the smallest one: few operations that move
// many bytes, or take long, are then as well known as many small ones. 0 is not known; a service time that only
// Record is given is right on average too, but that of rare slow operations less exact.
func Cost(bytes int, service time.Duration) int {
	return 1 + int(uint(bytes)/costBytes+uint(service)/costService)
}

// Sampled reports whether the next operation, of a cost of at least 1, is in the sample: then it is to be handed to
// Record.
func (r *Recorder) Sampled(cost int) bool {
	r.left -= cost
	return r.left < 0 && r.choose(cost) // so short that the compiler inlines it
}

// choose notes what the chosen operation stands for, and draws the next one.
func (r *Recorder) choose(cost int) bool {
	r.weight = r.rate.weightOf(cost) // by the rate that has chosen it
	if r.wanted != r.rate.every {
		r.rate = newSampling(r.wanted)
	}
	r.left = r.drawGap()
	return true
}

func (s *sampling) weightOf(cost int) float64 {
	if cost < len(s.weight) {
		return s.weight[cost]
	}
	return weightOfCost(cost, s.every)
}

// Weight is how many operations the one stands for that Sampled has chosen last.
func (r *Recorder) Weight() float64 { return r.weight }

// Record counts the operation for which Sampled was true.
func (r *Recorder) Record(a *Access) { r.wanted = r.record(a, r.weight) }

// record returns of how many operations one should be sampled.
func (r *Recorder) record(a *Access, weight float64) (every int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current.Add(a, weight)
	r.samples++
	return r.every
}

// SlotOf is the slot of a key by its hash, for keys that have none otherwise. 0 if the meter has no slots.
func (r *Recorder) SlotOf(h hash.Stable) uint16 {
	return uint16(h.Uint64() >> 32 * uint64(r.slots) >> 32)
}

// Observe samples an operation, for callers that have it at hand.
func (r *Recorder) Observe(a *Access) {
	if r.Sampled(Cost(a.BytesIn+a.BytesOut, a.Service)) {
		r.Record(a)
	}
}

// take returns what was recorded, and goes on with an empty summary.
func (r *Recorder) take(empty *Summary) *Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.current
	if r.maxSamples > 0 {
		r.every = nextEvery(r.every, r.base, r.samples, r.maxSamples)
	}
	r.current, r.samples = empty, 0
	return taken
}

// nextEvery returns of how many operations one is to be sampled, after so many samples: as many as make no more than most, and
// base at least. It falls slowly, so that what comes in bursts is sampled alike.
func nextEvery(every, base, samples, most int) int {
	switch {
	case samples > most:
		return min(int(math.Ceil(float64(every)*float64(samples)/float64(most))), maxEvery)
	case samples < most/4:
		return max(every/2, base)
	}
	return every
}

// bytes is how much memory the recorder takes, about.
func (r *Recorder) bytes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current.Bytes() + 8*tabledCosts
}
