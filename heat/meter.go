package heat

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Options configure a [Meter]. The zero value works.
type Options struct {
	// Every is of how many small operations one is sampled. Default 128, which is about 2 % of the time of a read
	// from memory; 1 is all of them. At most 2^20.
	Every int
	// MaxSamples is about how many operations a recorder samples between two Collects at most: if there are more, it samples
	// fewer of them from then on, and each stands for more. Default 1024, which takes less than a hundredth of a processor
	// where Collect is called once a second; with an Every of 1 there is no such limit unless it is given.
	MaxSamples int
	// TopKeys is how many keys are tracked for each measure, by each recorder and by the meter. Default 512. See
	// NewTopKeys.
	TopKeys int
	// Ranges is how many operations the sample of ranges has. Default 2048: the share of a half is then off by about
	// 1 %. See NewRanges.
	Ranges int
	// Slots is how many slots there are. Default none: then there is no entropy.
	Slots int
	// HalfLife is after how long an operation counts half. Default a minute.
	HalfLife time.Duration
	// Map, if set, is given what recorders have sampled, whenever it is collected.
	Map *Map
	// Seed is that of all random numbers. In a process of many, give each another one.
	Seed uint64
}

func (o Options) withDefaults() (Options, error) {
	o.Every, o.TopKeys, o.Ranges = cmp.Or(o.Every, 128), cmp.Or(o.TopKeys, 512), cmp.Or(o.Ranges, 2048)
	o.HalfLife = cmp.Or(o.HalfLife, time.Minute)
	if o.MaxSamples == 0 && o.Every > 1 {
		o.MaxSamples = 1024
	}
	var errs []error
	if o.MaxSamples < 0 {
		errs = append(errs, fmt.Errorf("%w: MaxSamples is %d: use a positive number, or 0 for the default", ErrOptions, o.MaxSamples))
	}
	if o.Every < 1 || o.Every > maxEvery {
		errs = append(errs, fmt.Errorf("%w: Every is %d: use 1 to %d", ErrOptions, o.Every, maxEvery))
	}
	if o.HalfLife <= 0 {
		errs = append(errs, fmt.Errorf("%w: HalfLife is %v: use a positive time", ErrOptions, o.HalfLife))
	}
	if o.Slots < 0 {
		errs = append(errs, fmt.Errorf("%w: Slots is %d: use 0 for none, or 2 to %d", ErrOptions, o.Slots, maxSlots))
	}
	return o, errors.Join(errs...)
}

// Meter adds up what recorders have sampled, and answers what is hot at the moment. Its methods may be called by any
// goroutine.
type Meter struct {
	o Options

	mu        sync.Mutex
	recorders []*Recorder
	seed      uint64   // of the next recorder
	spare     *Summary // empty, for the next recorder that is taken from
	newest    *Ranges  // what the last Collect has added
	total     *Summary // as of at, older operations weigh less
	at        time.Duration
	started   bool
	// window is the integral of the weights since the first Collect, in seconds: a count by it is a rate.
	window float64
}

// NewMeter returns a meter without recorders.
func NewMeter(o Options) (*Meter, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &Meter{o: o, seed: o.Seed + 2}
	if m.total, err = newSummary(o, o.Seed); err != nil {
		return nil, err
	}
	if m.newest, err = NewRanges(o.Ranges, o.Seed); err != nil {
		return nil, err
	}
	m.spare, err = newSummary(o, o.Seed+1)
	return m, err
}

// NewRecorder returns a recorder of the meter for one goroutine.
func (m *Meter) NewRecorder() *Recorder {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := newRecorder(m.o, m.seed)
	if err != nil {
		panic(err) // NewMeter has checked the options
	}
	m.seed++
	m.recorders = append(m.recorders, r)
	return r
}

// Release counts what a recorder still has, and forgets it. Its goroutine must not use it again.
func (m *Meter) Release(r *Recorder) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.Index(m.recorders, r); i >= 0 {
		m.collectFrom(r)
		m.recorders = slices.Delete(m.recorders, i, i+1)
	}
}

