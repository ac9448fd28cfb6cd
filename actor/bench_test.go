package actor_test

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
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

func addDelta(sum *int, delta int) int { *sum += delta; return *sum }

type mutexCounter struct {
	mu  sync.Mutex
	sum int
}

func (c *mutexCounter) add(deltas, sums []int) error {
	c.mu.Lock()
	for i, d := range deltas {
		sums[i] = addDelta(&c.sum, d)
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
				r.sums[i] = addDelta(&sum, d)
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
	a, err := actor.New(0, actor.Each(addDelta), o)
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
					runSenders(b, senders, batch, c)
				})
			}
		}
	}
}

// runSenders lets several senders share b.N messages.
func runSenders(b *testing.B, senders, batch int, c counter) {
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

const (
	mapEntries   = 1 << 20
	mapShardBits = 3
	mapShards    = 1 << mapShardBits
)

// spreadKey mixes a key; shards take the top bits, tables the ones below.
func spreadKey(k uint64) uint64 { return k * 0x9E3779B97F4A7C15 }

func shardOfKey(k uint64) int { return int(spreadKey(k) >> (64 - mapShardBits)) }

// op is a request to an actor that owns a table: put or get.
type op struct {
	key, value uint64
	put        bool
}

// table is an open-addressed table with linear probing. Key 0 means empty. It
// has no lock because one actor owns it.
type table struct {
	slots []slot
	shift int
}

type slot struct{ key, value uint64 }

func newTable(entries int) table {
	n := bits.Len(uint(entries * 2))
	return table{slots: make([]slot, 1<<n), shift: 64 - n}
}

func (t *table) homeSlot(key uint64) uint64 { return spreadKey(key) << mapShardBits >> t.shift }

func (t *table) findSlot(key uint64) *slot {
	mask := uint64(len(t.slots) - 1)
	for i := t.homeSlot(key); ; i++ {
		if s := &t.slots[i&mask]; s.key == key || s.key == 0 {
			return s
		}
	}
}

var benchSink uint64

// apply sees the whole batch: it touches every home first, so that the cache
// misses overlap, which a locked map cannot do.
func (t *table) apply(ops []op, values []uint64) {
	var touched uint64
	for i := range ops {
		touched += t.slots[t.homeSlot(ops[i].key)].key
	}
	benchSink = touched
	for i, o := range ops {
		s := t.findSlot(o.key)
		values[i] = s.value
		if o.put {
			*s = slot{o.key, o.value}
		}
	}
}

// store is a map that handles many operations at a time.
type store interface {
	apply(ops []op, values []uint64) error
}

type actorMap struct {
	fleet *actor.Fleet[table, op, uint64]
}

func (m actorMap) apply(ops []op, values []uint64) (err error) {
	if len(ops) == 1 {
		values[0], err = m.fleet.Call(context.Background(), shardOfKey(ops[0].key), ops[0])
		return err
	}
	return m.fleet.CallBatch(context.Background(), func(o op) int { return shardOfKey(o.key) }, ops, values)
}

func newActorMap(tb testing.TB, mode actor.Mode) store {
	f, err := actor.NewFleet(mapShards, func(int) table { return newTable(mapEntries / mapShards) }, actor.Batch((*table).apply), actor.Options{Mode: mode})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = f.Stop(context.Background()) })
	return actorMap{f}
}

// lockedMap is the sharded map that every program writes first.
type lockedMap [64]struct {
	mu sync.RWMutex
	m  map[uint64]uint64
	_  [64]byte
}

func (l *lockedMap) apply(ops []op, values []uint64) error {
	for i, o := range ops {
		s := &l[spreadKey(o.key)>>58]
		if o.put {
			s.mu.Lock()
			values[i] = s.m[o.key]
			s.m[o.key] = o.value
			s.mu.Unlock()
		} else {
			s.mu.RLock()
			values[i] = s.m[o.key]
			s.mu.RUnlock()
		}
	}
	return nil
}

func newLockedMap() store {
	l := new(lockedMap)
	for i := range l {
		l[i].m = make(map[uint64]uint64, mapEntries/len(l))
	}
	return l
}

// BenchmarkMap is the price of one operation on a map of 2^20 entries that all
// goroutines share.
func BenchmarkMap(b *testing.B) {
	impls := []struct {
		name string
		make func() store
	}{
		{"locked", newLockedMap},
		{"combining", func() store { return newActorMap(b, actor.Combining) }},
		{"owner", func() store { return newActorMap(b, actor.Owner) }},
	}
	for _, impl := range impls {
		m := impl.make()
		fill := make([]op, 512)
		for from := uint64(1); from <= mapEntries; from += 512 {
			for i := range fill {
				fill[i] = op{key: from + uint64(i), value: 1, put: true}
			}
			if err := m.apply(fill, make([]uint64, len(fill))); err != nil {
				b.Fatal(err)
			}
		}
		for _, writes := range []int{5, 50} {
			for _, batch := range []int{1, 64} {
				b.Run(fmt.Sprintf("writes=%d/batch=%d/impl=%s", writes, batch, impl.name), func(b *testing.B) {
					runRandomOps(b, m, writes, batch)
				})
			}
		}
	}
}

// runRandomOps applies b.N random operations from all processors.
func runRandomOps(b *testing.B, m store, writes, batch int) {
	b.ReportAllocs()
	b.SetParallelism(8) // more goroutines than processors, as a server has
	b.RunParallel(func(pb *testing.PB) {
		r := rand.New(rand.NewPCG(rand.Uint64(), 0))
		ops, values := make([]op, 0, batch), make([]uint64, batch)
		for pb.Next() {
			x := r.Uint64()
			ops = append(ops, op{key: x%mapEntries + 1, value: x, put: int(x>>32%100) < writes})
			if len(ops) == batch {
				if err := m.apply(ops, values); err != nil {
					b.Error(err)
					return
				}
				ops = ops[:0]
			}
		}
	})
}
