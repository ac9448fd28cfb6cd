package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/cleavekv/cleave"
)

// cost is what a design has cost.
type cost struct {
	times    []time.Duration // of each booking
	commands []uint64        // that each store has executed
}

// turn is how many cabins a design sells before the next has its turn. Short
// ones show all designs the same moods of the machine. But what a transaction of
// several stores leaves to be done after its answer is done in the next turn:
// with longer ones that is little.
const turn = 10

// measure sells the cabins of one sailing, each to a customer of its own, under
// each design.
func measure(ctx context.Context, db *cleave.DB, lines []*line, cabins []cabin) ([]cost, error) {
	costs := make([]cost, len(lines))
	for cabins := range slices.Chunk(cabins, turn) {
		for i, l := range lines {
			before := db.Metrics()
			for _, c := range cabins {
				start := time.Now()
				if err := book(ctx, l, c, "customer of "+c.number); err != nil {
					return nil, err
				}
				costs[i].times = append(costs[i].times, time.Since(start))
			}
			costs[i].add(before, db.Metrics())
		}
	}
	return costs, nil
}

// add adds what was counted between two looks at the metrics.
func (c *cost) add(before, after cleave.Metrics) {
	if c.commands == nil {
		c.commands = make([]uint64, len(after.Stores))
	}
	for i := range after.Stores {
		c.commands[i] += after.Stores[i].Commands - before.Stores[i].Commands
	}
}

// time is the median: a few bookings wait for something that has nothing to do
// with them.
func (c *cost) time() time.Duration {
	sorted := slices.Sorted(slices.Values(c.times))
	return sorted[len(sorted)/2]
}

// busiest is the share of the store that has executed most.
func (c *cost) busiest() float64 {
	sum := uint64(0)
	for _, n := range c.commands {
		sum += n
	}
	return float64(slices.Max(c.commands)) / float64(max(sum, 1))
}

// report prints a line for each design.
func report(out io.Writer, lines []*line, costs []cost) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "shard key\tbookings\ttime each\tratio\tbusiest store\t")
	for i, c := range costs {
		fmt.Fprintf(w, "%s\t%d\t%v\t%.2f\t%.0f %%\t\n", lines[i].name, len(c.times), c.time().Round(time.Microsecond),
			float64(c.time())/float64(costs[0].time()), 100*c.busiest())
	}
	return w.Flush()
}
