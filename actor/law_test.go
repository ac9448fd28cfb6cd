package actor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cleavekv/cleave/actor"
)

// soak is how much more the random tests do under CLEAVE_SOAK.
func soak(n int) int {
	if os.Getenv("CLEAVE_SOAK") != "" {
		return n * 50
	}
	if testing.Short() {
		return n / 4
	}
	return n
}

// seeded returns a source whose seed is printed if the test fails. Set
// CLEAVE_SEED to run with a given one.
func seeded(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	if s := os.Getenv("CLEAVE_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("replay with CLEAVE_SEED=%d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// letter is a message that says who sent it and as which of its own.
type letter struct{ from, number int }

// desk is a state without any protection: the race detector watches it.
type desk struct {
	last     map[int]int // per sender
	seen     map[letter]int
	inside   int
	disorder string
}

func (d *desk) take(m letter) int {
	d.inside++
	if d.inside != 1 {
		d.disorder = "two in the handler"
	}
	if prev, ok := d.last[m.from]; ok && m.number <= prev {
		d.disorder = fmt.Sprintf("sender %d: %d after %d", m.from, m.number, prev)
	}
	d.last[m.from] = m.number
	d.seen[m]++
	d.inside--
	return m.number
}

func newDesk() desk { return desk{last: map[int]int{}, seen: map[letter]int{}} }

// handlers gives the same handler in its two forms.
func handlers() map[string]actor.Handler[desk, letter, int] {
	return map[string]actor.Handler[desk, letter, int]{
		"each": actor.Each((*desk).take),
		"batch": actor.Batch(func(d *desk, ms []letter, rs []int) {
			for i, m := range ms {
				rs[i] = d.take(m)
			}
		}),
	}
}

// everyWay runs f for all combinations that matter.
func everyWay(t *testing.T, f func(t *testing.T, h actor.Handler[desk, letter, int], o actor.Options)) {
	for form, h := range handlers() {
		for _, mode := range []actor.Mode{actor.Combining, actor.Owner} {
			for _, o := range []actor.Options{
				{Capacity: 1, MaxBatch: 1},
				{Capacity: 7, MaxBatch: 3, Turns: -1, Full: actor.Refuse},
				{Capacity: 50, MaxBatch: 20, Turns: -1, Gather: true},
				{Capacity: 64, MaxBatch: 16, Turns: 2, SampleEvery: 1},
				{},
			} {
				o.Mode = mode
				t.Run(fmt.Sprintf("%s/%v/capacity=%d", form, mode, o.Capacity), func(t *testing.T) {
					t.Parallel()
					f(t, h, o)
				})
			}
		}
	}
}

func TestAcceptedMessagesAreHandledOnceInTheSendersOrderAndRefusedOnesNever(t *testing.T) {
	everyWay(t, func(t *testing.T, h actor.Handler[desk, letter, int], o actor.Options) {
		r := seeded(t)
		a, err := actor.New(newDesk(), h, o)
		if err != nil {
			t.Fatal(err)
		}
		const senders = 8
		var wg sync.WaitGroup
		var mu sync.Mutex
		accepted := map[letter]bool{} // true: for sure, false: refused
		var refusals atomic.Int64
		for from := range senders {
			s := &sender{a: a, from: from, r: rand.New(rand.NewPCG(r.Uint64(), 1)), capacity: o.Capacity, fate: map[letter]bool{}}
			wg.Go(func() {
				for range soak(300) {
					if err := s.send(); err != nil {
						t.Error(err)
						return
					}
				}
				mu.Lock()
				defer mu.Unlock()
				for m, ok := range s.fate {
					accepted[m] = ok
					if !ok {
						refusals.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if err := a.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Stopped and drained: nobody else touches the state any more.
		state := actor.StateOf(a)
		if state.disorder != "" {
			t.Error(state.disorder)
		}
		for m, ok := range accepted {
			if want := map[bool]int{true: 1}[ok]; state.seen[m] != want {
				t.Errorf("%v: accepted %v, handled %d times", m, ok, state.seen[m])
			}
		}
		st := a.Stats()
		if n := uint64(len(accepted)) - uint64(refusals.Load()); st.Accepted != n || st.Handled != n || st.Depth != 0 || st.Dropped != 0 {
			t.Errorf("%d accepted, stats %+v", n, st)
		}
		if st.Refused != uint64(refusals.Load()) {
			t.Errorf("%d refused, stats say %d", refusals.Load(), st.Refused)
		}
		if o.Capacity > 0 && st.DepthMax > o.Capacity {
			t.Errorf("depth %d above the capacity %d", st.DepthMax, o.Capacity)
		}
	})
}

// sender sends in random ways and notes what became of each message.
type sender struct {
	a        *actor.Actor[desk, letter, int]
	from     int
	number   int
	capacity int
	r        *rand.Rand
	fate     map[letter]bool
}

func (s *sender) next(n int) []letter {
	ms := make([]letter, n)
	for i := range ms {
		s.number++
		ms[i] = letter{s.from, s.number}
	}
	return ms
}

// send sends once and returns an error if the answer is wrong.
func (s *sender) send() error {
	ctx, cancel := context.Background(), func() {}
	switch s.r.IntN(4) {
	case 0:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(s.r.IntN(50))*time.Microsecond)
	case 1:
		ctx, cancel = context.WithCancel(ctx)
	}
	defer cancel()
	size := 1 + s.r.IntN(5)
	if s.capacity > 0 {
		size = min(size, s.capacity)
	}
	var ms []letter
	var err error
	switch s.r.IntN(6) {
	case 5:
		return s.look(ctx)
	case 0, 1:
		ms = s.next(1)
		var got int
		if got, err = s.a.Call(ctx, ms[0]); err == nil && got != ms[0].number {
			return fmt.Errorf("reply %d to %v", got, ms[0])
		}
	case 2:
		ms = s.next(1)
		err = s.a.Post(ctx, ms[0])
	case 3:
		ms = s.next(size)
		err = s.a.PostBatch(ctx, ms)
		defer clear(ms) // the caller may reuse them
	case 4:
		return s.callBatch(ctx, size)
	}
	return s.note(ms, err)
}

func (s *sender) callBatch(ctx context.Context, size int) error {
	ms, rs := s.next(size), make([]int, size)
	err := s.a.CallBatch(ctx, ms, rs)
	for i, m := range ms {
		if err == nil && rs[i] != m.number {
			return fmt.Errorf("reply %d to %v", rs[i], m)
		}
	}
	if noted := s.note(ms, err); noted != nil {
		return noted
	}
	// The caller owns its slices again. If the actor still touched them, the
	// race detector would see it.
	clear(ms)
	clear(rs)
	return nil
}

// look reads the state with nobody else at it.
func (s *sender) look(ctx context.Context) error {
	var disorder string
	err := s.a.Do(ctx, func(d *desk) {
		d.inside++
		if last := d.last[s.from]; d.inside != 1 || last > s.number {
			disorder = fmt.Sprintf("sender %d at %d, %d inside", s.from, last, d.inside)
		}
		d.inside--
	})
	if disorder != "" {
		return errors.New(disorder)
	}
	return s.note(nil, err)
}

// note records the fate of ms.
func (s *sender) note(ms []letter, err error) error {
	ok := err == nil || errors.Is(err, actor.ErrAbandoned)
	if !ok && !errors.Is(err, actor.ErrFull) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	for _, m := range ms {
		s.fate[m] = ok
	}
	return nil
}