// Collect adds up what was recorded up to a time since any beginning. Call it about once a second. A time before the
// last counts as that.
func (m *Meter) Collect(at time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if passed := at - m.at; m.started && passed > 0 {
		factor := math.Exp2(-float64(passed) / float64(m.o.HalfLife))
		m.total.Scale(max(factor, math.SmallestNonzeroFloat32))
		// What comes now is about half an interval old; the next one counts that.
		m.window = m.window*factor + m.o.HalfLife.Seconds()/math.Ln2*weightOf(passed, m.o.HalfLife)
	}
	if !m.started || at > m.at {
		m.at, m.started = at, true
	}
	m.newest.Reset()
	for _, r := range m.recorders {
		m.collectFrom(r)
	}
}

// Newest returns a copy of what the last [Meter.Collect] has added, the operations of its interval, and when that was: a
// caller that comes more often sees the same again.
func (m *Meter) Newest() (newest *Ranges, at time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := *m.newest
	c.entries, c.keyBytes, c.random = nil, 0, rand.NewPCG(m.o.Seed, rangesStream)
	for i := range m.newest.entries {
		c.keep(&m.newest.entries[i])
	}
	return &c, m.at
}

// Cuts returns places to cut a range: see [Ranges.Cuts].
func (m *Meter) Cuts(start, end []byte, n int) (cuts []Cut, samples int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total.ranges.Cuts(start, end, n)
}

// collectFrom adds what one recorder has.
// REQUIRES: m.mu held.
func (m *Meter) collectFrom(r *Recorder) {
	taken := r.take(m.spare)
	m.total.merge(taken)
	m.newest.Merge(taken.ranges)
	if m.o.Map != nil {
		m.o.Map.Record(m.at, taken.ranges)
	}
	taken.Reset()
	m.spare = taken
}

// Top returns the n keys with the highest counts by a measure, the highest first, and the count of all keys together.
// By [Meter.Window] they are rates.
func (m *Meter) Top(by Measure, n int) (keys []HotKey, total float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.total.top[by]
	return t.Top(n), t.Total()
}

// TopIn is Top for the keys from start up to end, which is not included; nil is the end of all keys. A key of the
// range with less than the table's floor may be missing: see [TopKeys.Floor].
func (m *Meter) TopIn(by Measure, start, end []byte, n int) []HotKey {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total.top[by].TopIn(start, end, n)
}

// Window is the time that counts are of, as if all in it counted alike: a count by it is what there is in that time.
func (m *Meter) Window() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Duration(m.window * float64(time.Second))
}

// Split returns ways to cut a range: see [Ranges.Split]. The functions of the options must not ask the meter.
func (m *Meter) Split(o SplitOptions) ([]Split, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total.ranges.Split(o)
}

// Load estimates the load of a range: see [Ranges.Load].
func (m *Meter) Load(start, end []byte) RangeLoad {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total.ranges.Load(start, end)
}

// Loads estimates the loads of all ranges between boundaries, such as those of shards: see [Ranges.Loads].
func (m *Meter) Loads(bounds [][]byte) []RangeLoad {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total.ranges.Loads(bounds)
}

// Spread returns how evenly operations fall on slots. There is none if Options.Slots is 0.
func (m *Meter) Spread() Spread {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.total.slots == nil {
		return Spread{}
	}
	return m.total.slots.Spread()
}

// Summary returns a copy of all that is known, to be merged with those of other meters.
func (m *Meter) Summary() *Summary {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := newSummary(m.o, m.seed)
	if err != nil {
		panic(err) // NewMeter has checked the options
	}
	m.seed++
	s.merge(m.total)
	return s
}

// Bytes is how much memory the meter and its recorders take, about.
func (m *Meter) Bytes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.total.Bytes() + m.spare.Bytes() + m.newest.Bytes()
	for _, r := range m.recorders {
		n += r.bytes()
	}
	return n
}
