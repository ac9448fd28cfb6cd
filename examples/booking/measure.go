package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/hash"
)

// cost is what a design has cost.
type cost struct {
	times    []time.Duration // of each booking
	commands []uint64        // that each store has executed
	// Transactions, and how many of them had rows in several groups and in
	// several stores.
	transactions, acrossGroups, acrossStores int
	// page is how many groups a page asks that shows all cabins.
	page int
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
	for i, l := range lines {
		if err := costs[i].locate(l, cabins); err != nil {
			return nil, err
		}
	}
	for cabins := range slices.Chunk(cabins, turn) {
		for i, l := range lines {
			before := db.Metrics()
			for _, c := range cabins {
				start := time.Now()
				if err := book(ctx, l, c, customerOf(c)); err != nil {
					return nil, err
				}
				costs[i].times = append(costs[i].times, time.Since(start))
			}
			costs[i].add(before, db.Metrics())
		}
	}
	return costs, nil
}

// customerOf is the customer that books a cabin. The name has nothing to do with the cabin's:
// slots are a checksum, and those of names that are alike differ in like ways.
func customerOf(c cabin) string {
	return fmt.Sprintf("customer %06d", hash.XXH3String(c.String()).Uint64()%1_000_000)
}

// locate looks up where the rows are that the bookings of cabins touch.
func (c *cost) locate(l *line, cabins []cabin) error {
	var page [][]byte
	for _, cabin := range cabins {
		k, err := l.keys(l.layout, cabin, customerOf(cabin))
		if err != nil {
			return err
		}
		page = append(page, k.cabin)
		for _, touched := range [][][]byte{{k.cabin, k.hold}, {k.cabin, k.hold, k.contract}} { // hold, confirm
			groups, stores := spread(l.rows, touched...)
			c.transactions++
			if groups > 1 {
				c.acrossGroups++
			}
			if stores > 1 {
				c.acrossStores++
			}
		}
	}
	c.page, _ = spread(l.rows, page...)
	return nil
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
