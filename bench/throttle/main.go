// Command throttle measures what one saturated shard costs the others of its group, with and without a throttle of its writers.
// Run it in bench/, as
//
//	go run ./throttle
//
// Writers without a pause write to one shard in batches. Beside them others of the same group are written in an open loop: a write
// is due at its time whether those before it are done or not, and its latency counts from then. The throttle is
// that of package ratekeeper, which is handed the rates of the node once a second and told that the shard can be neither
// split nor moved.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/actor"
	"github.com/cleavekv/cleave/internal/engine"
	"github.com/cleavekv/cleave/internal/node"
	"github.com/cleavekv/cleave/internal/shard/ratekeeper"
)

type options struct {
	writers, batch, rate int
	phase                time.Duration
	rounds               int
}

func main() {
	var o options
	flag.IntVar(&o.writers, "writers", 64, "how `many` goroutines write to the hot shard")
	flag.IntVar(&o.batch, "batch", 16, "how `many` writes each of them sends at once")
	flag.IntVar(&o.rate, "rate", 2000, "`writes` a second to the other shards")
	flag.DurationVar(&o.phase, "phase", 6*time.Second, "for how `long` each phase is measured")
	flag.IntVar(&o.rounds, "rounds", 3, "how `many` rounds; the median counts")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "throttle:", err)
		os.Exit(1)
	}
}

// phases are measured one after the other, in each round.
var phases = []string{"no hot shard", "hot shard", "hot shard, throttled"}

// result is what was measured in a phase.
type result struct {
	p50, p99 time.Duration
	hot      float64 // writes a second to the hot shard
}

func run(o options) error {
	db, err := cleave.OpenMemory(cleave.Options{Stores: 1, Groups: 1, ManualRelief: true})
	if err != nil {
		return err
	}
	defer db.Close()
	ctx := context.Background()
	ks, err := db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "load", Kind: cleave.Range})
	if err != nil {
		return err
	}
	split, err := db.Start(ctx, cleave.SplitAtKeys(ks, []byte("hot")))
	if err == nil {
		_, err = split.Wait(ctx)
	}
	if err != nil {
		return err
	}
	results := make([][]result, len(phases))
	for range o.rounds {
		for i := range phases {
			results[i] = append(results[i], measure(db, ks, o, i > 0, i > 1))
			time.Sleep(time.Second)
		}
	}
	fmt.Println("| | others p50 | others p99 | p99 against none | hot writes/s |\n|---|--:|--:|--:|--:|")
	base := median(results[0], func(r result) float64 { return float64(r.p99) })
	for i, name := range phases {
		p99 := median(results[i], func(r result) float64 { return float64(r.p99) })
		p50 := median(results[i], func(r result) float64 { return float64(r.p50) })
		fmt.Printf("| %s | %v | %v | %.2f | %.0f |\n", name, time.Duration(p50).Round(time.Microsecond), time.Duration(p99).Round(time.Microsecond),
			p99/base, median(results[i], func(r result) float64 { return r.hot }))
	}
	return nil
}

