package actor_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/cleavekv/cleave/actor"
)

// counter is one way to let many goroutines add to one number: it adds every
// delta and says what the number was after each.
type counter interface {
	add(deltas, sums []int) error
	stop()
}

func add(sum *int, delta int) int { *sum += delta; return *sum }

type mutexCounter struct {
	mu  sync.Mutex
	sum int
}

func (c *mutexCounter) add(deltas, sums []int) error {
	c.mu.Lock()
	for i, d := range deltas {
		sums[i] = add(&c.sum, d)
	}
	c.mu.Unlock()
	return nil
}

func (c *mutexCounter) stop() {}

// channelCounter is the actor of the textbooks: a goroutine that receives from
// a channel and answers on a channel that came with the message.
type channelCounter struct{ in chan request }

type request struct {
	deltas, sums []int
	done         chan struct{}
}

var replies = sync.Pool{New: func() any { return make(chan struct{}, 1) }}

func newChannelCounter() *channelCounter {
	c := &channelCounter{in: make(chan request, 1024)}
	go func() {
		sum := 0
		for r := range c.in {
			for i, d := range r.deltas {
				r.sums[i] = add(&sum, d)
			}
			r.done <- struct{}{}
		}
	}()
	return c
}

func (c *channelCounter) add(deltas, sums []int) error {
	done := replies.Get().(chan struct{})
	c.in <- request{deltas, sums, done}
	<-done
	replies.Put(done)
	return nil
}

func (c *channelCounter) stop() { close(c.in) }

type actorCounter struct{ a *actor.Actor[int, int, int] }

func newActorCounter(tb testing.TB, o actor.Options) actorCounter {
	a, err := actor.New(0, actor.Each(add), o)
	if err != nil {
		tb.Fatal(err)
	}
	return actorCounter{a}
}

func (c actorCounter) add(deltas, sums []int) (err error) {
	if len(deltas) == 1 {
		sums[0], err = c.a.Call(context.Background(), deltas[0])
		return err
	}
	return c.a.CallBatch(context.Background(), deltas, sums)
}

func (c actorCounter) stop() { _ = c.a.Stop(context.Background()) }

// BenchmarkCounter is the price of getting at a state, which itself is next to
// nothing: ns/op is per message.
func BenchmarkCounter(b *testing.B) {
	impls := []struct {
		name string
		make func() counter
	}{
		{"mutex", func() counter { return &mutexCounter{} }},
		{"channel", func() counter { return newChannelCounter() }},
		{"combining", func() counter { return newActorCounter(b, actor.Options{}) }},
		{"owner", func() counter { return newActorCounter(b, actor.Options{Mode: actor.Owner}) }},
	}
	for _, senders := range []int{1, 16} {
		for _, batch := range []int{1, 64} {
			for _, impl := range impls {
				b.Run(fmt.Sprintf("senders=%d/batch=%d/impl=%s", senders, batch, impl.name), func(b *testing.B) {
					c := impl.make()
					defer c.stop()
					spread(b, senders, batch, c)
				})
			}
		}
	}
}

// spread lets several senders share b.N messages.
func spread(b *testing.B, senders, batch int, c counter) {
	b.ReportAllocs()
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			deltas, sums := make([]int, batch), make([]int, batch)
			for range b.N / senders / batch {
				if err := c.add(deltas, sums); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if c, ok := c.(actorCounter); ok {
		if st := c.a.Stats(); st.Batches > 0 {
			b.ReportMetric(float64(st.Handled)/float64(st.Batches), "msgs/batch")
		}
	}
}
