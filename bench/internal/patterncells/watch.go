package patterncells

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/bench/internal/duel"
	"github.com/cleavekv/cleave/watch"
)

// watchCells yields what watchers cost those who write, how soon they hear, and what they
// cost while they wait.
func watchCells(_ Config, yield func(duel.Cell) bool) bool {
	return watchedWrites(yield) && hearing(yield) && waiting(yield)
}

// audience is a store in memory with some who watch it.
type audience struct {
	db     *cleave.DB
	ks     *cleave.Keyspace
	hub    *watch.Hub
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	heard  []atomic.Uint64 // the newest version, by watcher
}

func newAudience() *audience {
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		panic(err)
	}
	a := &audience{db: db, ks: db.Default(), hub: watch.New(db)}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	return a
}

func (a *audience) close() {
	a.cancel()
	a.wg.Wait()
	if err := a.db.Close(); err != nil {
		panic(err)
	}
}

// watch lets n watch, each the key that it is given.
func (a *audience) watch(n int, key func(i int) []byte) {
	a.heard = make([]atomic.Uint64, n)
	for i := range n {
		w, err := a.hub.Watch(watch.Target{Keyspace: a.ks, Keys: [][]byte{key(i)}}, watch.Options{})
		if err != nil {
			panic(err)
		}
		a.wg.Go(func() {
			defer w.Close()
			for e, err := range w.Events(a.ctx) {
				if err != nil {
					return
				}
				a.heard[i].Store(e.Item.Version)
			}
		})
	}
}

// set writes the key of a cell and returns its version.
func (a *audience) set() uint64 {
	version, err := a.ks.SetWith(context.Background(), watchedKey, watchedValue, cleave.SetOptions{})
	if err != nil {
		panic(err)
	}
	return version
}

// settle waits until all have heard of a version.
func (a *audience) settle(version uint64) {
	for i := range a.heard {
		for a.heard[i].Load() < version {
			time.Sleep(20 * time.Microsecond)
		}
	}
}

var (
	watchedKey   = []byte("watched")
	watchedValue = make([]byte, 100)
)

func otherKey(i int) []byte { return fmt.Appendf(nil, "other %d", i) }
func thatKey(int) []byte    { return watchedKey }

// watchedWrites compares writes that many, few and none hear of.
func watchedWrites(yield func(duel.Cell) bool) bool {
	cell := duel.Cell{
		ID:      "patterns/watch-write",
		Title:   "a write of 100 bytes to a store in memory, until all who watch the key have heard of the last one",
		Metrics: duel.Costs, Rounds: 11, Ops: 1000,
	}
	for _, c := range []struct {
		name string
		ours bool
		n    int
		key  func(int) []byte
	}{
		{"nobody watches", false, 0, otherKey},
		{"1 watches another key", true, 1, otherKey},
		{"1000 watch other keys", true, 1000, otherKey},
		{"1 watches it", true, 1, thatKey},
		{"1000 watch it", true, 1000, thatKey},
	} {
		a := newAudience()
		defer a.close()
		a.watch(c.n, c.key)
		told := c.n > 0 && string(c.key(0)) == string(watchedKey)
		cell.Contestants = append(cell.Contestants, duel.Contestant{Name: c.name, Ours: c.ours, Work: func(ops int) {
			var version uint64
			for range ops {
				version = a.set()
			}
			if told {
				a.settle(version)
			}
		}})
	}
	return yield(cell)
}

// hearing compares how soon one hears of a write.
func hearing(yield func(duel.Cell) bool) bool {
	a := newAudience()
	defer a.close()
	cell := duel.Cell{
		ID:      "patterns/watch-latency",
		Title:   "from the moment at which a write of 100 bytes to a store in memory returns until another goroutine, which waits for it, has the new value: the mean of 50",
		Metrics: []duel.Metric{{Name: "latency", Unit: duel.Nanoseconds}}, Rounds: 11,
	}
	const writes = 50
	add := func(name string, ours bool, await func(version uint64)) {
		cell.Contestants = append(cell.Contestants, duel.Contestant{Name: name, Ours: ours, Gauge: func() []float64 {
			versions, heard := make(chan uint64), make(chan time.Time)
			go func() {
				for v := range versions {
					await(v)
					heard <- time.Now()
				}
			}()
			last, sum := a.set(), time.Duration(0)
			for range writes {
				versions <- last + 1
				time.Sleep(200 * time.Microsecond) // it waits by now
				last = a.set()
				done := time.Now()
				sum += max((<-heard).Sub(done), 0) // it may have it before the writer goes on
			}
			close(versions)
			return []float64{float64(sum) / writes}
		}})
	}
	reached := func(version uint64) func(item cleave.Item, found bool) bool {
		return func(item cleave.Item, found bool) bool { return item.Version >= version }
	}
	add("watch.Until", true, func(v uint64) {
		if _, _, err := a.hub.Until(a.ctx, a.ks, watchedKey, reached(v)); err != nil {
			panic(err)
		}
	})
	for _, each := range []time.Duration{time.Millisecond, 10 * time.Millisecond} {
		add(fmt.Sprintf("a look each %v", each), false, func(v uint64) {
			look := func(ctx context.Context) (cleave.Item, bool, error) {
				item, err := a.ks.Item(ctx, watchedKey)
				return item, item.Version >= v, err
			}
			for _, err := range watch.Poll(a.ctx, watch.PollOptions{Every: each}, look) {
				if err != nil {
					panic(err)
				}
				return
			}
		})
	}
	return yield(cell)
}

// waiting compares what many cost while they wait: the key is written every 20 ms.
func waiting(yield func(duel.Cell) bool) bool {
	const waiters, every, writes = 200, 20 * time.Millisecond, 5
	a := newAudience()
	defer a.close()
	cell := duel.Cell{
		ID:      "patterns/watch-wait",
		Title:   fmt.Sprintf("%d goroutines wait for changes of a key that is written every %v: a write and that time, after which all have heard", waiters, every),
		Metrics: duel.Costs, Rounds: 3, Ops: writes,
	}
	write := func(ops int) {
		for range ops {
			a.set()
			time.Sleep(every)
		}
	}
	cell.Contestants = append(cell.Contestants, duel.Contestant{Name: "watched", Ours: true, Work: func(ops int) {
		c := &audience{db: a.db, ks: a.ks, hub: a.hub}
		c.ctx, c.cancel = context.WithCancel(a.ctx)
		c.watch(waiters, thatKey)
		write(ops)
		c.cancel()
		c.wg.Wait()
	}})
	poll := func(each time.Duration) {
		cell.Contestants = append(cell.Contestants, duel.Contestant{Name: fmt.Sprintf("looked at each %v", each), Work: func(ops int) {
			ctx, cancel := context.WithCancel(a.ctx)
			var wg sync.WaitGroup
			for range waiters {
				wg.Go(func() {
					last := uint64(0)
					for _, err := range watch.Poll(ctx, watch.PollOptions{Every: each}, func(ctx context.Context) (cleave.Item, bool, error) {
						item, err := a.ks.Item(ctx, watchedKey)
						changed := item.Version != last
						last = item.Version
						return item, changed, err
					}) {
						if err != nil && !errors.Is(err, cleave.ErrNotFound) {
							return
						}
					}
				})
			}
			write(ops)
			cancel()
			wg.Wait()
		}})
	}
	poll(10 * time.Millisecond)
	poll(time.Millisecond)
	return yield(cell)
}
