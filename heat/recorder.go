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
	every  int
	weigh  []float64 // by cost, of small ones
	random rand.PCG
	slots  int

	mu      sync.Mutex
	current *Summary // guarded by mu
	_       [64]byte // other recorders lie in other cache lines
}

// tabledCosts is how many weights are computed beforehand.
const tabledCosts = 64

func newRecorder(o Options, seed uint64) (*Recorder, error) {
	s, err := newSummary(o, seed)
	if err != nil {
		return nil, err
	}
	r := &Recorder{every: o.Every, weight: 1, weigh: make([]float64, tabledCosts), slots: o.Slots, current: s}
	r.random.Seed(seed, recorderStream)
	for cost := range r.weigh {
		r.weigh[cost] = weightOfCost(cost, o.Every)
	}
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
	if r.every == 1 {
		return 0
	}
	u := float64(r.random.Uint64()>>11+1) / (1 << 53)
	return int(math.Log(u) / math.Log1p(-1/float64(r.every)))
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
	r.weight = r.weightOf(cost)
	r.left = r.drawGap()
	return true
}

func (r *Recorder) weightOf(cost int) float64 {
	if cost < len(r.weigh) {
		return r.weigh[cost]
	}
	return weightOfCost(cost, r.every)
}

// Weight is how many operations the one stands for that Sampled has chosen last.
func (r *Recorder) Weight() float64 { return r.weight }

// Record counts the operation for which Sampled was true.
func (r *Recorder) Record(a *Access) { r.record(a, r.weight) }

func (r *Recorder) record(a *Access, weight float64) {
	r.mu.Lock()
	r.current.Add(a, weight)
	r.mu.Unlock()
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
	r.current = empty
	return taken
}

// bytes is how much memory the recorder takes, about.
func (r *Recorder) bytes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current.Bytes() + 8*len(r.weigh)
}
