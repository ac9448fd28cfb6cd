package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavekv/cleave"
)

// fakeMessages is a queue in memory, by the clock of a synctest bubble.
type fakeMessages struct {
	lease   time.Duration
	mu      sync.Mutex
	ready   []*Delivery
	leases  map[*Delivery]time.Time // of those that are out
	acked   []string
	delays  []time.Duration
	extends int
	// fail, if set, is asked for the error of a call by its name.
	fail func(call string) error
}

func newFakeMessages(lease time.Duration, bodies ...string) *fakeMessages {
	f := &fakeMessages{lease: lease, leases: map[*Delivery]time.Time{}, fail: func(string) error { return nil }}
	for _, b := range bodies {
		f.ready = append(f.ready, &Delivery{Body: []byte(b)})
	}
	return f
}

func (f *fakeMessages) Receive(ctx context.Context, max int) ([]*Delivery, error) {
	for {
		f.mu.Lock()
		if err := f.fail("receive"); err != nil {
			f.mu.Unlock()
			return nil, err
		}
		n := min(max, len(f.ready))
		got := slices.Clone(f.ready[:n])
		f.ready = f.ready[n:]
		for _, d := range got {
			d.Attempt++
			f.leases[d] = time.Now().Add(f.lease)
		}
		f.mu.Unlock()
		if n > 0 {
			return got, nil
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// held runs do for those that are still the caller's.
func (f *fakeMessages) held(call string, list []*Delivery, do func(d *Delivery)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail(call); err != nil {
		return err
	}
	var lost []*Delivery
	for _, d := range list {
		if until, out := f.leases[d]; out && !time.Now().After(until) {
			do(d)
		} else {
			lost = append(lost, d)
		}
	}
	return toLostError(lost, nil)
}

func (f *fakeMessages) Ack(_ context.Context, list ...*Delivery) error {
	return f.held("ack", list, func(d *Delivery) {
		f.acked = append(f.acked, string(d.Body))
		delete(f.leases, d)
	})
}

func (f *fakeMessages) Nack(_ context.Context, delay time.Duration, list ...*Delivery) error {
	return f.held("nack", list, func(d *Delivery) {
		f.delays = append(f.delays, delay)
		delete(f.leases, d)
		time.AfterFunc(delay, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.ready = append(f.ready, d)
		})
	})
}

func (f *fakeMessages) Extend(_ context.Context, lease time.Duration, list ...*Delivery) error {
	return f.held("extend", list, func(d *Delivery) {
		f.extends++
		f.leases[d] = time.Now().Add(lease)
	})
}

// consumeFor consumes for a time, and returns what Consume returned.
func consumeFor(t *testing.T, f *fakeMessages, d time.Duration, o ConsumeOptions, handle func(context.Context, *Delivery) error) error {
	t.Helper()
	o, err := o.withDefaults()
	must(t, err)
	live, end := context.WithTimeout(ctx, d)
	defer end()
	return newConsumer(f, f.lease, o, handle).run(live)
}

func TestConsume_ALongHandlerKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeMessages(time.Second, "a", "b")
		calls := 0
		err := consumeFor(t, f, 10*time.Minute, ConsumeOptions{Concurrency: 1}, func(ctx context.Context, d *Delivery) error {
			calls++
			return sleep(ctx, 10*time.Second) // ten leases
		})
		slices.Sort(f.acked)
		if !errors.Is(err, context.DeadlineExceeded) || calls != 2 || !slices.Equal(f.acked, []string{"a", "b"}) || f.extends < 2*10 {
			t.Errorf("%v: %d calls, %v acknowledged, %d extensions", err, calls, f.acked, f.extends)
		}
	})
}

func TestConsume_AHandlerThatFailsOrPanicsIsTriedAgainWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeMessages(time.Minute, "a")
		failure, told := errors.New("failed"), 0
		o := ConsumeOptions{Backoff: time.Second, MaxBackoff: 4 * time.Second, OnError: func(d *Delivery, err error) {
			if told++; string(d.Body) != "a" {
				t.Errorf("told of %v", d)
			}
		}}
		_ = consumeFor(t, f, 10*time.Minute, o, func(_ context.Context, d *Delivery) error {
			switch {
			case d.Attempt == 2:
				panic("boom")
			case d.Attempt < 6:
				return failure
			}
			return nil
		})
		if len(f.delays) != 5 || told != 5 || !slices.Equal(f.acked, []string{"a"}) {
			t.Fatalf("delays %v, told %d times, %v acknowledged", f.delays, told, f.acked)
		}
		for i, want := range []time.Duration{1, 2, 4, 4, 4} {
			if d := f.delays[i]; d > want*time.Second || d < want*time.Second/2 {
				t.Errorf("delay %d is %v, want half of %v to all of it", i, d, want*time.Second)
			}
		}
	})
}

