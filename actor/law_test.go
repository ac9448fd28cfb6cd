package actor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"

	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/internal/testkit/tally"
)

// scaleRounds multiplies what random tests do.
func scaleRounds(n int) int { return tally.Rounds(n, 50) }

// newSeededRand returns a source whose seed is printed if the test fails.
func newSeededRand(t *testing.T) *rand.Rand {
	return rand.New(rand.NewPCG(tally.Seed(t, "./actor"), 0))
}

// letter is a message with its sender and its number among the sender's messages.
type letter struct{ from, number int }

// desk is a state without any protection: the race detector watches it.
type desk struct {
	last     map[int]int // per sender
	seen     map[letter]int
	inside   int
	disorder string
}

func (d *desk) handleLetter(m letter) int {
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

// newHandlers gives the same handler in its two forms.
func newHandlers() map[string]actor.Handler[desk, letter, int] {
	return map[string]actor.Handler[desk, letter, int]{
		"each": actor.Each((*desk).handleLetter),
		"batch": actor.Batch(func(d *desk, ms []letter, rs []int) {
			for i, m := range ms {
				rs[i] = d.handleLetter(m)
			}
		}),
	}
}

// everyWay runs f for all combinations that matter.
func everyWay(t *testing.T, f func(t *testing.T, h actor.Handler[desk, letter, int], o actor.Options)) {
	for form, h := range newHandlers() {
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
		r := newSeededRand(t)
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
				for range scaleRounds(300) {
					if err := s.sendOnce(); err != nil {
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
		// Stopped and drained: no goroutine touches the state any more.
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

func (s *sender) nextLetters(n int) []letter {
	ms := make([]letter, n)
	for i := range ms {
		s.number++
		ms[i] = letter{s.from, s.number}
	}
	return ms
}

// sendOnce sends once and returns an error if the answer is wrong.
func (s *sender) sendOnce() error {
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
		return s.readState(ctx)
	case 0, 1:
		ms = s.nextLetters(1)
		var got int
		if got, err = s.a.Call(ctx, ms[0]); err == nil && got != ms[0].number {
			return fmt.Errorf("reply %d to %v", got, ms[0])
		}
	case 2:
		ms = s.nextLetters(1)
		err = s.a.Post(ctx, ms[0])
	case 3:
		ms = s.nextLetters(size)
		err = s.a.PostBatch(ctx, ms)
		defer clear(ms) // the caller may reuse them
	case 4:
		return s.callBatch(ctx, size)
	}
	return s.recordFate(ms, err)
}

func (s *sender) callBatch(ctx context.Context, size int) error {
	ms, rs := s.nextLetters(size), make([]int, size)
	err := s.a.CallBatch(ctx, ms, rs)
	for i, m := range ms {
		if err == nil && rs[i] != m.number {
			return fmt.Errorf("reply %d to %v", rs[i], m)
		}
	}
	if noted := s.recordFate(ms, err); noted != nil {
		return noted
	}
	// The caller owns its slices again. If the actor still touched them, the
	// race detector would see it.
	clear(ms)
	clear(rs)
	return nil
}

// readState reads the state while no other goroutine uses it.
func (s *sender) readState(ctx context.Context) error {
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
	return s.recordFate(nil, err)
}

// recordFate records the fate of ms.
func (s *sender) recordFate(ms []letter, err error) error {
	ok := err == nil || errors.Is(err, actor.ErrAbandoned)
	if !ok && !errors.Is(err, actor.ErrFull) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	for _, m := range ms {
		s.fate[m] = ok
	}
	return nil
}

// access is what is done to the register, and saw what came back.
type access struct {
	write bool
	value int
}

type saw struct {
	value int
	known bool // false if the caller left before the reply
}

// register is the sequential truth: a cell that answers with its old value.
var register = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, input, output any) (bool, any) {
		in, out := input.(access), output.(saw)
		next := state
		if in.write {
			next = in.value
		}
		return !out.known || out.value == state, next
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

func exchangeValue(cell *int, a access) int {
	old := *cell
	if a.write {
		*cell = a.value
	}
	return old
}

func TestARegisterIsLinearizable(t *testing.T) {
	bothModes(t, func(t *testing.T, mode actor.Mode) {
		r := newSeededRand(t)
		for range scaleRounds(20) {
			history := recordHistory(t, r, actor.Options{Mode: mode, Capacity: 1 + r.IntN(4), MaxBatch: 1 + r.IntN(3), Turns: r.IntN(4) - 1, Gather: r.IntN(2) == 0})
			if !porcupine.CheckOperations(register, history) {
				t.Fatalf("not linearizable: %+v", history)
			}
		}
	})
}

// recordHistory lets some clients work on one register and notes when each
// operation began and ended.
func recordHistory(t *testing.T, r *rand.Rand, o actor.Options) []porcupine.Operation {
	a, err := actor.New(0, actor.Each(exchangeValue), o)
	if err != nil {
		t.Fatal(err)
	}
	var clock, value atomic.Int64
	var mu sync.Mutex
	var history []porcupine.Operation
	var wg sync.WaitGroup
	for client := range 5 {
		r := rand.New(rand.NewPCG(r.Uint64(), 2))
		wg.Go(func() {
			for range 12 {
				ctx, cancel := context.Background(), func() {}
				if r.IntN(6) == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(20))*time.Microsecond)
				}
				in := access{write: r.IntN(2) == 0, value: int(value.Add(1))}
				op := porcupine.Operation{ClientId: client, Input: in, Call: clock.Add(1)}
				out, err := a.Call(ctx, in)
				op.Output, op.Return = saw{out, err == nil}, clock.Add(1)
				cancel()
				if err != nil {
					if !errors.Is(err, actor.ErrAbandoned) {
						continue // it did not happen
					}
					op.Return = 1 << 40 // it may happen any time from now
				}
				mu.Lock()
				history = append(history, op)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := a.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	return history
}

// ledger is an actor beside what it should be: a list of what it received,
// each answered with the number of entries before it. A negative message
// panics after it was written down.
type ledger struct {
	a        *actor.Actor[[]int, int, int]
	policy   actor.PanicPolicy
	want     []int
	poisoned bool
	stopped  bool
}

func appendOrPanic(list *[]int, m int) int {
	*list = append(*list, m)
	if m < 0 {
		panic(m)
	}
	return len(*list) - 1
}

// expectReplies plays ms and returns their replies, and the index of the first that
// panics or -1.
func (l *ledger) expectReplies(ms []int) (replies []int, hit int) {
	replies, hit = make([]int, len(ms)), -1
	for i, m := range ms {
		if l.poisoned {
			break
		}
		l.want = append(l.want, m)
		if m < 0 {
			if hit < 0 {
				hit = i
			}
			l.poisoned = l.policy == actor.Poison
			continue
		}
		replies[i] = len(l.want) - 1
	}
	return replies, hit
}

// expectedError is the error that closed doors give, or nil. Posts of an owner may
// still be on their way when they poison it, so a poisoned door may look open
// to a sender: settle makes sure it does not.
func (l *ledger) expectedError() error {
	switch {
	case l.poisoned:
		return actor.ErrPoisoned
	case l.stopped:
		return actor.ErrStopped
	}
	return nil
}

// waitHandled waits until everything sent so far was handled.
func (l *ledger) waitHandled(t *rapid.T) {
	_ = l.a.Do(t.Context(), func(*[]int) {})
}

func (l *ledger) callBatch(t *rapid.T, ms []int) {
	door := l.expectedError()
	rs := make([]int, len(ms))
	err := l.a.CallBatch(t.Context(), ms, rs)
	if door != nil {
		if !errors.Is(err, door) && len(ms) > 0 {
			t.Fatalf("%v, want %v", err, door)
		}
		return
	}
	want, hit := l.expectReplies(ms)
	p := new(actor.PanicError)
	if errors.As(err, &p) != (hit >= 0) || hit >= 0 && p.Index != hit || hit < 0 && err != nil {
		t.Fatalf("%v, want a panic at %d", err, hit)
	}
	if !slices.Equal(rs, want) {
		t.Fatalf("replies %v, want %v", rs, want)
	}
}

func (l *ledger) postBatch(t *rapid.T, ms []int) {
	door := l.expectedError()
	err := l.a.PostBatch(t.Context(), ms)
	l.waitHandled(t)
	if door != nil && len(ms) > 0 {
		if !errors.Is(err, door) {
			t.Fatalf("%v, want %v", err, door)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	l.expectReplies(ms)
}

func (l *ledger) checkDo(t *rapid.T) {
	err := l.a.Do(t.Context(), func(list *[]int) {
		if !slices.Equal(*list, l.want) {
			t.Fatalf("state %v, want %v", *list, l.want)
		}
	})
	if door := l.expectedError(); !errors.Is(err, door) {
		t.Fatalf("%v, want %v", err, door)
	}
}

func TestAnActorBehavesLikeAListWithADoor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := actor.Options{
			Mode:       actor.Mode(rapid.IntRange(0, 1).Draw(t, "mode")),
			AfterPanic: actor.PanicPolicy(rapid.IntRange(0, 1).Draw(t, "policy")),
			Capacity:   rapid.IntRange(8, 20).Draw(t, "capacity"),
			MaxBatch:   rapid.IntRange(1, 9).Draw(t, "max"),
			Turns:      rapid.IntRange(-1, 2).Draw(t, "turns"),
		}
		a, err := actor.New([]int(nil), actor.Each(appendOrPanic), o)
		if err != nil {
			t.Fatal(err)
		}
		l := &ledger{a: a, policy: o.AfterPanic}
		message := rapid.Custom(func(t *rapid.T) int {
			if m := rapid.IntRange(-1, 30).Draw(t, "m"); m != 0 {
				return m
			}
			return 1
		})
		batch := rapid.SliceOfN(message, 0, 8)
		t.Repeat(map[string]func(*rapid.T){
			"callBatch": func(t *rapid.T) { l.callBatch(t, batch.Draw(t, "ms")) },
			"postBatch": func(t *rapid.T) { l.postBatch(t, batch.Draw(t, "ms")) },
			"do":        l.checkDo,
			"stop": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "really") > 0 {
					return
				}
				if err := a.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
				l.stopped = true
			},
		})
		if err := a.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := *actor.StateOf(a); !slices.Equal(got, l.want) {
			t.Fatalf("state %v, want %v", got, l.want)
		}
	})
}
