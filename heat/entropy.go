package heat

import (
	"fmt"
	"math"
	"time"
)

// SlotCounts counts operations by the slot of their key. It belongs to one goroutine at a time.
type SlotCounts struct {
	counts []float32
	total  float64
	// samples is how many operations were handed in. It is less than total if they are sampled.
	samples float64
}

// NewSlotCounts returns counts of so many slots, 2 to 65536.
func NewSlotCounts(slots int) (*SlotCounts, error) {
	if slots < 2 || slots > maxSlots {
		return nil, fmt.Errorf("%w: %d slots: use 2 to %d", ErrOptions, slots, maxSlots)
	}
	return &SlotCounts{counts: make([]float32, slots)}, nil
}

// Add counts an operation that stands for so many. A slot that does not exist is left out.
func (s *SlotCounts) Add(slot uint16, weight float64) {
	if int(slot) < len(s.counts) && weight > 0 {
		s.counts[slot] += float32(weight)
		s.total += weight
		s.samples++
	}
}

// Merge adds what another has counted of as many slots. It panics if they are not as many.
func (s *SlotCounts) Merge(o *SlotCounts) {
	if len(s.counts) != len(o.counts) {
		panic(fmt.Sprintf("heat: counts of %d slots are merged into those of %d", len(o.counts), len(s.counts)))
	}
	for i, n := range o.counts {
		s.counts[i] += n
	}
	s.total += o.total
	s.samples += o.samples
}

// Scale multiplies all counts by a factor from 0 to 1.
func (s *SlotCounts) Scale(factor float64) {
	for i := range s.counts {
		s.counts[i] *= float32(factor)
	}
	s.total *= factor
	s.samples *= factor
}

// Reset forgets all operations.
func (s *SlotCounts) Reset() {
	clear(s.counts)
	s.total, s.samples = 0, 0
}

// Bytes is how much memory the counts take.
func (s *SlotCounts) Bytes() int { return 4 * cap(s.counts) }

// Spread is how evenly operations fall on slots.
type Spread struct {
	// Entropy is that of the distribution in bits, and Max what it would be if all slots were asked alike.
	Entropy, Max float64
	// Evenness is how much of Max there is: 1 is even, 0 is one slot.
	Evenness float64
	// Samples is how many operations are known. With fewer than slots the distribution is not.
	Samples float64
	// TopSlot is the slot that is asked the most, and TopShare its part of all operations.
	TopSlot  int
	TopShare float64
}

// Spread returns how even the slots are.
//
// The entropy of a sample is less than that of what it is from, because slots that were seen by chance more often look
// hotter: by (used slots - 1) / (2 * samples) nats for many samples, as Miller and Madow have found. That is added.
func (s *SlotCounts) Spread() Spread {
	r := Spread{Max: math.Log2(float64(len(s.counts))), Samples: s.samples}
	if s.total <= 0 {
		return r
	}
	used, nats := 0, 0.0
	for slot, n := range s.counts {
		if n <= 0 {
			continue
		}
		used++
		share := float64(n) / s.total
		nats -= share * math.Log(share)
		if share > r.TopShare {
			r.TopSlot, r.TopShare = slot, share
		}
	}
	nats += float64(used-1) / (2 * max(s.samples, 1))
	r.Entropy = min(nats/math.Ln2, r.Max)
	r.Evenness = max(r.Entropy, 0) / r.Max
	return r
}

// AlarmOptions say when a distribution has become too uneven. The zero value works.
type AlarmOptions struct {
	// Drop is by how much evenness must be below what it usually is. Default 0.1: of 16384 slots 1.4 bits, which is
	// traffic that leaves more than half of them.
	Drop float64
	// Floor is the evenness below which there is an alarm whatever is usual. Default 0.5.
	Floor float64
	// MinSamples is how many operations a window must have to be judged. Default 1000.
	MinSamples float64
	// HalfLife is that of what is usual. Default an hour.
	HalfLife time.Duration
}

// Alarm reports when the evenness of a distribution drops. It is given one window after the other, and is a pure state
// machine.
type Alarm struct {
	o     AlarmOptions
	usual float64
	known time.Duration // for how long usual is known
	on    bool
}

// NewAlarm returns an alarm that is off and knows nothing yet.
func NewAlarm(o AlarmOptions) (*Alarm, error) {
	setDefault(&o.Drop, 0.1)
	setDefault(&o.Floor, 0.5)
	setDefault(&o.MinSamples, 1000)
	setDefault(&o.HalfLife, time.Hour)
	if !(o.Drop > 0 && o.Drop < 1) || !(o.Floor > 0 && o.Floor < 1) || !(o.MinSamples >= 1) || o.HalfLife <= 0 {
		return nil, fmt.Errorf("%w: an alarm at %+v: use shares between 0 and 1, a sample or more and a positive time", ErrOptions, o)
	}
	return &Alarm{o: o}, nil
}

func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

// AlarmChange is what a window has changed.
type AlarmChange uint8

const (
	// AlarmSame means that nothing has changed.
	AlarmSame AlarmChange = iota
	// AlarmRaised means that the distribution has become too uneven in this window.
	AlarmRaised
	// AlarmCleared means that it is as usual again.
	AlarmCleared
)

// Step judges the spread of a window of some length. An alarm that is on is cleared when half of the drop is made
// good, so that it does not flicker; while it is on, what is usual is learnt at an eighth of the speed, so that a
// change which lasts becomes usual in the end.
func (a *Alarm) Step(s Spread, window time.Duration) AlarmChange {
	if s.Samples < a.o.MinSamples || window <= 0 {
		return AlarmSame
	}
	if a.known == 0 {
		a.usual = s.Evenness
	}
	change := AlarmSame
	switch low := a.usual - a.o.Drop; {
	case !a.on && (s.Evenness < low || s.Evenness < a.o.Floor):
		a.on, change = true, AlarmRaised
	case a.on && s.Evenness >= low+a.o.Drop/2 && s.Evenness >= a.o.Floor:
		a.on, change = false, AlarmCleared
	}
	learn := weightOf(window, a.o.HalfLife)
	if a.known < a.o.HalfLife && !a.on {
		learn = max(learn, float64(window)/float64(a.known+window)) // the mean, at the beginning
	}
	if a.on {
		learn /= 8
	}
	a.known += window
	a.usual += learn * (s.Evenness - a.usual)
	return change
}

// On reports whether the alarm is on.
func (a *Alarm) On() bool { return a.on }

// Usual is the evenness that windows have had lately.
func (a *Alarm) Usual() float64 { return a.usual }