func median(all []result, of func(result) float64) float64 {
	var v []float64
	for _, r := range all {
		v = append(v, of(r))
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// measure plays one phase: a third of its time passes before it counts.
func measure(db *cleave.DB, ks *cleave.Keyspace, o options, isHot, isThrottled bool) result {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	var hot atomic.Int64
	if isHot {
		for w := range o.writers {
			running.Go(func() { writeHot(ctx, db, ks, o.batch, uint64(w), &hot) })
		}
	}
	if isThrottled {
		running.Go(func() { keepThrottled(ctx, db, ks) })
	}
	time.Sleep(o.phase / 3)
	if isThrottled {
		time.Sleep(3 * time.Second) // until the rates are known
	}
	before, began := hot.Load(), time.Now()
	latencies := probe(ctx, ks, o.rate, o.phase)
	r := result{hot: float64(hot.Load()-before) / time.Since(began).Seconds()}
	stop()
	running.Wait()
	slices.Sort(latencies)
	r.p50, r.p99 = latencies[len(latencies)/2], latencies[len(latencies)*99/100]
	return r
}

func writeHot(ctx context.Context, db *cleave.DB, ks *cleave.Keyspace, batch int, seed uint64, count *atomic.Int64) {
	r := rand.New(rand.NewPCG(seed, 1))
	var b cleave.Batch
	for ctx.Err() == nil {
		b.Reset()
		for range batch {
			b.Set(ks, fmt.Appendf(nil, "hot/%06d", r.IntN(100_000)), make([]byte, 100))
		}
		if db.Write(ctx, &b) == nil {
			count.Add(int64(batch))
		}
	}
}

// probe writes to other shards at a rate, and returns how long after its time each write was done.
func probe(ctx context.Context, ks *cleave.Keyspace, rate int, last time.Duration) []time.Duration {
	const lanes = 64
	total := int(float64(rate) * last.Seconds())
	latencies := make([]time.Duration, total)
	began := time.Now()
	var next atomic.Int64
	var all sync.WaitGroup
	for range lanes {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= total {
					return
				}
				due := began.Add(time.Duration(float64(i) / float64(rate) * float64(time.Second)))
				time.Sleep(time.Until(due))
				_ = ks.Set(ctx, fmt.Appendf(nil, "cool/%06d", i%100_000), make([]byte, 100))
				latencies[i] = time.Since(due)
			}
		})
	}
	all.Wait()
	return latencies
}

// maxWait is from when on a group counts as saturated.
const maxWait = 2 * time.Millisecond

// keepThrottled carries out what package ratekeeper decides, once a second.
func keepThrottled(ctx context.Context, db *cleave.DB, ks *cleave.Keyspace) {
	var e *engine.DB
	db.Engine(&e)
	n := e.Node()
	var h ratekeeper.HotShards
	capacity := map[cleave.GroupID]float64{}
	waits := map[*node.GroupHost]actor.Histogram{}
	waited := map[uint64]uint64{}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			for _, t := range n.Throttles().List() {
				n.Throttles().Clear(t.Shard)
			}
			return
		case <-ticker.C:
		}
		held := map[uint64]node.ShardThrottle{}
		for _, t := range n.Throttles().List() {
			held[uint64(t.Shard)] = t
		}
		var groups []ratekeeper.GroupDemand
		for _, p := range n.GroupHosts() {
			now := p.Group.Metrics().QueueWait
			g := ratekeeper.GroupDemand{Group: p.ID}
			if count := now.Count() - waitsCount(waits, p); count > 0 {
				was := waits[p]
				g.QueueWait = time.Duration((now.SumNS - was.SumNS) / count)
			}
			waits[p] = now
			groups = append(groups, g)
		}
		var shards []ratekeeper.ShardDemand
		for id, r := range n.LoadRates() {
			s, ok := n.Map().Shard(id)
			if !ok || r.Ops() == 0 {
				continue
			}
			t := held[uint64(id)]
			shards = append(shards, ratekeeper.ShardDemand{
				Shard: id, Group: s.Group, Writes: r.Writes, Work: r.Service, WriteWork: r.Service * r.Writes / r.Ops(),
				Limit: t.WritesPerSecond, IsAtLimit: t.Waited+t.Refused > waited[uint64(id)],
			})
			waited[uint64(id)] = t.Waited + t.Refused
		}
		for i := range groups {
			g, work := &groups[i], 0.0
			for _, s := range shards {
				if s.Group == g.Group {
					work += s.Work
				}
			}
			// What a group can do on processors that others use too is what it has done while its writers waited.
			if g.QueueWait >= maxWait {
				capacity[g.Group] = max(capacity[g.Group], work)
			}
			g.Capacity = capacity[g.Group]
		}
		for _, l := range h.Plan(ratekeeper.ThrottleKnobs{QueueWait: maxWait}, time.Now(), groups, shards) {
			_ = n.Throttles().Set(l.Shard, l.PerSecond, l.Reason, l.Until)
		}
		if os.Getenv("THROTTLE_TRACE") != "" {
			fmt.Fprintf(os.Stderr, "%+v %+v %+v\n", groups, shards, n.Throttles().List())
		}
	}
}

func waitsCount(waits map[*node.GroupHost]actor.Histogram, p *node.GroupHost) uint64 {
	h := waits[p]
	return h.Count()
}
