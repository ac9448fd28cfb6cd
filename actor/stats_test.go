package actor_test

import (
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/actor"
)

// manualClock is a clock that tests move by hand.
type manualClock struct {
	mu  sync.Mutex
	now time.Duration
}

func (c *manualClock) readTime() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *manualClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d
}

func TestLatencyIsWhatTheClockSaw(t *testing.T) {
	inBubble(t, func(t *testing.T, mode actor.Mode) {
		clock := &manualClock{now: time.Hour}
		a := newBatchWorker(t, actor.Options{Mode: mode, SampleEvery: 1, Now: clock.readTime})
		release := occupyActor(t, a)
		if err := a.Post(t.Context(), job{run: func() { clock.advance(3 * time.Millisecond) }}); err != nil {
			t.Fatal(err)
		}
		clock.advance(time.Second)
		release()
		stopAndRead(t, a)
		st := a.Stats()
		if w := st.QueueWait; w.Count() != 2 || w.MaxNS != uint64(time.Second) {
			t.Errorf("waits: %d, longest %v", w.Count(), time.Duration(w.MaxNS))
		}
		if s := st.Service; s.Count() != 2 || s.SumNS != uint64(time.Second+3*time.Millisecond) || s.Mean() != (time.Second+3*time.Millisecond)/2 {
			t.Errorf("service: %d, sum %v", s.Count(), time.Duration(s.SumNS))
		}
	})
}

func TestSamplingMeasuresOneInSo(t *testing.T) {
	bothModes(t, func(t *testing.T, mode actor.Mode) {
		for every, want := range map[int]uint64{1: 100, 10: 10, -1: 0} {
			a := newWorker(t, actor.Options{Mode: mode, SampleEvery: every})
			for range 100 {
				if _, err := a.Call(t.Context(), job{}); err != nil {
					t.Fatal(err)
				}
			}
			stopAndRead(t, a)
			if st := a.Stats(); st.Service.Count() != want || st.QueueWait.Count() != want || st.Handled != 100 || st.Batches != 100 {
				t.Errorf("every %d: %d, %d samples of %d", every, st.Service.Count(), st.QueueWait.Count(), st.Handled)
			}
		}
	})
}

func TestAClockThatGoesBackCountsAsNoTime(t *testing.T) {
	bothModes(t, func(t *testing.T, mode actor.Mode) {
		clock := new(manualClock)
		a := newWorker(t, actor.Options{Mode: mode, SampleEvery: 1, Now: func() time.Duration {
			clock.advance(-time.Hour)
			return clock.readTime()
		}})
		for range 3 {
			if _, err := a.Call(t.Context(), job{}); err != nil {
				t.Fatal(err)
			}
		}
		stopAndRead(t, a)
		st := a.Stats()
		for _, h := range []actor.Histogram{st.QueueWait, st.Service} {
			if h.Count() != 3 || h.SumNS != 0 || h.MaxNS != 0 {
				t.Errorf("%+v", h)
			}
		}
	})
}

func TestAQuantileIsAnUpperBoundWithinAFactorOfTwo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, int64(time.Hour/4)), 1, 200).Draw(t, "ns")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		h := actor.HistogramOf(values)
		slices.Sort(values)
		exact := values[int(q*float64(len(values)-1))]
		got := int64(h.Quantile(q))
		if largest := values[len(values)-1]; got < exact || got > largest || exact > 0 && got >= 2*exact {
			t.Fatalf("quantile %v of %v: %d, exact %d", q, values, got, exact)
		}
		if h.Count() != uint64(len(values)) {
			t.Fatalf("%d samples of %d", h.Count(), len(values))
		}
		var sum actor.Histogram
		sum.Add(h)
		sum.Add(h)
		if sum.Count() != 2*h.Count() || sum.MaxNS != h.MaxNS || sum.SumNS != 2*h.SumNS {
			t.Fatalf("sum %+v", sum)
		}
	})
}

func TestAnEmptyHistogramIsAllZero(t *testing.T) {
	var h actor.Histogram
	if h.Count() != 0 || h.Mean() != 0 || h.Quantile(0.99) != 0 || h.Quantile(math.NaN()) != 0 {
		t.Errorf("%+v", h)
	}
}

func TestBadOptionsAreReportedAllAtOnce(t *testing.T) {
	_, err := actor.New(0, actor.Handler[int, int, int]{}, actor.Options{Mode: 9, Full: 9, AfterPanic: 9, Capacity: -1, MaxBatch: -1})
	if joined, ok := err.(interface{ Unwrap() []error }); !ok || len(joined.Unwrap()) != 2 || !errors.Is(err, actor.ErrOptions) {
		t.Errorf("%v", err)
	}
	for name, err := range map[string]error{
		"nil each":  errOf(actor.New(0, actor.Each[int, int, int](nil), actor.Options{})),
		"nil batch": errOf(actor.New(0, actor.Batch[int, int, int](nil), actor.Options{})),
		"no shards": errOf(actor.NewFleet(0, func(int) int { return 0 }, actor.Each(addDelta), actor.Options{})),
		"no states": errOf(actor.NewFleet(1, nil, actor.Each(addDelta), actor.Options{})),
	} {
		if !errors.Is(err, actor.ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMissingFunctionsAreRefused(t *testing.T) {
	a := newWorker(t, actor.Options{})
	ctx := t.Context()
	for _, err := range []error{
		a.Do(ctx, nil),
		actor.DoAll(ctx, []*worker{a}, nil),
	} {
		if !errors.Is(err, actor.ErrOptions) {
			t.Error(err)
		}
	}
	if _, err := a.Call(ctx, job{}); err != nil {
		t.Error(err)
	}
}

func errOf[T any](_ T, err error) error { return err }