func TestConsume_WorksOnNoMoreThanConcurrencyAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bodies []string
		for i := range 50 {
			bodies = append(bodies, fmt.Sprint(i))
		}
		f := newFakeMessages(time.Minute, bodies...)
		var active, most atomic.Int64
		_ = consumeFor(t, f, time.Minute, ConsumeOptions{Concurrency: 7}, func(context.Context, *Delivery) error {
			n := active.Add(1)
			defer active.Add(-1)
			most.Store(max(most.Load(), n))
			time.Sleep(time.Second)
			return nil
		})
		if most.Load() != 7 || len(f.acked) != 50 {
			t.Errorf("%d at a time, %d acknowledged", most.Load(), len(f.acked))
		}
	})
}

func TestConsume_WaitsForHandlersWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeMessages(2*time.Second, "finishes", "gives up", "ends by itself")
		var returned atomic.Int64
		err := consumeFor(t, f, time.Minute, ConsumeOptions{}, func(ctx context.Context, d *Delivery) error {
			<-ctx.Done()
			time.Sleep(10 * time.Second) // longer than the lease
			returned.Add(1)
			switch string(d.Body) {
			case "finishes":
				return nil
			case "ends by itself":
				return ErrDone
			}
			return ctx.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) || returned.Load() != 3 || !slices.Equal(f.acked, []string{"finishes"}) || !slices.Equal(f.delays, []time.Duration{0}) {
			t.Errorf("%v: %d returned, %v acknowledged, given back after %v", err, returned.Load(), f.acked, f.delays)
		}
	})
}

func TestConsume_AHandlerHearsThatItsLeaseWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeMessages(time.Second, "a")
		var cause error
		_ = consumeFor(t, f, time.Minute, ConsumeOptions{}, func(ctx context.Context, d *Delivery) error {
			f.mu.Lock()
			delete(f.leases, d) // another has it
			f.mu.Unlock()
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		})
		if !errors.Is(cause, ErrLost) || len(f.acked)+len(f.delays) != 0 {
			t.Errorf("the cause is %v; %v, %v", cause, f.acked, f.delays)
		}
	})
}

func TestConsume_ErrorsOfTheQueueAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeMessages(time.Minute, "a")
		failures := map[string]int{"receive": 3, "ack": 3}
		f.fail = func(call string) error {
			if failures[call]--; failures[call] >= 0 {
				return cleave.ErrUnknown
			}
			return nil
		}
		told := 0
		_ = consumeFor(t, f, 10*time.Minute, ConsumeOptions{OnError: func(d *Delivery, _ error) {
			if told++; d != nil {
				t.Errorf("told of %s", d.Body)
			}
		}}, func(context.Context, *Delivery) error { return nil })
		if told != 3 || !slices.Equal(f.acked, []string{"a"}) {
			t.Errorf("told %d times, %v acknowledged", told, f.acked)
		}
		f.fail = func(string) error { return ErrClosed }
		if err := consumeFor(t, f, 10*time.Minute, ConsumeOptions{}, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("of a closed queue: %v", err)
		}
	})
}

// On a store: each message is done, and those of a key one after the other, in order.
func TestConsume_OnAStoreEachMessageIsHandledInTheOrderOfItsKey(t *testing.T) {
	db, ks := openMemory(t, cleave.Options{Groups: 4})
	q := openQueue(t, db, ks, "jobs", Options{Shards: 4, MaxDeliveries: 100})
	const keys, each = 5, 10
	for i := range each {
		for k := range keys {
			must(t, q.Publish(ctx, Message{Key: fmt.Append(nil, "key", k), Body: []byte{byte(i)}}))
		}
	}
	live, end := context.WithCancel(ctx)
	defer end()
	var mu sync.Mutex
	next, done, failed := map[string]int{}, 0, map[string]bool{}
	err := q.Consume(live, ConsumeOptions{Backoff: time.Millisecond, MaxBackoff: 2 * time.Millisecond}, func(_ context.Context, d *Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		key, n := string(d.Key), int(d.Body[0])
		if n != next[key] {
			t.Errorf("%s: got %d, want %d", key, n, next[key])
		}
		if n%3 == 0 && !failed[fmt.Sprint(key, n)] {
			failed[fmt.Sprint(key, n)] = true
			return errors.New("once")
		}
		next[key]++
		if done++; done == keys*each {
			end()
		}
		return nil
	})
	stats, serr := q.Stats(ctx)
	must(t, serr)
	if !errors.Is(err, context.Canceled) || done != keys*each || stats.Depth != 0 {
		t.Errorf("%v: %d handled, %d left", err, done, stats.Depth)
	}
	wantError(t, "no handler", q.Consume(ctx, ConsumeOptions{}, nil), cleave.ErrOptions)
	wantError(t, "bad options", q.Consume(ctx, ConsumeOptions{Concurrency: -1, Backoff: -1}, func(context.Context, *Delivery) error { return nil }), cleave.ErrOptions)
	must(t, q.Close())
	wantError(t, "closed", q.Consume(ctx, ConsumeOptions{}, func(context.Context, *Delivery) error { return nil }), ErrClosed)
}
